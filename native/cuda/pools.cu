#include "../games/all_games.hpp"
#include "pool.cuh"

namespace playmill {

const std::map<std::string, CudaPoolMaker>& cuda_pools() {
  static const auto pools = make_cuda_pools(AllGames{});
  return pools;
}

}  // namespace playmill
