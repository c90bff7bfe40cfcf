// Games that are played on a card with a thread a game.
#pragma once

#include "kuhn.hpp"
#include "leduc.hpp"
#include "liars_dice.hpp"
#include "skull_king.hpp"

namespace playmill {

using CardGames = GameList<  //
    Kuhn,                    //
    Leduc,                   //
    LiarsDice,               //
    SkullKing                //
    >;

}  // namespace playmill
