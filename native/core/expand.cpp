#include "expand.hpp"

#include <bit>
#include <cstring>

#include "simd.hpp"

namespace playmill {

namespace {

std::uint16_t load16(const std::uint8_t* at) { return static_cast<std::uint16_t>(at[0] | (at[1] << 8)); }

float number(Encoding encoding, const std::uint8_t* at, float scale) {
  switch (encoding) {
    case Encoding::kU8: return static_cast<float>(*at) * scale;
    case Encoding::kU16: return static_cast<float>(load16(at)) * scale;
    case Encoding::kI16: return static_cast<float>(static_cast<std::int16_t>(load16(at))) * scale;
    case Encoding::kF16: return half_value(load16(at)) * scale;
    default: return std::log2(1.0f + static_cast<float>(load16(at))) * scale;
  }
}

PM_CLONES void write_bits(const std::uint8_t* bits, int columns, float* out) {
  for (int c = 0; c < columns; ++c) out[c] = static_cast<float>((bits[c >> 3] >> (c & 7)) & 1);
}

constexpr int kLane = 16;

// out[width] = bias + the sum of the active rows of weight. Blocks of 128 columns stay in
// registers while the rows stream by.
template <int Lanes>
inline __attribute__((always_inline)) void accumulate(const float* weight, const float* bias, int width, int column,
                                                      const std::int32_t* ones, int n_ones, const std::int32_t* index,
                                                      const float* value, int n_values, float* out) {
  Float16 sum[Lanes];
  for (int k = 0; k < Lanes; ++k) sum[k] = *reinterpret_cast<const Float16*>(bias + column + k * kLane);
  for (int i = 0; i < n_ones; ++i) {
    const float* row = weight + static_cast<std::ptrdiff_t>(ones[i]) * width + column;
    for (int k = 0; k < Lanes; ++k) sum[k] += *reinterpret_cast<const Float16*>(row + k * kLane);
  }
  for (int i = 0; i < n_values; ++i) {
    const float* row = weight + static_cast<std::ptrdiff_t>(index[i]) * width + column;
    const float v = value[i];
    for (int k = 0; k < Lanes; ++k) sum[k] += *reinterpret_cast<const Float16*>(row + k * kLane) * v;
  }
  for (int k = 0; k < Lanes; ++k) *reinterpret_cast<Float16*>(out + column + k * kLane) = sum[k];
}

PM_CLONES void row_forward(const float* weight, const float* bias, int width, const std::int32_t* ones, int n_ones,
                           const std::int32_t* index, const float* value, int n_values, float* out) {
  int column = 0;
  for (; column + 8 * kLane <= width; column += 8 * kLane)
    accumulate<8>(weight, bias, width, column, ones, n_ones, index, value, n_values, out);
  for (; column + kLane <= width; column += kLane)
    accumulate<1>(weight, bias, width, column, ones, n_ones, index, value, n_values, out);
  for (; column < width; ++column) {
    float sum = bias[column];
    for (int i = 0; i < n_ones; ++i) sum += weight[static_cast<std::ptrdiff_t>(ones[i]) * width + column];
    for (int i = 0; i < n_values; ++i) sum += weight[static_cast<std::ptrdiff_t>(index[i]) * width + column] * value[i];
    out[column] = sum;
  }
}

// gradient[f, begin:end] += value_f * upstream[begin:end] for the active features f.
PM_CLONES void row_backward(const float* upstream, int width, int begin, int end, const std::int32_t* ones, int n_ones,
                            const std::int32_t* index, const float* value, int n_values, float* gradient) {
  for (int i = 0; i < n_ones; ++i) {
    float* row = gradient + static_cast<std::ptrdiff_t>(ones[i]) * width;
    for (int c = begin; c < end; ++c) row[c] += upstream[c];
  }
  for (int i = 0; i < n_values; ++i) {
    float* row = gradient + static_cast<std::ptrdiff_t>(index[i]) * width;
    const float v = value[i];
    for (int c = begin; c < end; ++c) row[c] += upstream[c] * v;
  }
}

}  // namespace

void Expander::find_active(const std::uint8_t* row, Active& active) const {
  std::int32_t* ones = active.ones.data();
  int n_ones = 0;
  int n_values = 0;
  for (const Block& block : blocks_) {
    const int live = block.count_at < 0 ? block.rows : std::min<int>(block.rows, row[block.count_at]);
    const std::uint8_t* at = row + block.offset;
    if (block.encoding == Encoding::kBits) {
      const int row_bytes = (block.columns + 7) / 8;
      for (int r = 0; r < live; ++r, at += row_bytes) {
        const int feature = block.feature + r * block.columns;
        for (int byte = 0; byte < row_bytes; byte += 8) {
          std::uint64_t word = 0;
          std::memcpy(&word, at + byte, static_cast<std::size_t>(std::min(8, row_bytes - byte)));
          for (; word != 0; word &= word - 1) {
            const int column = byte * 8 + std::countr_zero(word);
            if (column < block.columns) ones[n_ones++] = feature + column;
          }
        }
      }
    } else if (block.encoding == Encoding::kCategory) {
      for (int i = 0; i < live * block.columns; ++i)
        if (at[i] < block.size) ones[n_ones++] = block.feature + i * block.size + at[i];
    } else {
      const int step = block.encoding == Encoding::kU8 ? 1 : 2;
      for (int i = 0; i < live * block.columns; ++i) {
        const float v = number(block.encoding, at + i * step, block.scale);
        if (v == 0.0f) continue;
        active.index[static_cast<std::size_t>(n_values)] = block.feature + i;
        active.value[static_cast<std::size_t>(n_values++)] = v;
      }
    }
  }
  active.n_ones = n_ones;
  active.n_values = n_values;
}

void Expander::expand(const std::uint8_t* rows, std::size_t n, float* out) {
  workers_.run(n, [&](std::size_t begin, std::size_t end, int) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint8_t* row = rows + i * static_cast<std::size_t>(bytes_);
      float* to = out + i * static_cast<std::size_t>(features_);
      std::memset(to, 0, static_cast<std::size_t>(features_) * sizeof(float));
      for (const Block& block : blocks_) {
        const int live = block.count_at < 0 ? block.rows : std::min<int>(block.rows, row[block.count_at]);
        const std::uint8_t* at = row + block.offset;
        float* features = to + block.feature;
        if (block.encoding == Encoding::kBits) {
          for (int r = 0; r < live; ++r)
            write_bits(at + r * ((block.columns + 7) / 8), block.columns, features + r * block.columns);
        } else if (block.encoding == Encoding::kCategory) {
          for (int k = 0; k < live * block.columns; ++k)
            if (at[k] < block.size) features[k * block.size + at[k]] = 1.0f;
        } else {
          const int step = block.encoding == Encoding::kU8 ? 1 : 2;
          for (int k = 0; k < live * block.columns; ++k)
            features[k] = number(block.encoding, at + k * step, block.scale);
        }
      }
    }
  });
}

void Expander::forward(const std::uint8_t* rows, std::size_t n, const float* weight, const float* bias, int width,
                       float* out) {
  workers_.run(n, [&](std::size_t begin, std::size_t end, int) {
    Active active = make_active();
    for (std::size_t i = begin; i < end; ++i) {
      find_active(rows + i * static_cast<std::size_t>(bytes_), active);
      row_forward(weight, bias, width, active.ones.data(), active.n_ones, active.index.data(), active.value.data(),
                  active.n_values, out + i * static_cast<std::size_t>(width));
    }
  });
}

void Expander::backward(const std::uint8_t* rows, std::size_t n, const float* upstream, int width, float* gradient) {
  // Threads share out the columns, not the rows: nobody writes where another does, and every
  // sum is taken in the order of the rows whatever the number of threads.
  workers_.run(static_cast<std::size_t>((width + kLane - 1) / kLane), [&](std::size_t first, std::size_t last, int) {
    const int begin = static_cast<int>(first) * kLane;
    const int end = std::min(width, static_cast<int>(last) * kLane);
    if (begin >= end) return;
    for (int f = 0; f < features_; ++f)
      std::memset(gradient + static_cast<std::ptrdiff_t>(f) * width + begin, 0,
                  static_cast<std::size_t>(end - begin) * sizeof(float));
    Active active = make_active();
    for (std::size_t i = 0; i < n; ++i) {
      find_active(rows + i * static_cast<std::size_t>(bytes_), active);
      row_backward(upstream + i * static_cast<std::size_t>(width), width, begin, end, active.ones.data(), active.n_ones,
                   active.index.data(), active.value.data(), active.n_values, gradient);
    }
  });
}

}  // namespace playmill
