#include "../core/registry.hpp"
#include "../games/card_games.hpp"
#include "pool.cuh"

namespace playmill {

const std::map<std::string, CudaPoolMaker>& cuda_pools() {
  static const auto pools = make_cuda_pools(CardGames{});
  return pools;
}

}  // namespace playmill
