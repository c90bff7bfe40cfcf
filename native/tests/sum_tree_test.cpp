// The tree of sums: what is drawn, how often, and in which order.
#include "../core/sum_tree.hpp"

#include <cmath>
#include <numeric>

#include "check.hpp"

using namespace playmill;

namespace {

std::vector<std::int64_t> all_of(std::size_t leaves) {
  std::vector<std::int64_t> out(leaves);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

void leaves_come_in_proportion_and_in_order() {
  for (const std::size_t leaves : {1u, 15u, 16u, 17u, 256u, 257u, 5000u}) {
    SumTree tree(leaves);
    std::vector<float> weights(leaves);
    Random random(leaves, 0);
    for (auto& w : weights) w = static_cast<float>(random.below(4));
    weights.back() = 2;
    tree.set(all_of(leaves).data(), weights.data(), leaves);
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    CHECK(tree.total() == total);
    // So many strata that each leaf gets its share of them, but for the two at its borders.
    const auto n = static_cast<std::size_t>(total) * 10;
    std::vector<std::int64_t> drawn(n);
    std::vector<float> weighed(n);
    tree.sample(1, 2, n, drawn.data(), weighed.data());
    for (std::size_t i = 0; i < n; ++i) CHECK(weighed[i] == weights[static_cast<std::size_t>(drawn[i])]);
    CHECK(std::is_sorted(drawn.begin(), drawn.end()));
    std::vector<double> often(leaves);
    for (const auto leaf : drawn) ++often[static_cast<std::size_t>(leaf)];
    for (std::size_t i = 0; i < leaves; ++i) CHECK(often[i] == 10.0 * weights[i]);
  }
}

void sums_follow_single_changes() {
  SumTree tree(1000);
  Random random(3, 0);
  std::vector<float> weights(1000);
  for (int round = 0; round < 200; ++round) {
    std::int64_t leaves[8];
    float given[8];
    for (int i = 0; i < 8; ++i) {
      leaves[i] = random.below(1000);
      given[i] = static_cast<float>(random.below(100));
      weights[static_cast<std::size_t>(leaves[i])] = given[i];
    }
    tree.set(leaves, given, 8);
    CHECK(tree.total() == std::accumulate(weights.begin(), weights.end(), 0.0));
  }
}

void importance_is_a_share_of_the_largest() {
  float weights[] = {16, 4, 4};
  SumTree::importance(0.5, 3, weights);
  CHECK(weights[0] == 0.5f && weights[1] == 1.0f && weights[2] == 1.0f);
}

void the_bytes_are_those_of_whole_nodes() {
  CHECK(SumTree::bytes_for(1) == 64);
  CHECK(SumTree::bytes_for(16) == 64);
  CHECK(SumTree::bytes_for(17) == 128 + 128);
  CHECK(SumTree::bytes_for(257) == 17 * 64 + 2 * 128 + 128);
}

}  // namespace

int main() {
  leaves_come_in_proportion_and_in_order();
  sums_follow_single_changes();
  importance_is_a_share_of_the_largest();
  the_bytes_are_those_of_whole_nodes();
  return 0;
}
