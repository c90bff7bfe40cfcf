// Games that are played on a card with a warp a game.
#pragma once

#include "generals.hpp"

namespace playmill {

using BoardGames = GameList<Generals>;

}  // namespace playmill
