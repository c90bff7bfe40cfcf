// Binds `SumTree`: what is drawn in proportion to its weight.
#include "../core/sum_tree.hpp"

#include "arrays.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace playmill;

namespace {

using Longs1 = Array<std::int64_t, 1>;

[[noreturn]] void refuse(const std::string& why) { throw nb::value_error(why.c_str()); }

void check_leaves(const SumTree& tree, const Longs1& leaves) {
  for (std::size_t i = 0; i < leaves.shape(0); ++i)
    if (leaves.data()[i] < 0 || static_cast<std::size_t>(leaves.data()[i]) >= tree.leaves())
      refuse("there is no leaf " + std::to_string(leaves.data()[i]) + " among " + std::to_string(tree.leaves()));
}

// All weights are checked before the first is set.
void set(SumTree& tree, Longs1 leaves, Floats1 weights) {
  want(weights, "weights", {leaves.shape(0)});
  check_leaves(tree, leaves);
  for (std::size_t i = 0; i < weights.shape(0); ++i)
    if (!(weights.data()[i] >= 0 && std::isfinite(weights.data()[i])))
      refuse("weight " + std::to_string(i) + " must be finite and not negative, got " +
             std::to_string(weights.data()[i]));
  nb::gil_scoped_release release;
  tree.set(leaves.data(), weights.data(), leaves.shape(0));
}

void sample(const SumTree& tree, std::uint64_t seed, std::uint64_t counter, double beta, Longs1 leaves,
            Floats1 importance) {
  want(importance, "importance", {leaves.shape(0)});
  if (leaves.shape(0) == 0) return;
  if (!(tree.total() > 0)) refuse("all weights are 0: there is nothing to draw");
  nb::gil_scoped_release release;
  tree.sample(seed, counter, leaves.shape(0), leaves.data(), importance.data());
  SumTree::importance(beta, leaves.shape(0), importance.data());
}

void strata(std::uint64_t seed, std::uint64_t counter, Array<double, 1> out) {
  Random random(seed, counter);
  for (std::size_t k = 0; k < out.shape(0); ++k) out.data()[k] = in_stratum(k, out.shape(0), random);
}

}  // namespace

void playmill::bind_sum_tree(nb::module_& m) {
  m.def("strata", &strata, "seed"_a, "counter"_a, "out"_a.noconvert());
  nb::class_<SumTree>(m, "SumTree")
      .def(
          "__init__",
          [](SumTree* self, std::size_t leaves) {
            if (leaves == 0) refuse("a tree needs at least one leaf");
            new (self) SumTree(leaves);
          },
          "leaves"_a)
      .def_static("bytes_for", &SumTree::bytes_for, "leaves"_a)
      .def_prop_ro("leaves", &SumTree::leaves)
      .def_prop_ro("total", &SumTree::total)
      .def("set", &set, "leaves"_a, "weights"_a)
      .def("sample", &sample, "seed"_a, "counter"_a, "beta"_a, "leaves"_a.noconvert(), "importance"_a.noconvert());
}
