// Every native game, one line each. Adding a game means adding it here.
#pragma once

#include "../core/registry.hpp"
#include "generals.hpp"
#include "kuhn.hpp"
#include "leduc.hpp"
#include "liars_dice.hpp"
#include "skull_king.hpp"

namespace playmill {

using AllGames = GameList<  //
    Generals,               //
    Kuhn,                   //
    Leduc,                  //
    LiarsDice,              //
    SkullKing               //
    >;

inline const std::map<std::string, GameEntry>& all_games() {
  static const auto games = make_registry(AllGames{});
  return games;
}

}  // namespace playmill
