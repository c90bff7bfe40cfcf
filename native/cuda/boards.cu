#include "../games/board_games.hpp"
#include "pool.cuh"

namespace playmill {

std::map<std::string, CudaPoolMaker> board_pools() { return make_cuda_pools(BoardGames{}); }

}  // namespace playmill
