// The core by itself: sets, randomness, schemas, expansion, sampling, returns, threads. The
// pool of games has a program of its own, pool_test.cpp.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <set>
#include <vector>

#include "../core/expand.hpp"
#include "../core/returns.hpp"
#include "../core/sample.hpp"
#include "../core/vtrace.hpp"
#include "check.hpp"

using namespace playmill;

namespace {

template <class Error>
bool throws(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error&) {
    return true;
  }
  return false;
}

// ---- Bit sets ----

void a_bit_set_holds_what_was_added() {
  BitSet<130> set;
  CHECK(set.empty() && set.count() == 0 && BitSet<130>::kWords == 3);
  for (int i : {0, 63, 64, 127, 128, 129}) set.add(i);
  CHECK(set.count() == 6 && !set.empty());
  CHECK(set.has(63) && set.has(64) && set.has(129) && !set.has(1) && !set.has(126));
  const int members[] = {0, 63, 64, 127, 128, 129};
  for (int n = 0; n < 6; ++n) CHECK(set.nth(n) == members[n]);
  set.remove(64);
  CHECK(!set.has(64) && set.nth(2) == 127 && set.count() == 5);
  set.clear();
  CHECK(set.empty() && set == BitSet<130>{});
}

void bit_sets_combine_like_sets() {
  BitSet<100> low, high;
  low.add_range(0, 70);
  high.add_range(60, 40);
  CHECK(low.count() == 70 && high.count() == 40);
  CHECK((low & high).count() == 10 && (low & high).nth(0) == 60 && (low & high).nth(9) == 69);
  CHECK((low | high).count() == 100);
  CHECK((low - high).count() == 60 && !(low - high).has(60) && (low - high).has(59));
  CHECK(!(low == high) && (low - high) == (low - (low & high)));
  BitSet<100> none;
  none.add_range(50, 0);
  CHECK(none.empty());
}

// ---- Randomness ----

// These numbers are the deals of every seed there is: they never change. They were computed
// by another program, from the published splitmix64.
void a_seed_names_its_draws_for_ever() {
  CHECK(mix64(0x9E3779B97F4A7C15ull) == 0xE220A8397B1DCDAFull);  // splitmix64's first output of state 0
  Random zero(0, 0);
  for (std::uint32_t wanted : {0x6E58CB0Cu, 0x778B7B3Au, 0x35FBD40Du, 0x24096D01u}) CHECK(zero.next() == wanted);
  Random other(123456789, kBotStream + 7);
  for (std::uint32_t wanted : {0x863BF8A6u, 0x2DF9E414u, 0xF482156Cu, 0x5F1B0696u}) CHECK(other.next() == wanted);
  Random cards(2026, 3);
  for (std::uint32_t wanted : {19u, 34u, 58u, 20u, 31u, 15u, 58u, 73u}) CHECK(cards.below(74) == wanted);
  CHECK(Random(0, 0).unit() == static_cast<float>(Random(0, 0).next() >> 8) / 16777216.0f);
}

void below_is_in_range_and_even() {
  Random random(5, 0);
  for (int i = 0; i < 1000; ++i) CHECK(random.below(1) == 0);
  for (const std::uint32_t n : {2u, 3u, 7u, 74u}) {
    constexpr int kEach = 4000;
    std::vector<int> often(n);
    for (std::uint32_t i = 0; i < n * kEach; ++i) {
      const auto drawn = random.below(n);
      CHECK(drawn < n);
      ++often[drawn];
    }
    double chi = 0;
    for (const int count : often) chi += (count - kEach) * (count - kEach) / static_cast<double>(kEach);
    CHECK(chi < n + 6 * std::sqrt(2.0 * n));
  }
  // Of 3 * 2^30 numbers, those that are 0 modulo 3 come half the time if nothing is rejected.
  int thirds[3] = {};
  for (int i = 0; i < 30000; ++i) ++thirds[random.below(0xC0000000u) % 3];
  for (const int count : thirds) CHECK(std::abs(count - 10000) < 500);
}

void unit_is_even_and_below_one() {
  Random random(6, 0);
  int often[16] = {};
  for (int i = 0; i < 64000; ++i) {
    const float u = random.unit();
    CHECK(u >= 0.0f && u < 1.0f);
    ++often[static_cast<int>(u * 16)];
  }
  for (const int count : often) CHECK(std::abs(count - 4000) < 400);
}

void streams_are_independent() {
  std::set<std::uint64_t> first;
  for (std::uint64_t seed = 0; seed < 100; ++seed)
    for (std::uint64_t stream = 0; stream < 100; ++stream) {
      Random random(seed, stream);
      const std::uint64_t high = random.next();
      first.insert(high << 32 | random.next());
    }
  CHECK(first.size() == 10000);  // (a, b) and (b, a) are different streams too
  // Neighbouring seeds and streams agree in half of their bits, as strangers do.
  int same_seed = 0, same_stream = 0;
  constexpr int kPairs = 2000;
  for (std::uint64_t i = 0; i < kPairs; ++i) {
    same_seed += popcount64(static_cast<std::uint32_t>(~(Random(7, i).next() ^ Random(7, i + 1).next())));
    same_stream += popcount64(static_cast<std::uint32_t>(~(Random(i, 7).next() ^ Random(i + 1, 7).next())));
  }
  CHECK(std::abs(same_seed - 16 * kPairs) < 700 && std::abs(same_stream - 16 * kPairs) < 700);
}

// ---- Schemas ----

void fields_lie_one_after_another() {
  Schema schema;
  schema.bits("flags", 2, 11).u8("count", 1, 1, 1.0f).u16("wide", 1, 2, 0.5f).i16("signed", 2, 1, 1.0f);
  schema.log16("large", 1, 1, 1.0f).category("kind", 3, 2, 5).counted("count").u8("last", 1, 1, 1.0f);
  const int offsets[] = {0, 4, 5, 9, 13, 15, 21};
  const int features[] = {0, 22, 23, 25, 27, 28, 58};
  for (std::size_t i = 0; i < schema.fields().size(); ++i) {
    CHECK(schema.fields()[i].offset == offsets[i]);
    CHECK(schema.fields()[i].feature == features[i]);
  }
  CHECK(schema.bytes() == 22 && schema.features() == 59);
  CHECK(schema.find("kind")->counted == "count" && schema.find("absent") == nullptr);
}

void the_hash_depends_on_every_property() {
  const Field plain{"a", Encoding::kU8, 2, 3, 0, 0.5f};
  const auto hash = [](std::initializer_list<Field> fields, bool counted = false) {
    Schema schema;
    schema.u8("n", 1, 1, 1.0f);
    for (const auto& field : fields) schema.add(field);
    if (counted) schema.counted("n");
    return schema.hash();
  };
  std::vector<Field> variants(6, plain);
  variants[0] = {"b", Encoding::kU8, 2, 3, 0, 0.5f};
  variants[1].encoding = Encoding::kU16;
  variants[2].rows = 3;
  variants[3].columns = 2;
  variants[4].scale = 0.25f;
  variants[5] = {"a", Encoding::kCategory, 2, 3, 4};
  std::set<std::uint64_t> hashes{hash({plain}), hash({plain}, true), hash({})};
  for (const auto& variant : variants) hashes.insert(hash({variant}));
  variants[5].size = 5;
  hashes.insert(hash({variants[5]}));
  hashes.insert(hash({plain, variants[0]}));
  hashes.insert(hash({variants[0], plain}));
  CHECK(hashes.size() == 12);
  CHECK(hash({plain}) == hash({plain}));
}

void a_wrong_field_is_refused() {
  using Bad = std::invalid_argument;
  CHECK(throws<Bad>([] { Schema().bits("a", 1, 1).u8("a", 1, 1, 1.0f); }));
  CHECK(throws<Bad>([] { Schema().bits("a", 0, 1); }));
  CHECK(throws<Bad>([] { Schema().bits("a", 1, 0); }));
  CHECK(throws<Bad>([] { Schema().category("a", 1, 1, 0); }));
  CHECK(throws<Bad>([] { Schema().category("a", 1, 1, 256); }));
  CHECK(throws<Bad>([] { Schema().counted("a"); }));
  CHECK(throws<Bad>([] { Schema().bits("a", 1, 1).counted("n"); }));
  CHECK(throws<Bad>([] { Schema().u8("n", 1, 2, 1.0f).bits("a", 1, 1).counted("n"); }));
  CHECK(throws<Bad>([] { Schema().u16("n", 1, 1, 1.0f).bits("a", 1, 1).counted("n"); }));
  CHECK(throws<Bad>([] { Schema().u8("n", 1, 1, 1.0f).counted("n"); }));  // not by itself
}

void a_writer_writes_little_endian() {
  std::uint8_t out[9];
  Writer write(out);
  write.u8(200);
  write.u16(0x1234);
  write.i16(-2);
  write.bits(0x010203, 3);
  write.raw("z", 1);
  const std::uint8_t wanted[] = {200, 0x34, 0x12, 0xFE, 0xFF, 3, 2, 1, 'z'};
  CHECK(write.at() == out + 9 && std::memcmp(out, wanted, 9) == 0);
}

// ---- Expansion ----

void rows_expand_as_worked_by_hand() {
  Schema schema;
  schema.u8("n", 1, 1, 0.5f).bits("flags", 2, 3).counted("n").u16("wide", 1, 1, 0.001f);
  schema.i16("signed", 1, 2, 2.0f).log16("large", 1, 1, 0.25f).category("kind", 2, 2, 3).counted("n");
  const std::uint8_t rows[] = {// one live row; the padding of its flags is set and means nothing
                               1, 0b11111101, 0b111, 0xE8, 0x03, 0xFF, 0xFF, 5, 0, 0xFF, 0x00, 2, 3, 1, 1,
                               // more rows claimed than there are
                               9, 0b010, 0b100, 0, 0, 0x00, 0x80, 0xFF, 0x7F, 0, 0, 255, 0, 1, 2};
  const float wanted[] = {0.5f, 1, 0, 1, 0, 0, 0, 1.0f, -2,     10,    2.0f, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0,  //
                          4.5f, 0, 1, 0, 0, 0, 1, 0,    -65536, 65534, 0,    0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
  CHECK(sizeof rows == 2 * static_cast<std::size_t>(schema.bytes()));
  CHECK(sizeof wanted == 2 * sizeof(float) * static_cast<std::size_t>(schema.features()));
  std::vector<float> out(2 * static_cast<std::size_t>(schema.features()), -1.0f);
  Expander(schema, 1).expand(rows, 2, out.data());
  for (std::size_t i = 0; i < out.size(); ++i) CHECK(std::abs(out[i] - wanted[i]) < 1e-5f);
}

void half_floats_are_the_usual_ones_without_infinity() {
  const struct {
    std::uint16_t half;
    float value;
  } known[] = {{0x0000, 0.0f},     {0x3C00, 1.0f},       {0xBC00, -1.0f},    {0x3800, 0.5f},     {0x7BFF, 65504.0f},
               {0x0001, 0x1p-24f}, {0x03FF, 0x3FFp-24f}, {0x0400, 0x1p-14f}, {0x7C00, 65536.0f}, {0xFFFF, -131008.0f}};
  for (const auto& [half, value] : known) CHECK(half_value(half) == value);
}

Schema every_encoding() {
  Schema schema;
  schema.u8("n", 1, 1, 0.1f).bits("wide", 3, 70).bits("counted_bits", 4, 9).counted("n");
  schema.category("kind", 5, 2, 7).counted("n").u8("small", 1, 3, 0.2f).u16("more", 2, 1, 0.001f).counted("n");
  schema.i16("signed", 1, 4, 0.01f).log16("large", 2, 2, 0.1f).category("one", 1, 1, 255).f16("half", 1, 3, 0.5f);
  return schema;
}

struct Dense {
  std::vector<std::uint8_t> rows;
  std::vector<float> weight, bias, upstream, features;
  std::size_t n;
  int width;
};

Dense random_case(const Schema& schema, std::size_t n, int width) {
  Random random(static_cast<std::uint64_t>(width), n);
  Dense dense{.n = n, .width = width};
  const auto fill = [&random](std::vector<float>& out, std::size_t size) {
    for (out.resize(size); auto& value : out) value = random.unit() * 2 - 1;
  };
  dense.rows.resize(n * static_cast<std::size_t>(schema.bytes()));
  for (auto& byte : dense.rows) byte = static_cast<std::uint8_t>(random.below(2) ? random.next() : random.below(8));
  fill(dense.weight, static_cast<std::size_t>(schema.features() * width));
  fill(dense.bias, static_cast<std::size_t>(width));
  fill(dense.upstream, n * static_cast<std::size_t>(width));
  dense.features.resize(n * static_cast<std::size_t>(schema.features()));
  Expander(schema, 1).expand(dense.rows.data(), n, dense.features.data());
  return dense;
}

bool near(double got, double wanted) { return std::abs(got - wanted) < 1e-4 * (1 + std::abs(wanted)); }

void the_first_layer_equals_the_dense_product() {
  const Schema schema = every_encoding();
  const int features = schema.features();
  Expander expander(schema, 1);
  for (const int width : {1, 7, 16, 33, 128, 150, 257}) {
    const Dense dense = random_case(schema, 23, width);
    std::vector<float> out(dense.n * static_cast<std::size_t>(width), 7.0f);
    expander.forward(dense.rows.data(), dense.n, dense.weight.data(), dense.bias.data(), width, out.data());
    std::vector<float> gradient(dense.weight.size(), 7.0f);  // is overwritten, not added to
    expander.backward(dense.rows.data(), dense.n, dense.upstream.data(), width, gradient.data());
    for (std::size_t i = 0; i < dense.n; ++i)
      for (int c = 0; c < width; ++c) {
        double sum = dense.bias[static_cast<std::size_t>(c)];
        for (int f = 0; f < features; ++f)
          sum += static_cast<double>(
                     dense.features[i * static_cast<std::size_t>(features) + static_cast<std::size_t>(f)]) *
                 static_cast<double>(dense.weight[static_cast<std::size_t>(f * width + c)]);
        CHECK(near(out[i * static_cast<std::size_t>(width) + static_cast<std::size_t>(c)], sum));
      }
    for (int f = 0; f < features; ++f)
      for (int c = 0; c < width; ++c) {
        double sum = 0;
        for (std::size_t i = 0; i < dense.n; ++i)
          sum += static_cast<double>(
                     dense.features[i * static_cast<std::size_t>(features) + static_cast<std::size_t>(f)]) *
                 static_cast<double>(dense.upstream[i * static_cast<std::size_t>(width) + static_cast<std::size_t>(c)]);
        CHECK(near(gradient[static_cast<std::size_t>(f * width + c)], sum));
      }
  }
}

void the_number_of_threads_changes_no_bit_of_the_first_layer() {
  const Schema schema = every_encoding();
  for (const int width : {5, 48, 130}) {
    const Dense dense = random_case(schema, 101, width);
    std::vector<std::vector<float>> outs, gradients, expanded;
    for (const int threads : {1, 3}) {
      Expander expander(schema, threads);
      auto& out = outs.emplace_back(dense.n * static_cast<std::size_t>(width));
      auto& gradient = gradients.emplace_back(dense.weight.size());
      auto& floats = expanded.emplace_back(dense.features.size());
      expander.expand(dense.rows.data(), dense.n, floats.data());
      expander.forward(dense.rows.data(), dense.n, dense.weight.data(), dense.bias.data(), width, out.data());
      expander.backward(dense.rows.data(), dense.n, dense.upstream.data(), width, gradient.data());
    }
    CHECK(outs[0] == outs[1] && gradients[0] == gradients[1] && expanded[0] == expanded[1]);
  }
}

// ---- Sampling ----

struct Draws {
  std::vector<std::int32_t> action;
  std::vector<float> log;
};

Draws draw(int threads, const std::vector<float>& logits, const std::vector<std::uint8_t>& legal, std::size_t n,
           std::uint64_t step, bool greedy) {
  Workers workers(threads);
  Draws draws{std::vector<std::int32_t>(n), std::vector<float>(n)};
  sample_actions(workers, logits.data(), legal.data(), n, static_cast<int>(logits.size() / n),
                 static_cast<int>(legal.size() / n), 11, step, greedy, draws.action.data(), draws.log.data());
  return draws;
}

void actions_come_as_often_as_the_softmax_says() {
  constexpr std::size_t kRows = 200000;
  const float row[] = {0.5f, 9.0f, -1.0f, 2.0f, 1.0f};  // action 1 is illegal, and the likeliest
  std::vector<float> logits;
  for (std::size_t i = 0; i < kRows; ++i) logits.insert(logits.end(), row, row + 5);
  const std::vector<std::uint8_t> legal(kRows, 0b11101);
  const Draws draws = draw(2, logits, legal, kRows, 3, false);
  double total = 0;
  for (int a : {0, 2, 3, 4}) total += std::exp(static_cast<double>(row[a]));
  int often[5] = {};
  for (std::size_t i = 0; i < kRows; ++i) {
    const auto a = static_cast<std::size_t>(draws.action[i]);
    ++often[a];
    CHECK(std::abs(draws.log[i] - (row[a] - std::log(total))) < 1e-5);
  }
  CHECK(often[1] == 0);
  for (int a : {0, 2, 3, 4}) {
    const double p = std::exp(static_cast<double>(row[a])) / total;
    CHECK(std::abs(often[a] - p * kRows) < 5 * std::sqrt(p * (1 - p) * kRows));
  }
}

// 111 actions in 16 bytes, random legal sets, logits from tiny to huge.
void no_draw_is_ever_illegal() {
  constexpr std::size_t kRows = 3000, kActions = 111, kBytes = 16;
  Random random(1, 1);
  std::vector<float> logits(kRows * kActions);
  for (std::size_t i = 0; i < logits.size(); ++i)
    logits[i] = (random.unit() - 0.5f) * (i / kActions % 3 == 0 ? 2000.0f : 4.0f);
  std::vector<std::uint8_t> legal(kRows * kBytes);
  for (std::size_t i = 0; i < kRows; ++i) {
    legal[i * kBytes + 13] |= 0b01000000;  // the last action, 110, and perhaps some more
    for (auto more = random.below(4) * random.below(20); more > 0; --more) {
      const auto a = random.below(kActions);
      legal[i * kBytes + (a >> 3)] |= static_cast<std::uint8_t>(1u << (a & 7));
    }
  }
  const auto is_legal = [&](std::size_t i, std::size_t a) {
    return (legal[i * kBytes + (a >> 3)] >> (a & 7) & 1) != 0;
  };
  const Draws one = draw(1, logits, legal, kRows, 8, false);
  const Draws greedy = draw(1, logits, legal, kRows, 8, true);
  for (std::size_t i = 0; i < kRows; ++i) {
    CHECK(one.action[i] >= 0 && is_legal(i, static_cast<std::size_t>(one.action[i])));
    CHECK(std::isfinite(one.log[i]) && one.log[i] <= 1e-6f);
    std::size_t best = kActions;
    for (std::size_t a = 0; a < kActions; ++a)
      if (is_legal(i, a) && (best == kActions || logits[i * kActions + a] > logits[i * kActions + best])) best = a;
    // Below e^-87 all chances are as small, so compare the logits of what was taken.
    CHECK(logits[i * kActions + static_cast<std::size_t>(greedy.action[i])] == logits[i * kActions + best]);
  }
  for (const int threads : {2, 3}) {
    const Draws more = draw(threads, logits, legal, kRows, 8, false);
    CHECK(more.action == one.action && more.log == one.log);
  }
  CHECK(draw(1, logits, legal, kRows, 9, false).action != one.action);
}

void a_single_legal_action_is_certain() {
  const Draws draws = draw(1, {3.0f, -50.0f}, {0b10}, 1, 0, false);
  CHECK(draws.action[0] == 1 && draws.log[0] == 0.0f);
}

// ---- Returns ----

// One game of three seats that ends after step 3, and the beginning of the next. The numbers
// are worked out by hand for gamma = lambda = 1/2.
void returns_follow_each_seat_by_itself() {
  const std::uint8_t seat[] = {0, 1, 2, 0, 1, 2, 1};
  const std::uint8_t over[] = {0, 0, 0, 1, 0, 0, 0};
  const float value[] = {1, 2, 3, 4, 5, 6, 7};
  const float reward[] = {1, 0, 100, 0, 2, 1, 0, 1, 4, 8, 16, 32, 1, 1, 1, 2, 2, 2, 50, 50, 50};
  const float wanted[] = {
      1 + 0.5f * 4 - 1 + 0.25f * 4,  // seat 0: its next turn is step 3
      2 + 1 + 16 - 2,                // seat 1: paid by three turns, until the end
      4 + 32 - 3,                    // seat 2: the hundred came before its first turn
      8 - 4,                         // seat 0: the end
      1 + 2 + 0.5f * 7 - 5,          // seat 1 in the next game: closed by its value at step 6
      0,                             // seat 2: nothing known yet
      0,                             // seat 1: nothing known yet
  };
  const std::uint8_t known[] = {1, 1, 1, 1, 1, 0, 0};
  constexpr std::size_t kGames = 5;  // all alike
  const auto repeat = [](const auto* from, std::size_t width) {
    std::vector<std::remove_cvref_t<decltype(*from)>> out;
    for (std::size_t t = 0; t < 7; ++t)
      for (std::size_t g = 0; g < kGames; ++g) out.insert(out.end(), from + t * width, from + (t + 1) * width);
    return out;
  };
  const auto seats = repeat(seat, 1), overs = repeat(over, 1);
  const auto values = repeat(value, 1), rewards = repeat(reward, 3);
  for (const int threads : {1, 3}) {
    Workers workers(threads);
    std::vector<float> advantage(7 * kGames, -9.0f);
    std::vector<std::uint8_t> usable(7 * kGames, 9);
    const RolloutColumns columns{7, kGames, 3, rewards.data(), overs.data(), seats.data(), values.data()};
    seat_returns(workers, columns, 0.5f, 0.5f, advantage.data(), usable.data());
    for (std::size_t i = 0; i < 7 * kGames; ++i) {
      CHECK(advantage[i] == wanted[i / kGames]);
      CHECK(usable[i] == known[i / kGames]);
    }
  }
}

void vtrace_of_rows_played_just_now_is_the_returns() {
  constexpr std::size_t kSteps = 30, kGames = 3, kSeats = 4;
  Random random(5, 0);
  std::vector<std::uint8_t> seat, over;
  std::vector<float> value, reward, logs;
  for (std::size_t i = 0; i < kSteps * kGames; ++i) {
    seat.push_back(static_cast<std::uint8_t>(random.below(kSeats)));
    over.push_back(random.below(9) == 0);
    value.push_back(random.unit());
    logs.push_back(-random.unit());
    for (std::size_t s = 0; s < kSeats; ++s) reward.push_back(random.unit());
  }
  const RolloutColumns columns{kSteps, kGames, kSeats, reward.data(), over.data(), seat.data(), value.data()};
  std::vector<float> plain(seat.size()), advantage(seat.size()), target(seat.size()), weight(seat.size());
  std::vector<std::uint8_t> usable(seat.size()), known(seat.size());
  for (const int threads : {1, 3}) {
    Workers workers(threads);
    seat_returns(workers, columns, 0.9f, 0.7f, plain.data(), usable.data());
    seat_vtrace(workers, columns, {logs.data(), logs.data()}, {0.9f, 0.7f, 1.0f, 1.0f}, advantage.data(), target.data(),
                weight.data(), known.data());
    for (std::size_t i = 0; i < seat.size(); ++i) {
      CHECK(known[i] == usable[i]);
      CHECK(std::abs(target[i] - value[i] - plain[i]) < 1e-4f);
      CHECK(std::abs(advantage[i] - plain[i]) < 1e-4f);
      CHECK(weight[i] == (known[i] ? 1.0f : 0.0f));
    }
  }
}

// ---- Threads ----

void every_item_is_worked_on_once() {
  for (const int threads : {0, 1, 2, 3, 7}) {
    Workers workers(threads);
    CHECK(workers.threads() == (threads < 1 ? 1 : threads));
    for (const std::size_t count : {0u, 1u, 2u, 5u, 1000u}) {
      std::vector<std::atomic<int>> touched(count + 1);
      workers.run(count, [&](std::size_t begin, std::size_t end, int slice) {
        CHECK(slice >= 0 && slice < workers.slices() && begin <= end && end <= count);
        for (std::size_t i = begin; i < end; ++i) ++touched[i];
      });
      for (std::size_t i = 0; i < count; ++i) CHECK(touched[i] == 1);
    }
  }
}

void slices_depend_on_the_number_of_threads_alone() {
  for (const int threads : {1, 3}) {
    Workers workers(threads);
    const auto slices = static_cast<std::size_t>(workers.slices());
    std::vector<std::size_t> first;
    for (int round = 0; round < 100; ++round) {
      std::vector<std::size_t> ends(slices, 0);
      workers.run(1000, [&](std::size_t begin, std::size_t end, int slice) {
        CHECK(begin < end);
        ends[static_cast<std::size_t>(slice)] = end;
      });
      if (first.empty()) first = ends;
      CHECK(ends == first && ends.back() == 1000);
    }
    CHECK(std::is_sorted(first.begin(), first.end()));
    for (std::size_t t = 1; t <= static_cast<std::size_t>(threads); ++t)  // every thread has an equal share
      CHECK(first[t * slices / static_cast<std::size_t>(threads) - 1] == 1000 * t / static_cast<std::size_t>(threads));
  }
}

void an_exception_in_any_slice_reaches_the_caller() {
  for (const int threads : {1, 2, 3}) {
    Workers workers(threads);
    for (int bad = 0; bad < workers.slices(); ++bad) {
      CHECK(throws<std::out_of_range>([&] {
        workers.run(100, [&](std::size_t, std::size_t, int slice) {
          if (slice == bad) throw std::out_of_range("here");
        });
      }));
      std::atomic<std::size_t> done{0};  // and the team works on
      workers.run(100, [&](std::size_t begin, std::size_t end, int) { done += end - begin; });
      CHECK(done == 100);
    }
  }
}

void many_rounds_are_done_in_full() {
  Workers workers(3);
  std::atomic<std::size_t> done{0};
  for (std::size_t round = 0; round < 5000; ++round)
    workers.run(30, [&](std::size_t begin, std::size_t end, int) { done += end - begin; });
  CHECK(done == 150000);
  for (int i = 0; i < 100; ++i) {
    Workers brief(3);
    if (i % 2 == 0) brief.run(3, [](std::size_t, std::size_t, int) {});
  }
}

}  // namespace

int main() {
  a_bit_set_holds_what_was_added();
  bit_sets_combine_like_sets();
  a_seed_names_its_draws_for_ever();
  below_is_in_range_and_even();
  unit_is_even_and_below_one();
  streams_are_independent();
  fields_lie_one_after_another();
  the_hash_depends_on_every_property();
  a_wrong_field_is_refused();
  a_writer_writes_little_endian();
  rows_expand_as_worked_by_hand();
  half_floats_are_the_usual_ones_without_infinity();
  the_first_layer_equals_the_dense_product();
  the_number_of_threads_changes_no_bit_of_the_first_layer();
  actions_come_as_often_as_the_softmax_says();
  no_draw_is_ever_illegal();
  a_single_legal_action_is_certain();
  returns_follow_each_seat_by_itself();
  vtrace_of_rows_played_just_now_is_the_returns();
  every_item_is_worked_on_once();
  slices_depend_on_the_number_of_threads_alone();
  an_exception_in_any_slice_reaches_the_caller();
  many_rounds_are_done_in_full();
  return 0;
}
