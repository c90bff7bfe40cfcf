// What the binding files share: arrays as Python hands them over, and games by name.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "../core/registry.hpp"

namespace playmill {

template <class T, std::size_t Dimensions>
using Array = nanobind::ndarray<T, nanobind::ndim<Dimensions>, nanobind::c_contig, nanobind::device::cpu>;
using Bytes1 = Array<std::uint8_t, 1>;
using Bytes2 = Array<std::uint8_t, 2>;
using Floats1 = Array<float, 1>;
using Floats2 = Array<float, 2>;
using Ints1 = Array<std::int32_t, 1>;

// The game called `name`, or a KeyError.
const GameEntry& entry(const std::string& name);

template <class A>
void want(const A& array, const char* name, std::initializer_list<std::size_t> shape) {
  std::size_t axis = 0;
  for (const std::size_t size : shape) {
    if (array.shape(axis) != size)
      throw nanobind::value_error((std::string(name) + " must have " + std::to_string(size) + " along axis " +
                                   std::to_string(axis) + ", got " + std::to_string(array.shape(axis)))
                                      .c_str());
    ++axis;
  }
}

inline nanobind::bytes to_bytes(const std::vector<std::uint8_t>& data) {
  return nanobind::bytes(reinterpret_cast<const char*>(data.data()), data.size());
}

// Binds `Hall`; see hall.cpp.
void bind_hall(nanobind::module_& m);

// Binds `SumTree`; see sum_tree.cpp.
void bind_sum_tree(nanobind::module_& m);

}  // namespace playmill
