#include "../games/card_games.hpp"
#include "pool.cuh"

namespace playmill {

std::map<std::string, CudaPoolMaker> board_pools();  // boards.cu, which is compiled beside this

const std::map<std::string, CudaPoolMaker>& cuda_pools() {
  static const auto pools = [] {
    auto all = make_cuda_pools(CardGames{});
    all.merge(board_pools());
    return all;
  }();
  return pools;
}

}  // namespace playmill
