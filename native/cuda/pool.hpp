// Games in flight on the card, whatever their game. All arrays are the card's, one row a game;
// calls are put on a stream and return at once unless they say otherwise.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../core/registry.hpp"
#include "device.hpp"

namespace playmill {

// The turns that wait, as columns of rows.
struct TurnRows {
  std::uint8_t* observation = nullptr;  // none: no turns are written
  std::uint8_t* legal = nullptr;
  std::uint8_t* seat = nullptr;
  std::uint8_t* role = nullptr;
  std::uint8_t* driver = nullptr;
};

struct OutcomeRows {
  float* rewards = nullptr;  // [rows, seats]
  std::uint8_t* over = nullptr;
};

// How actions are drawn from a policy's output. `heads` holds the logits of a row and behind them
// its value; the draw has the number *first_draw + draw.
struct DrawRows {
  const float* heads = nullptr;
  int stride = 0;
  const std::uint8_t* legal = nullptr;
  std::uint64_t seed = 0;
  const std::uint64_t* first_draw = nullptr;
  std::uint64_t draw = 0;
  bool greedy = false;
  std::int32_t* action = nullptr;
  float* log_probability = nullptr;
  float* value = nullptr;  // none: not wanted
};

class AnyCudaPool {
 public:
  virtual ~AnyCudaPool() = default;

  virtual std::size_t games() const = 0;
  virtual std::size_t bytes() const = 0;

  virtual void turns(const TurnRows& out, cudaStream_t stream) = 0;

  // Answers all turns. Waits: an illegal action is an exception, and no game is changed.
  virtual void act(const std::int32_t* actions, const OutcomeRows& outcome, cudaStream_t stream) = 0;
  virtual void bot_actions(const std::uint8_t* kinds, std::int32_t* actions, cudaStream_t stream) = 0;
  // The same for games `first` to `first` + `count`, without waiting: the kinds are those of bots there are. Rows
  // count from `first`.
  virtual void script(std::size_t first, std::size_t count, const std::uint8_t* kinds, std::int32_t* actions,
                      cudaStream_t stream) = 0;

  // For games `first` to `first` + `count`: draws the actions, applies them, and writes the turns
  // that wait then. Rows count from `first`.
  virtual void step(std::size_t first, std::size_t count, const DrawRows& draw, const OutcomeRows& outcome,
                    const TurnRows& next, cudaStream_t stream) = 0;
  // The same with uniform random actions.
  virtual void step_random(std::size_t first, std::size_t count, const OutcomeRows& outcome, const TurnRows& next,
                           cudaStream_t stream) = 0;

  // As in the pool of threads; these wait.
  virtual void reset(const std::uint64_t* seeds, bool stagger, cudaStream_t stream) = 0;
  virtual void set_drivers(const std::uint8_t* drivers, cudaStream_t stream) = 0;
  virtual std::vector<std::uint8_t> snapshot(cudaStream_t stream) const = 0;
  virtual void restore(const std::uint8_t* data, std::size_t size, cudaStream_t stream) = 0;
  virtual std::vector<Tally> tallies(cudaStream_t stream) const = 0;
  virtual void clear_tallies(cudaStream_t stream) = 0;

  // The tallies onto the card's own memory, and empty again; does not wait.
  virtual std::size_t tally_cells() const = 0;
  virtual void take_tallies(Tally* out, cudaStream_t stream) = 0;
};

using CudaPoolMaker = std::unique_ptr<AnyCudaPool> (*)(const OptionValues&, std::size_t games, std::uint64_t seed);

// By the name of the game.
const std::map<std::string, CudaPoolMaker>& cuda_pools();

}  // namespace playmill
