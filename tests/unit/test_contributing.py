"""The game in CONTRIBUTING.md compiles against the core, keeps its contracts and plays to the end."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MAIN = r"""
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../core/registry.hpp"
#include "goofspiel.hpp"

using namespace playmill;
using G = Goofspiel;

#define MUST(condition) \
  if (!(condition)) std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition), std::exit(1)

static void observation_is_as_long_as_the_schema(const G::Options& options) {
  const auto bytes = static_cast<std::size_t>(G::schema(options).bytes());
  for (const std::uint8_t fill : {0x00, 0xFF}) {
    G game;
    game.reset(options, 3);
    std::vector<std::uint8_t> row(bytes + 8, fill);
    game.observe(options, 0, row.data());
    for (std::size_t i = bytes; i < row.size(); ++i) MUST(row[i] == fill);
  }
  // Whatever stood in the row before is overwritten: two fills give the same bytes.
  G game;
  game.reset(options, 3);
  std::vector<std::uint8_t> a(bytes, 0x00), b(bytes, 0xFF);
  game.observe(options, 1, a.data());
  game.observe(options, 1, b.data());
  MUST(a == b);
}

static void the_first_bid_is_hidden(const G::Options& options) {
  const auto bytes = static_cast<std::size_t>(G::schema(options).bytes());
  std::vector<std::vector<std::uint8_t>> seen;
  for (int bid = 0; bid < options.cards; ++bid) {
    G game;
    game.reset(options, 7);
    Report report;
    game.apply(options, bid, report);
    MUST(game.seat() == 1);
    seen.emplace_back(bytes);
    game.observe(options, 1, seen.back().data());
    MUST(seen.back() == seen.front());
  }
}

static void a_pool_plays_it(const G::Options& options) {
  constexpr std::size_t kGames = 64;
  Pool<G> pool(options, kGames, 1, 2);
  pool.reset(nullptr, true);
  const auto bytes = static_cast<std::size_t>(G::schema(options).bytes());
  std::vector<std::uint8_t> observation(kGames * bytes), legal(kGames * sizeof(BitSet<G::kActions>));
  std::vector<std::uint8_t> seat(kGames), role(kGames), driver(kGames), over(kGames), kinds(kGames);
  std::vector<std::int32_t> actions(kGames);
  std::vector<float> rewards(kGames * 2);
  int ended = 0;
  for (int step = 0; step < 400; ++step) {
    pool.turns(observation.data(), legal.data(), seat.data(), role.data(), driver.data());
    for (std::size_t i = 0; i < kGames; ++i) {
      BitSet<G::kActions> bits;
      std::memcpy(&bits, legal.data() + i * sizeof bits, sizeof bits);
      MUST(!bits.empty());
      kinds[i] = static_cast<std::uint8_t>((i + static_cast<std::size_t>(step)) % std::size(G::kBots));
    }
    pool.bot_actions(kinds.data(), actions.data());
    pool.act(actions.data(), rewards.data(), over.data());
    for (std::size_t i = 0; i < kGames; ++i) {
      MUST(rewards[2 * i] + rewards[2 * i + 1] == 0.0f);
      ended += over[i];
    }
  }
  MUST(ended > 64 * 10);
}

int main() {
  static_assert(Game<G>);
  const auto registry = make_registry(GameList<G>{});
  const GameEntry& entry = registry.at("goofspiel");
  MUST(entry.facts({}).options.size() == 1);
  for (int cards : {2, 5, 13}) {
    const G::Options options = read_options<G>({{"cards", cards}});
    observation_is_as_long_as_the_schema(options);
    the_first_bid_is_hidden(options);
    a_pool_plays_it(options);
    const auto game = entry.game({{"cards", cards}}, 5);
    int turns = 0;
    for (; !game->over(); ++turns) {
      MUST(!game->table_text(game->seat()).empty());
      MUST(!game->action_text(game->legal().front()).empty());
      game->act(game->bot(turns % 2));
    }
    MUST(turns == 2 * cards);
  }
  std::puts("played");
}
"""


def header() -> str:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks: list[str] = re.findall(r"^```cpp\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 1, "CONTRIBUTING.md must hold exactly one C++ block: the game"
    return blocks[0]


def test_the_game_of_the_page_compiles_and_plays(tmp_path: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    assert compiler is not None, "a C++ compiler is needed"
    (tmp_path / "goofspiel.hpp").write_text(header(), encoding="utf-8")
    (tmp_path / "main.cpp").write_text(MAIN, encoding="utf-8")
    program = tmp_path / "program"
    # "../core/game.hpp" is looked up from the games' folder, as in the tree.
    include = f"-I{ROOT / 'native' / 'games'}"
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-pthread"]
    build = [compiler, *flags, "-Wno-missing-field-initializers", include]
    built = subprocess.run(
        [*build, str(tmp_path / "main.cpp"), "-o", str(program)], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([str(program)], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout) == (0, "played\n"), ran.stderr


def test_the_game_of_the_page_is_formatted_like_the_tree(tmp_path: Path) -> None:
    formatter = ROOT / ".venv" / "bin" / "clang-format"
    shutil.copy(ROOT / ".clang-format", tmp_path)
    source = tmp_path / "goofspiel.hpp"
    source.write_text(header(), encoding="utf-8")
    out = subprocess.run([str(formatter), str(source)], capture_output=True, text=True, check=True)
    assert out.stdout == header()
