// Every game as device code: the rules are one header for the CPU and for CUDA. Nothing is run
// here; `make cuda-check` sees that nvcc takes it without a word.
#include "games/kuhn.hpp"
#include "games/leduc.hpp"
#include "games/liars_dice.hpp"
#include "games/skull_king.hpp"

namespace playmill {

// Plays a whole game a thread and keeps what each seat won and last saw.
template <Game G>
__global__ void play_games(typename G::Options options, int seats, int row_bytes, int games, int bot,
                           std::uint64_t seed, float* rewards, std::uint8_t* observation) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= games) return;
  G game;
  game.reset(options, mix64(seed, static_cast<std::uint64_t>(i)));
  Report report;
  for (std::uint64_t turn = 0; !game.over(); ++turn) {
    BitSet<G::kActions> legal;
    game.legal(options, legal);
    game.observe(options, game.seat(), observation + static_cast<std::size_t>(i) * row_bytes);
    Random random(seed, kBotStream + turn);
    const int action = bot == 0 ? random_action(legal, random) : game.bot(options, bot, random);
    if (!legal.has(action)) break;
    game.apply(options, action, report);
  }
  for (int s = 0; s < seats; ++s) rewards[static_cast<std::size_t>(i) * seats + s] = report.reward[s] + game.role();
}

template __global__ void play_games<Kuhn>(Kuhn::Options, int, int, int, int, std::uint64_t, float*, std::uint8_t*);
template __global__ void play_games<Leduc>(Leduc::Options, int, int, int, int, std::uint64_t, float*, std::uint8_t*);
template __global__ void play_games<LiarsDice>(LiarsDice::Options, int, int, int, int, std::uint64_t, float*,
                                               std::uint8_t*);
template __global__ void play_games<SkullKing>(SkullKing::Options, int, int, int, int, std::uint64_t, float*,
                                               std::uint8_t*);

}  // namespace playmill
