// How packed rows become floats on the card: eight features at a time. Tables are made on the host; the
// functions that read them are host and device code, so that they are tested without a card.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "../core/schema.hpp"

namespace playmill {

// One float of the expanded row.
struct Feature {
  std::uint16_t offset = 0;                  // first byte
  std::uint8_t encoding = 0;                 // Encoding
  std::uint8_t match = 0;                    // the bit of a bits field, the id of a category
  std::uint16_t count_at = 0xFFFF, row = 0;  // live when row < the byte at count_at
  float scale = 0;
};

// Neighbouring features that come from one place in the row: consecutive bits, or ids of one category.
struct Run {
  std::uint16_t offset = 0;
  std::uint8_t start = 0;  // the first bit, or the first id
  std::uint8_t category = 0;
  std::uint8_t lane = 0;  // of the eight
  std::uint8_t count = 0;
  std::uint16_t unused = 0;
};

// Eight features: runs of bits, or singles all eight where one of them is no bit or the runs are too many.
struct Octet {
  static constexpr int kRuns = 4;
  Run run[kRuns];
  std::int32_t runs = 0;
  std::int32_t singles = -1;  // the first of its eight among the singles, or none
};

// How rows of a schema are expanded: eight features at a time, zeros up to a multiple of eight.
struct Expansion {
  explicit Expansion(const Schema& schema);

  std::vector<Octet> octets;
  std::vector<Feature> singles;  // features by themselves, in eights
};

PM_FN float feature_of(const Feature& feature, const std::uint8_t* row) {
  if (feature.count_at != 0xFFFF && feature.row >= row[feature.count_at]) return 0.0f;
  const std::uint8_t* at = row + feature.offset;
  switch (static_cast<Encoding>(feature.encoding)) {
    case Encoding::kBits: return static_cast<float>((*at >> feature.match) & 1);
    case Encoding::kCategory: return *at == feature.match ? 1.0f : 0.0f;
    case Encoding::kU8: return static_cast<float>(*at) * feature.scale;
    default: break;
  }
  const auto wide = static_cast<std::uint16_t>(at[0] | (at[1] << 8));
  switch (static_cast<Encoding>(feature.encoding)) {
    case Encoding::kU16: return static_cast<float>(wide) * feature.scale;
    case Encoding::kI16: return static_cast<float>(static_cast<std::int16_t>(wide)) * feature.scale;
    case Encoding::kLog16: return log2f(1.0f + static_cast<float>(wide)) * feature.scale;
    case Encoding::kF16: return half_value(wide) * feature.scale;
    default: return 0.0f;
  }
}

// The eight as bits. Without branches: neighbouring threads have different octets.
PM_FN unsigned octet_bits(const Octet& octet, const std::uint8_t* row) {
  unsigned bits = 0;
  PM_UNROLL
  for (int k = 0; k < Octet::kRuns; ++k) {
    if (k >= octet.runs) break;
    const Run& run = octet.run[k];
    const std::uint8_t* at = row + run.offset;
    const unsigned two = at[0] | static_cast<unsigned>(at[1]) << 8;
    const unsigned id = static_cast<unsigned>(at[0]) - run.start;
    const unsigned found = run.category ? 1u << (id < 31 ? id : 31) : two >> run.start;
    bits |= (found & ((1u << run.count) - 1)) << run.lane;
  }
  return bits;
}

// Puts up to eight features into an octet as runs; false where they cannot be.
inline bool add_runs(Octet& octet, const Feature* features, int count) {
  for (int lane = 0; lane < count; ++lane) {
    const Feature& f = features[lane];
    const bool category = f.encoding == static_cast<std::uint8_t>(Encoding::kCategory);
    if (f.count_at != 0xFFFF || (!category && f.encoding != static_cast<std::uint8_t>(Encoding::kBits))) return false;
    Run* last = octet.runs > 0 ? &octet.run[octet.runs - 1] : nullptr;
    const bool goes_on = last != nullptr && last->category == category &&
                         (category ? last->offset == f.offset && last->start + last->count == f.match
                                   : last->offset * 8 + last->start + last->count == f.offset * 8 + f.match);
    if (goes_on) {
      ++last->count;
    } else if (octet.runs < Octet::kRuns) {
      octet.run[octet.runs++] = {f.offset, f.match, category, static_cast<std::uint8_t>(lane), 1};
    } else {
      return false;
    }
  }
  return true;
}

inline Expansion::Expansion(const Schema& schema) : octets(static_cast<std::size_t>((schema.features() + 7) / 8)) {
  std::vector<Feature> features;
  for (const auto& field : schema.fields()) {
    const auto* count = field.counted.empty() ? nullptr : schema.find(field.counted);
    for (int row = 0; row < field.rows; ++row)
      for (int column = 0; column < field.columns; ++column)
        for (int id = 0; id < (field.encoding == Encoding::kCategory ? field.size : 1); ++id) {
          Feature feature;
          const int start = field.offset + row * field.row_bytes();
          const int step = field.encoding == Encoding::kU8 || field.encoding == Encoding::kCategory ? 1 : 2;
          const bool bits = field.encoding == Encoding::kBits;
          feature.offset = static_cast<std::uint16_t>(start + (bits ? column / 8 : step * column));
          feature.match = static_cast<std::uint8_t>(bits ? column % 8 : id);
          feature.encoding = static_cast<std::uint8_t>(field.encoding);
          feature.scale = field.scale;
          feature.row = static_cast<std::uint16_t>(row);
          if (count != nullptr) feature.count_at = static_cast<std::uint16_t>(count->offset);
          features.push_back(feature);
        }
  }
  const auto whole = features.size();
  Feature nothing;  // behind the last one
  nothing.encoding = static_cast<std::uint8_t>(Encoding::kU8);
  features.resize(octets.size() * 8, nothing);
  for (std::size_t i = 0; i < octets.size(); ++i) {
    const Feature* eight = features.data() + 8 * i;
    if (add_runs(octets[i], eight, static_cast<int>(std::min(whole - 8 * i, std::size_t{8})))) continue;
    octets[i].runs = 0;
    octets[i].singles = static_cast<std::int32_t>(singles.size());
    singles.insert(singles.end(), eight, eight + 8);
  }
}

}  // namespace playmill
