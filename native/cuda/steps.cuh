// What a step of the pool's games is given, whoever plays them.
#pragma once

#include "../core/pool.hpp"
#include "pool.hpp"

namespace playmill {

// Copies of the tallies: blocks that count at the same time seldom share a cell.
inline constexpr int kTallyCopies = 256;

// Where a step's actions come from.
enum class Answer { kNone, kGiven, kDrawn, kRandom };

// What was drawn from a row of logits; -1 where they are no numbers.
struct Drawn {
  int action;
  float log_probability;
};

// Games `first` to `first` + `count`, and the rows they read and write.
template <Game G>
struct Step {
  Slot<G>* slots = nullptr;
  const std::uint8_t* drivers = nullptr;  // [games, seats]
  Tally* tallies = nullptr;               // [copies, drivers, stats]
  std::size_t first = 0, count = 0;
  const std::int32_t* given = nullptr;
  DrawRows draw;
  OutcomeRows outcome;
  TurnRows next;
  int row_bytes = 0, legal_bytes = 0, actions = 0;

  __device__ Tally* tally() const {
    return tallies + static_cast<std::size_t>(blockIdx.x % kTallyCopies) * kDrivers * Tables<G>::kStatCount;
  }
  __device__ const std::uint8_t* drivers_of(std::size_t row, int seats) const {
    return drivers + row * static_cast<std::size_t>(seats);
  }
  // Of the draw that `row` makes.
  __device__ float unit(std::size_t row) const {
    return Random(mix64(draw.seed, *draw.first_draw + draw.draw), row).unit();
  }
};

inline unsigned blocks_of(std::size_t rows, int each) {
  return static_cast<unsigned>((rows + static_cast<std::size_t>(each) - 1) / static_cast<std::size_t>(each));
}

}  // namespace playmill
