// A policy's layers on the card: expansion, one or two trunks of linear layers with relu, and one
// head of logits and value; forwards, and backwards into flat gradients.
//
// The two trunks (policy and value) lie side by side: the first layer is one product of twice the
// width, the others are pairs in one batch, and the head is one block of rows in which each trunk
// meets its own outputs and zeros stand elsewhere. The last activations carry a column of ones, so
// that the head's biases are one more column of the block.
#pragma once

#include <string>
#include <vector>

#include "products.hpp"
#include "streamed.hpp"

namespace playmill {

struct MlpShape {
  int trunks = 1;
  int actions = 0;
  std::vector<int> hidden;  // multiples of 128
  Precision precision = Precision::kBfloat16;
};

// Where a parameter lies in the flat weights.
struct Placed {
  std::string name;  // as the policy calls it
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape, strides;
};

class Mlp {
 public:
  // Room for `rows` rows; `training` keeps what the way back needs.
  Mlp(const Schema& schema, const MlpShape& shape, int rows, bool training);

  std::int64_t size() const { return size_; }  // of the flat weights
  const std::vector<Placed>& layout() const { return layout_; }
  HeadCells head_cells() const;
  int stride() const { return stride_; }  // of a row of heads: logits, value, zeros
  void* head_gradient() const { return gradient_.as(); }

  // heads[rows, stride] of the packed rows (of rows[index] where given).
  void forward(const void* weights, const std::uint8_t* packed, const std::int32_t* index, int rows, float* heads,
               cudaStream_t stream);
  // From head_gradient() of the rows last taken forward; `add`: to the gradients that are there.
  void backward(const void* weights, int rows, bool add, float* gradients, cudaStream_t stream);

  bool streamed = true;  // take the way back through streamed products where the card can

 private:
  // The slopes of a layer from those behind it, with part sums of their columns in sums_: how many.
  int back_into(std::size_t layer, const void* weights, int rows, cudaStream_t stream);
  void head_gradients(int rows, bool add, float* gradients, cudaStream_t stream);
  void weight_gradients(std::size_t layer, int rows, bool add, float* gradients, cudaStream_t stream);

  int width(std::size_t layer) const { return shape_.trunks * shape_.hidden[layer]; }
  int activation_stride(std::size_t layer) const { return width(layer) + (layer + 1 == shape_.hidden.size() ? 16 : 0); }
  const void* at(const void* base, std::int64_t element) const {
    return static_cast<const char*>(base) + element * static_cast<std::int64_t>(size_of(shape_.precision));
  }
  void* at(void* base, std::int64_t element) const {
    return static_cast<char*>(base) + element * static_cast<std::int64_t>(size_of(shape_.precision));
  }
  void place(const Schema& schema);

  MlpShape shape_;
  int features_, padded_, rows_, stride_;
  bool training_;
  std::int64_t size_ = 0, head_ = 0;
  std::vector<std::int64_t> weight_, bias_;  // offsets by layer
  std::vector<Placed> layout_;
  Products products_;
  ExpansionTable table_;
  DeviceMemory input_, gradient_, sums_;
  std::vector<DeviceMemory> activation_, slope_;
};

}  // namespace playmill
