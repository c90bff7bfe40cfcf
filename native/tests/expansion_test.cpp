// The tables of the card's expansion, read on the host: the same floats as the CPU's.
#include "cuda/expansion.hpp"

#include <cstdio>
#include <random>

#include "core/expand.hpp"
#include "games/all_games.hpp"

using namespace playmill;

namespace {

// Floats of a row, as the kernel writes them.
std::vector<float> expanded(const Expansion& expansion, const std::uint8_t* row) {
  std::vector<float> single, out;
  for (const Feature& feature : expansion.singles) single.push_back(feature_of(feature, row));
  for (const Octet& octet : expansion.octets) {
    const unsigned bits = octet_bits(octet, row);
    for (int k = 0; k < 8; ++k)
      out.push_back(octet.singles < 0 ? static_cast<float>(bits >> k & 1)
                                      : single[static_cast<std::size_t>(octet.singles + k)]);
  }
  return out;
}

bool agrees(const char* name, const Schema& schema) {
  const Expansion expansion(schema);
  Expander reference(schema, 1);
  std::mt19937 random(1);
  for (int trial = 0; trial < 500; ++trial) {
    // One byte more: the last bits may be read with their neighbour.
    std::vector<std::uint8_t> row(static_cast<std::size_t>(schema.bytes()) + 1);
    for (auto& byte : row) byte = static_cast<std::uint8_t>(random() % 3 != 0 ? random() % 16 : random());
    std::vector<float> wanted(static_cast<std::size_t>(schema.features()));
    reference.expand(row.data(), 1, wanted.data());
    wanted.resize((wanted.size() + 7) / 8 * 8);
    if (expanded(expansion, row.data()) == wanted) continue;
    std::printf("%s: row %d differs\n", name, trial);
    return false;
  }
  return true;
}

}  // namespace

int main() {
  bool good = true;
  for (const auto& [name, entry] : all_games()) good &= agrees(name.c_str(), entry.facts({}).schema);
  good &= agrees("eight players", all_games().at("skull_king").facts({{"players", 8}}).schema);

  Schema every;  // every encoding, odd widths, more runs in eight features than an octet holds
  every.bits("a", 3, 5).u8("n", 1, 1, 1.0f).category("c", 4, 2, 3).counted("n").i16("d", 2, 3, 0.1f);
  every.log16("e", 1, 2, 0.5f).bits("f", 7, 13).u16("g", 1, 1, 0.01f).bits("h", 17, 1).f16("i", 2, 3, 0.5f);
  good &= agrees("every encoding", every);
  Schema counted;
  counted.u8("n", 1, 1, 1.0f).bits("x", 9, 3).counted("n").category("y", 9, 1, 2);
  good &= agrees("counted", counted);
  return good ? 0 : 1;
}
