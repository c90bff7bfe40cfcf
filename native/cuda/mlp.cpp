#include "mlp.hpp"

#include <algorithm>

namespace playmill {

namespace {

std::int64_t aligned(std::int64_t n) { return (n + 63) / 64 * 64; }

}  // namespace

Mlp::Mlp(const Schema& schema, const MlpShape& shape, int rows, bool training)
    : shape_(shape),
      features_(schema.features()),
      padded_((schema.features() + 7) / 8 * 8),
      rows_(rows),
      stride_((shape.actions + 1 + 15) / 16 * 16),
      training_(training),
      products_(shape.precision),
      table_(schema) {
  if (shape.precision == Precision::kFloat32) throw std::invalid_argument("native layers are bfloat16 or float16");
  for (const int width : shape.hidden)
    if (width % 128 != 0) throw std::invalid_argument("hidden widths must be multiples of 128");
  place(schema);
  const std::size_t element = size_of(shape.precision);
  const auto room = static_cast<std::size_t>(rows);
  input_ = DeviceMemory(room * static_cast<std::size_t>(padded_) * element);
  int widest = 0;
  for (std::size_t i = 0; i < shape.hidden.size(); ++i) {
    const auto stride = static_cast<std::size_t>(activation_stride(i));
    activation_.push_back(DeviceMemory(room * stride * element));
    widest = std::max(widest, width(i));
    if (!training) continue;
    slope_.push_back(DeviceMemory(room * static_cast<std::size_t>(width(i)) * element));
  }
  if (training) {
    gradient_ = DeviceMemory(room * static_cast<std::size_t>(stride_) * element);
    sums_ = DeviceMemory(static_cast<std::size_t>(mask_blocks()) * static_cast<std::size_t>(widest) * sizeof(float));
  }
  // Behind each row of the last activations: a one and zeros. Products write between them.
  activation_.back().clear(nullptr);
  const std::uint16_t one = shape.precision == Precision::kBfloat16 ? 0x3F80 : 0x3C00;
  const std::vector<std::uint16_t> ones(room, one);
  const std::size_t last = shape.hidden.size() - 1;
  check(cudaMemcpy2D(at(activation_.back().as(), width(last)),
                     static_cast<std::size_t>(activation_stride(last)) * element, ones.data(), element, element, room,
                     cudaMemcpyHostToDevice),
        "writing the ones");
  check(cudaDeviceSynchronize(), "making the layers");
}

// The order of the flat weights: matrices first, then all biases side by side, then the head.
void Mlp::place(const Schema& schema) {
  std::int64_t at = 0;
  const int trunks = shape_.trunks;
  const auto& hidden = shape_.hidden;
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    weight_.push_back(at);
    const std::int64_t inputs = i == 0 ? schema.features() : hidden[i - 1];
    if (i == 0) {
      layout_.push_back({"first.weight", at, {inputs, width(0)}, {width(0), 1}});
    } else {
      for (int t = 0; t < trunks; ++t)
        layout_.push_back({"trunks." + std::to_string(t) + "." + std::to_string(i - 1) + ".weight",
                           at + t * inputs * hidden[i],
                           {hidden[i], inputs},
                           {inputs, 1}});
    }
    at += aligned(inputs * width(i));
  }
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    bias_.push_back(at);
    if (i == 0) {
      layout_.push_back({"first.bias", at, {width(0)}, {1}});
    } else {
      for (int t = 0; t < trunks; ++t)
        layout_.push_back({"trunks." + std::to_string(t) + "." + std::to_string(i - 1) + ".bias",
                           at + t * hidden[i],
                           {hidden[i]},
                           {1}});
    }
    at += width(i);
  }
  head_ = at;
  const std::int64_t last = hidden.back();
  const std::int64_t stride = activation_stride(hidden.size() - 1);
  const std::int64_t value = head_ + shape_.actions * stride;
  layout_.push_back({"action_head.weight", head_, {shape_.actions, last}, {stride, 1}});
  layout_.push_back({"action_head.bias", head_ + trunks * last, {shape_.actions}, {stride}});
  layout_.push_back({"value_head.weight", value + (trunks - 1) * last, {1, last}, {stride, 1}});
  layout_.push_back({"value_head.bias", value + trunks * last, {1}, {stride}});
  size_ = aligned(head_ + stride_ * stride);
}

HeadCells Mlp::head_cells() const {
  const int stride = activation_stride(shape_.hidden.size() - 1);
  return {head_, size_, stride, shape_.actions, shape_.hidden.back(), shape_.trunks};
}

void Mlp::forward(const void* weights, const std::uint8_t* packed, const std::int32_t* index, int rows, float* heads,
                  cudaStream_t stream) {
  if (rows > rows_) throw std::invalid_argument("more rows than there is room for");
  table_.expand(packed, index, rows, shape_.precision, input_.as(), stream);
  const auto& hidden = shape_.hidden;
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    Product p;
    p.n = rows;
    p.d = activation_[i].as();
    p.ldd = activation_stride(i);
    p.epilogue = Epilogue::kReluBias;
    p.a = at(weights, weight_[i]);
    p.bias = at(weights, bias_[i]);
    if (i == 0) {
      p.m = p.lda = width(0);
      p.k = features_;
      p.b = input_.as();
      p.ldb = padded_;
    } else {
      p.m = hidden[i];
      p.k = p.lda = hidden[i - 1];
      p.transpose_a = true;
      p.b = activation_[i - 1].as();
      p.ldb = activation_stride(i - 1);
      p.batch = shape_.trunks;
      p.next_a = static_cast<std::int64_t>(p.m) * p.k;
      p.next_b = p.k;
      p.next_d = p.next_bias = p.m;
    }
    products_.run(p, stream);
  }
  const std::size_t last = hidden.size() - 1;
  Product head;
  head.m = head.ldd = stride_;
  head.n = rows;
  head.k = head.lda = head.ldb = activation_stride(last);
  head.a = at(weights, head_);
  head.transpose_a = true;
  head.b = activation_[last].as();
  head.d = heads;
  head.wide = true;
  products_.run(head, stream);
}

void Mlp::backward(const void* weights, int rows, bool add, float* gradients, cudaStream_t stream) {
  if (!training_) throw std::invalid_argument("these layers were made for inference");
  head_gradients(rows, add, gradients, stream);
  for (std::size_t layer = shape_.hidden.size(); layer-- > 0;) {
    const int parts = back_into(layer, weights, rows, stream);
    add_columns(sums_.as<float>(), parts, width(layer), add, gradients + bias_[layer], stream);
    weight_gradients(layer, rows, add, gradients, stream);
  }
}

void Mlp::head_gradients(int rows, bool add, float* gradients, cudaStream_t stream) {
  const std::size_t last = shape_.hidden.size() - 1;
  Product head;
  head.m = head.lda = head.ldd = activation_stride(last);
  head.n = head.ldb = stride_;
  head.k = rows;
  head.a = activation_[last].as();
  head.b = gradient_.as();
  head.transpose_b = true;
  head.d = gradients + head_;
  head.wide = true;
  head.add = add;
  products_.run(head, stream);
}

int Mlp::back_into(std::size_t layer, const void* weights, int rows, cudaStream_t stream) {
  const auto& hidden = shape_.hidden;
  const bool last = layer + 1 == hidden.size();
  WayBack back;
  back.rows = rows;
  back.activation = activation_[layer].as();
  back.activation_stride = activation_stride(layer);
  back.slope = slope_[layer].as();
  back.slope_stride = width(layer);
  back.sums = sums_.as<float>();
  if (last) {  // both trunks meet one block of heads
    back.inner = back.behind_stride = stride_;
    back.width = width(layer);
    back.behind = gradient_.as();
    back.weight = at(weights, head_);
    back.weight_stride = activation_stride(layer);
  } else {
    back.inner = hidden[layer + 1];
    back.width = back.weight_stride = hidden[layer];
    back.trunks = shape_.trunks;
    back.behind = slope_[layer + 1].as();
    back.behind_stride = width(layer + 1);
    back.weight = at(weights, weight_[layer + 1]);
  }
  if (streamed && can_stream(back, shape_.precision)) {
    stream_back(back, shape_.precision, stream);
    return stream_parts(back);
  }
  Product product;
  product.n = rows;
  product.m = back.width;
  product.k = back.inner;
  product.a = back.weight;
  product.lda = back.weight_stride;
  product.b = back.behind;
  product.ldb = back.behind_stride;
  product.d = back.slope;
  product.ldd = back.slope_stride;
  product.batch = back.trunks;
  product.next_a = static_cast<std::int64_t>(product.m) * product.k;
  product.next_b = product.k;
  product.next_d = product.m;
  products_.run(product, stream);
  mask_slope(back.activation, back.activation_stride, rows, width(layer), shape_.precision, back.slope, back.sums,
             stream);
  return mask_blocks();
}

void Mlp::weight_gradients(std::size_t layer, int rows, bool add, float* gradients, cudaStream_t stream) {
  const auto& hidden = shape_.hidden;
  Product weight;
  weight.k = rows;
  weight.transpose_b = true;
  weight.d = gradients + weight_[layer];
  weight.wide = true;
  weight.add = add;
  if (layer == 0) {  // packed rows take no gradient: the way back ends at the first weights
    weight.m = weight.lda = weight.ldd = width(0);
    weight.n = features_;
    weight.a = slope_[0].as();
    weight.b = input_.as();
    weight.ldb = padded_;
  } else {
    weight.m = weight.ldd = hidden[layer - 1];
    weight.n = hidden[layer];
    weight.a = activation_[layer - 1].as();
    weight.lda = activation_stride(layer - 1);
    weight.b = slope_[layer].as();
    weight.ldb = width(layer);
    weight.batch = shape_.trunks;
    weight.next_a = hidden[layer - 1];
    weight.next_b = hidden[layer];
    weight.next_d = static_cast<std::int64_t>(hidden[layer - 1]) * hidden[layer];
  }
  products_.run(weight, stream);
}

}  // namespace playmill
