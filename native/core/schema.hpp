// The packed layout of an observation: named fields, each a table of rows x columns in
// one encoding. Engines write packed rows; policies expand them to floats at their first
// layer. Host only: rules write bytes through `Writer` and never look at a schema.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "platform.hpp"

namespace playmill {

enum class Encoding : std::uint8_t {
  kBits,      // one bit a value, rows padded to whole bytes; expands to 0 or 1
  kU8,        // byte, expands to value * scale
  kU16,       // little-endian, expands to value * scale
  kI16,       // little-endian two's complement, expands to value * scale
  kLog16,     // u16, expands to log2(1 + value) * scale
  kCategory,  // byte id in [0, size); expands to one-hot of `size`; any other id to zeros
  kF16,       // little-endian half float, expands to value * scale; see half_value
};

// A half float as a float. The exponent that stands for infinity and NaN is one like the others (65536 and more), so
// that no byte a stranger writes becomes a number the network cannot take.
PM_FN float half_value(std::uint16_t half) {
  const std::uint32_t magnitude = static_cast<std::uint32_t>(half & 0x7FFF) << 13;
  float value;
  memcpy(&value, &magnitude, sizeof value);
  value *= 0x1p112f;  // from a float's exponent to a half's
  return (half & 0x8000) != 0 ? -value : value;
}

struct Field {
  std::string name;
  Encoding encoding = Encoding::kBits;
  int rows = 1;
  int columns = 1;
  int size = 0;         // categories of kCategory, else 0
  float scale = 1.0f;   // for the numeric encodings
  std::string counted;  // name of a one-value kU8 field: only that many rows are live, the others expand to zeros
  int offset = 0;       // first byte in the packed row
  int feature = 0;      // first float in the expanded row

  int row_bytes() const {
    switch (encoding) {
      case Encoding::kBits: return (columns + 7) / 8;
      case Encoding::kU8:
      case Encoding::kCategory: return columns;
      default: return 2 * columns;
    }
  }
  int bytes() const { return rows * row_bytes(); }
  int features() const { return rows * columns * (encoding == Encoding::kCategory ? size : 1); }
};

class Schema {
 public:
  Schema& bits(std::string name, int rows, int columns) {
    return add({std::move(name), Encoding::kBits, rows, columns});
  }
  Schema& u8(std::string name, int rows, int columns, float scale) {
    return add({std::move(name), Encoding::kU8, rows, columns, 0, scale});
  }
  Schema& u16(std::string name, int rows, int columns, float scale) {
    return add({std::move(name), Encoding::kU16, rows, columns, 0, scale});
  }
  Schema& i16(std::string name, int rows, int columns, float scale) {
    return add({std::move(name), Encoding::kI16, rows, columns, 0, scale});
  }
  Schema& log16(std::string name, int rows, int columns, float scale) {
    return add({std::move(name), Encoding::kLog16, rows, columns, 0, scale});
  }
  Schema& f16(std::string name, int rows, int columns, float scale) {
    return add({std::move(name), Encoding::kF16, rows, columns, 0, scale});
  }
  Schema& category(std::string name, int rows, int columns, int size) {
    return add({std::move(name), Encoding::kCategory, rows, columns, size});
  }

  // The field added last has only as many live rows as the one-value u8 field `by` says.
  Schema& counted(const std::string& by) {
    if (fields_.empty()) throw std::invalid_argument("counted() needs a field before it");
    const Field* count = find(by);
    if (count == nullptr || count->encoding != Encoding::kU8 || count->rows * count->columns != 1 ||
        count == &fields_.back())
      throw std::invalid_argument("a count must name an earlier u8 field of one value, got '" + by + "'");
    fields_.back().counted = by;
    return *this;
  }

  Schema& add(Field field) {
    if (field.rows < 1 || field.columns < 1) throw std::invalid_argument("field '" + field.name + "' has no values");
    if (field.encoding == Encoding::kCategory && (field.size < 1 || field.size > 255))
      throw std::invalid_argument("field '" + field.name + "' needs 1 to 255 categories");
    if (find(field.name) != nullptr) throw std::invalid_argument("two fields are called '" + field.name + "'");
    field.offset = bytes_;
    field.feature = features_;
    bytes_ += field.bytes();
    features_ += field.features();
    fields_.push_back(std::move(field));
    return *this;
  }

  const Field* find(const std::string& name) const {
    for (const auto& field : fields_)
      if (field.name == name) return &field;
    return nullptr;
  }

  const std::vector<Field>& fields() const { return fields_; }
  int bytes() const { return bytes_; }
  int features() const { return features_; }

  // FNV-1a over everything that decides what a byte means.
  std::uint64_t hash() const {
    std::uint64_t h = 0xCBF29CE484222325ull;
    auto eat = [&h](const void* data, std::size_t size) {
      const auto* p = static_cast<const unsigned char*>(data);
      for (std::size_t i = 0; i < size; ++i) h = (h ^ p[i]) * 0x100000001B3ull;
    };
    for (const auto& f : fields_) {
      eat(f.name.c_str(), f.name.size() + 1);
      const std::int32_t numbers[] = {static_cast<std::int32_t>(f.encoding), f.rows, f.columns, f.size};
      eat(numbers, sizeof numbers);
      eat(&f.scale, sizeof f.scale);
      eat(f.counted.c_str(), f.counted.size() + 1);
    }
    return h;
  }

 private:
  std::vector<Field> fields_;
  int bytes_ = 0;
  int features_ = 0;
};

// Writes a packed row front to back, in the order of the schema's fields.
class Writer {
 public:
  PM_FN explicit Writer(std::uint8_t* out) : at_(out) {}

  PM_FN void u8(int value) { *at_++ = static_cast<std::uint8_t>(value); }
  PM_FN void u16(unsigned value) {
    at_[0] = static_cast<std::uint8_t>(value);
    at_[1] = static_cast<std::uint8_t>(value >> 8);
    at_ += 2;
  }
  PM_FN void i16(int value) { u16(static_cast<unsigned>(value)); }
  // A row of up to 64 bits as the low `bytes` bytes of `value`.
  PM_FN void bits(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) *at_++ = static_cast<std::uint8_t>(value >> (8 * i));
  }
  PM_FN void raw(const void* data, int bytes) {
    memcpy(at_, data, static_cast<std::size_t>(bytes));
    at_ += bytes;
  }
  PM_FN std::uint8_t* at() const { return at_; }

 private:
  std::uint8_t* at_;
};

}  // namespace playmill
