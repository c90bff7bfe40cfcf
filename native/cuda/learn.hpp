// What a learner does on the card besides matrix products: expansion, returns, the order of rows,
// the loss and its gradient, the optimiser. Everything that changes from step to step lies in a
// Control on the card, so that a captured graph can be replayed without the host's word.
#pragma once

#include <vector>

#include "device.hpp"
#include "expansion.hpp"

namespace playmill {

// The type of layers' inputs, weights and outputs.
enum class Precision { kFloat32, kBfloat16, kFloat16 };

inline std::size_t size_of(Precision precision) { return precision == Precision::kFloat32 ? 4 : 2; }

// Terms of the loss, as sums or means.
inline constexpr int kTerms = 6;  // policy, value, entropy, kl, magnet, clip_share

struct Control {
  std::uint64_t draw = 0;       // number of the first draw of the rollout
  std::uint64_t key = 0;        // names the order of rows in this pass
  std::uint32_t minibatch = 0;  // the next one of this pass
  std::uint32_t usable = 0;     // rows that can be learnt from
  std::uint32_t games = 0;      // that ended in the rollout
  std::uint32_t adam_step = 0;
  std::uint32_t steps = 0;    // gradient steps taken in this update
  std::uint32_t skipped = 0;  // gradient steps left out, so far
  std::uint32_t stopped = 0;  // the policy has moved too far: no more steps in this update
  std::uint32_t good_steps = 0;
  float lr = 0, entropy_weight = 0;
  float scale = 1;          // of the loss, so that small gradients survive float16
  float gradient_norm = 0;  // of the last step
  float passes = 0;         // over the rollout, in this update
  float pass_kl = 0;        // of this pass: sum and number
  std::uint32_t pass_steps = 0;
  std::uint32_t live = 0;     // rows of the picked minibatch that there is something to learn from, on all cards
  double terms[kTerms] = {};  // sums over the update's gradient steps
};

// An Expansion on the card.
class ExpansionTable {
 public:
  explicit ExpansionTable(const Schema& schema);

  // out[n, padded] from packed rows; with `index` row i is rows[index[i]].
  void expand(const std::uint8_t* rows, const std::int32_t* index, int n, Precision precision, void* out,
              cudaStream_t stream) const;
  int padded() const { return padded_; }
  int bytes() const { return bytes_; }

 private:
  int bytes_, padded_, singles_count_;
  DeviceMemory octets_, singles_;
};

struct RolloutRows {
  int steps = 0, games = 0, seats = 0;
  const float* reward = nullptr;
  const std::uint8_t* over = nullptr;
  const std::uint8_t* seat = nullptr;
  const std::uint8_t* driver = nullptr;  // rows of drivers other than 0 are not learnt from; may be none
  const float* value = nullptr;
};

// The twin of seat_returns() on the CPU.
void seat_returns_on_card(const RolloutRows& in, float gamma, float lambda, float* advantage, std::uint8_t* usable,
                          cudaStream_t stream);

// Lists the usable rows in order, and counts them and the games that ended in the control. With
// temporary == nullptr only says how much of it is needed.
std::size_t list_usable(const std::uint8_t* usable, const std::uint8_t* over, int rows, std::int32_t* list,
                        Control* control, void* temporary, std::size_t size, cudaStream_t stream);

void begin_update(Control* control, float lr, float entropy_weight, cudaStream_t stream);
// Ends the update's learning when the pass before moved the policy further than `target_kl` (0: never).
void begin_pass(Control* control, std::uint64_t key, float target_kl, cudaStream_t stream);
void end_rollout(Control* control, std::uint64_t draws, cudaStream_t stream);

// The rows of the control's minibatch in the random order of its key, and part sums of their
// advantages for the loss: sums[pick_blocks(rows)] of (sum, sum of squares). Cards that learn together add up their
// sums and the control's live rows before the loss, and gradients and terms before the step.
void pick_rows(Control* control, const std::int32_t* list, const float* advantage, int rows, std::int32_t* index,
               double* sums, cudaStream_t stream);
int pick_blocks(int rows);

// What the policy's part of the loss takes for advantages: the column as it is, the minibatch's brought to mean 0 and
// deviation 1, or 1 for every row, whose action is then a teacher's. The value learns from the column in any case.
enum class Advantages { kRaw, kNormalised, kTaught };

struct LossInput {
  int rows = 0, whole = 0;  // of a minibatch of `whole` rows on this card
  int actions = 0, stride = 0, legal_bytes = 0;
  const std::int32_t* index = nullptr;  // [rows] into the rollout's columns
  const float* heads = nullptr;         // [rows, stride]: logits, value, padding
  const float* magnet = nullptr;        // [rows, stride], or none
  const double* sums = nullptr;         // of pick_rows
  const std::uint8_t* legal = nullptr;  // from here on: columns of the rollout
  const std::int32_t* action = nullptr;
  const float* log_probability = nullptr;
  const float* advantage = nullptr;
  const float* value = nullptr;
  float clip = 0, value_weight = 0, magnet_weight = 0;
  Advantages advantages = Advantages::kNormalised;
};

// gradient[rows, stride] of the mean loss times the control's scale; part sums of the terms in
// terms[loss_blocks(rows), kTerms].
void ppo_loss_on_card(const Control* control, const LossInput& in, Precision precision, void* gradient, double* terms,
                      cudaStream_t stream);
int loss_blocks(int rows);

// The way back through relu: slope[rows, width] becomes zero where the activation (rows of `stride`)
// is; part sums of its columns, the bias's gradient, go to sums[mask_blocks(), width].
void mask_slope(const void* activation, int stride, int rows, int width, Precision precision, void* slope, float* sums,
                cudaStream_t stream);
int mask_blocks();
// gradients[i] (+)= the part sums[blocks, width] of column i.
void add_columns(const float* sums, int blocks, int width, bool add, float* gradients, cudaStream_t stream);

// A block of rows in the parameters of which only some cells are weights; see Mlp.
struct HeadCells {
  std::int64_t begin = 0, end = 0;  // in the flat parameters
  int stride = 0, actions = 0, width = 0, trunks = 0;
};

struct AdamInput {
  std::int64_t n = 0;
  float* parameters = nullptr;
  void* small = nullptr;  // the same in `precision`, for the layers; none for float32
  Precision precision = Precision::kFloat32;
  const float* gradients = nullptr;
  float* mean = nullptr;
  float* square = nullptr;
  HeadCells head;
  float max_norm = 0;
  bool scaled = false;  // the loss has a scale that must be kept in bounds (float16)
  const double* terms = nullptr;
  int term_blocks = 0;
};

// One step: the norm of all gradients, their shortening, Adam, and the control's counters. Where no row is live, or
// the norm is not finite, everything stays as it was but the counters. `norms` holds adam_blocks() numbers.
void adam_step(Control* control, const AdamInput& in, double* norms, cudaStream_t stream);
int adam_blocks();

// heads[i] = other[i] in the rows that `driver` asks `number` for.
void answer_rows(const std::uint8_t* driver, int number, const float* other, int rows, int stride, float* heads,
                 cudaStream_t stream);

}  // namespace playmill
