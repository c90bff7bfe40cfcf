// What a player in fog knows, kept and written for whole boards at a time, is what it would be square by square.
#include "core/fog.hpp"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "check.hpp"

using namespace playmill;

namespace {

std::mt19937_64 source(11);

using Bits = std::vector<std::uint64_t>;
bool has(const Bits& plane, int i) { return plane[static_cast<std::size_t>(i >> 6)] >> (i & 63) & 1; }

// A board that changes at will, and a player who looks at it.
struct Player {
  int width, squares, words;
  Edges edges;
  Bits own, sight, explored, city, known_city, closed;
  std::vector<std::uint16_t> army, last;
  std::vector<std::uint8_t> age;

  Player(int w, int h) : width(w), squares(w * h), words(plane_bits(w * h) / 64), edges(w, h) {
    for (Bits* plane : {&own, &sight, &explored, &city, &known_city, &closed})
      plane->resize(static_cast<std::size_t>(words));
    army.resize(static_cast<std::size_t>(squares));
    last.resize(static_cast<std::size_t>(squares), 9);
    age.resize(static_cast<std::size_t>(squares), 9);
  }
  Bits some(int rare) const {
    Bits out(static_cast<std::size_t>(words));
    for (int w = 0; w < words; ++w) {
      std::uint64_t bits = edges.all[w];
      for (int k = 0; k < rare; ++k) bits &= source();
      out[static_cast<std::size_t>(w)] = bits;
    }
    return out;
  }
  Look look() {
    Look out;
    out.sight = sight.data();
    out.explored = explored.data();
    out.age = age.data();
    out.last[out.planes] = known_city.data();
    out.now[out.planes++] = city.data();
    return out;
  }
  std::vector<std::uint8_t> row(bool told, bool wide) const {
    View view;
    view.sight = sight.data();
    view.explored = explored.data();
    view.own = own.data();
    view.closed = closed.data();
    if (told) view.built = city.data();
    view.last_planes[view.planes++] = known_city.data();
    view.mark[view.marks++] = -1;
    view.mark[view.marks++] = squares - 1;
    view.now = army.data();
    view.last = last.data();
    view.age = age.data();
    const int bytes = 7 * ((squares + 7) / 8) + 3 * squares;
    std::vector<std::uint8_t> out(static_cast<std::size_t>(bytes) + 4, 0xAB);
    const auto* end = (wide ? write_view : write_view_plain)(view, squares, words, out.data());
    CHECK(end - out.data() == bytes);
    for (int i = 0; i < 4; ++i) CHECK(end[i] == 0xAB);
    return out;
  }
};

// An attentive player, a number at a time.
struct Notes {
  std::vector<int> army, age;
  std::vector<bool> city;
};

void check_row(const Player& p, const Notes& notes, bool told) {
  const auto row = p.row(told, true);
  CHECK(row == p.row(told, false));
  const int bytes = (p.squares + 7) / 8;
  for (int i = 0; i < p.squares; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto bit = [&](int plane) {
      return (row[static_cast<std::size_t>(plane * bytes + (i >> 3))] >> (i & 7) & 1) != 0;
    };
    const bool seen = notes.age[at] >= 0;
    CHECK(bit(0) == has(p.sight, i) && bit(1) == seen && bit(2) == has(p.own, i));
    CHECK(bit(3) == notes.city[at]);
    CHECK(bit(4) == (i == p.squares - 1));
    CHECK(bit(5) == (has(p.closed, i) && seen));
    CHECK(bit(6) == (told && !seen && (has(p.closed, i) || has(p.city, i))));
    const auto number = static_cast<std::size_t>(7 * bytes + 2 * i);
    CHECK(row[number] + 256 * row[number + 1] == notes.army[at]);
    CHECK(row[static_cast<std::size_t>(7 * bytes + 2 * p.squares + i)] == (seen ? std::min(notes.age[at], 255) : 255));
  }
}

void watching(int width, int height) {
  Player p(width, height);
  const auto n = static_cast<std::size_t>(p.squares);
  Notes notes{std::vector<int>(n, 0), std::vector<int>(n, -1), std::vector<bool>(n, false)};
  p.closed = p.some(2);
  for (int tick = 0; tick < 600; ++tick) {
    Player twin = p;
    if (tick % 20 < 3) {  // whoever may lose squares keeps what is in sight
      keep_numbers(p.army.data(), p.sight.data(), p.squares, p.last.data());
      keep_numbers_plain(twin.army.data(), twin.sight.data(), twin.squares, twin.last.data());
      CHECK(p.last == twin.last);
      p.own = tick < 300 ? p.some(6) : Bits(p.own.size());  // in the end all fades away
    } else {
      for (std::size_t w = 0; w < p.own.size(); ++w) p.own[w] |= tick < 300 && tick % 5 == 0 ? p.some(9)[w] : 0;
    }
    p.city = p.some(3);
    for (auto& a : p.army) a = static_cast<std::uint16_t>(source());
    twin.own = p.own;
    twin.city = p.city;
    look_from(p.own.data(), p.width, p.edges, p.squares, p.words, p.look());
    look_plain(twin.own.data(), twin.width, twin.edges, twin.squares, twin.words, twin.look());
    CHECK(p.sight == twin.sight && p.explored == twin.explored && p.known_city == twin.known_city);
    CHECK(p.age == twin.age);
    for (int i = 0; i < p.squares; ++i) {
      const auto at = static_cast<std::size_t>(i);
      bool near = false;
      for (int k = 0; k < 9; ++k) {
        const int x = i % width + k % 3 - 1, y = i / width + k / 3 - 1;
        near |= x >= 0 && y >= 0 && x < width && y < height && has(p.own, y * width + x);
      }
      CHECK(has(p.sight, i) == near);
      if (near) {
        notes.army[at] = p.army[at];
        notes.city[at] = has(p.city, i);
      }
      notes.age[at] = near ? 0 : notes.age[at] < 0 ? -1 : notes.age[at] + 1;
    }
    if (tick % 7 == 0 || tick > 590) check_row(p, notes, tick % 2 == 0);
  }
}

}  // namespace

int main() {
  for (const auto& [width, height] :
       {std::pair{4, 4}, {7, 9}, {8, 8}, {9, 8}, {20, 20}, {19, 23}, {22, 23}, {25, 25}, {32, 32}})
    watching(width, height);
  return 0;
}
