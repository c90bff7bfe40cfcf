// Packed observations at a policy's first layer: expanded to floats, or multiplied with the
// layer's weights without ever being expanded. A packed row of a card game has a few dozen
// features that are not zero out of a thousand; only those are touched.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "schema.hpp"
#include "workers.hpp"

namespace playmill {

class Expander {
 public:
  Expander(const Schema& schema, int threads)
      : bytes_(schema.bytes()), features_(schema.features()), workers_(threads) {
    for (const auto& field : schema.fields()) {
      Block block{field.encoding, field.rows, field.columns, field.size, field.scale, field.offset, field.feature, -1};
      if (!field.counted.empty()) block.count_at = schema.find(field.counted)->offset;
      blocks_.push_back(block);
    }
  }

  int bytes() const { return bytes_; }
  int features() const { return features_; }

  // out[n, features] = the expanded rows.
  void expand(const std::uint8_t* rows, std::size_t n, float* out);

  // out[n, width] = expand(rows) @ weight[features, width] + bias[width]
  void forward(const std::uint8_t* rows, std::size_t n, const float* weight, const float* bias, int width, float* out);

  // gradient[features, width] = expand(rows)^T @ upstream[n, width]; overwritten, not added to.
  void backward(const std::uint8_t* rows, std::size_t n, const float* upstream, int width, float* gradient);

 private:
  struct Block {
    Encoding encoding;
    int rows, columns, size;
    float scale;
    int offset, feature, count_at;
  };

  // The features of one row that are not zero: those that are 1, and the others with values.
  struct Active {
    std::vector<std::int32_t> ones, index;
    std::vector<float> value;
    int n_ones = 0, n_values = 0;
  };

  void find_active(const std::uint8_t* row, Active& active) const;
  Active make_active() const {
    Active active;
    const auto size = static_cast<std::size_t>(features_) + 8;
    active.ones.resize(size);
    active.index.resize(size);
    active.value.resize(size);
    return active;
  }

  int bytes_, features_;
  std::vector<Block> blocks_;
  Workers workers_;
};

}  // namespace playmill
