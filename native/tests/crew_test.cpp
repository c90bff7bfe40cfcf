// Generals as the lanes of a warp play it, acted on the host, beside Generals on the CPU: the same bytes in every
// tick, whatever the lanes' order.
#include "check.hpp"
#include "core/registry.hpp"
#include "games/generals.hpp"
#include "warp_game.hpp"

using namespace playmill;

namespace {

// Beyond the row's last byte the warp has written nothing.
bool same_row(const std::vector<std::uint8_t>& mine, const std::vector<std::uint8_t>& theirs) {
  for (std::size_t i = mine.size(); i < theirs.size(); ++i)
    if (theirs[i] != 0xAA) return false;
  return std::equal(mine.begin(), mine.end(), theirs.begin());
}

template <int kSide, int kPlayers>
void plays_alike(const OptionValues& options, int games, int turns) {
  using G = GeneralsBoard<kSide, kPlayers>;
  Tables<G> tables{read_options<Generals>(options), 0};
  tables.seats = G::seats(tables.options);
  const Prepared prepared = prepare<G>(tables.options);
  const std::unique_ptr<WarpGame> warp = make_warp_game(options, kSide, kPlayers);
  Slot<G> slot;
  std::memset(static_cast<void*>(&slot), 0, sizeof slot);
  for (int game = 0; game < games; ++game) {
    const std::uint64_t seed = mix64(77, static_cast<std::uint64_t>(game));
    tables.start(slot, seed);
    warp->start(seed);
    for (int turn = 0; turn < turns && !slot.game.over(); ++turn) {
      const std::vector<std::uint8_t> state = warp->state();
      CHECK(std::memcmp(&slot, state.data(), sizeof slot) == 0);
      std::vector<std::uint8_t> legal(legal_bytes_of<G>(tables.options));
      slot.game.legal_row(tables.options, legal.data());
      CHECK(same_row(legal, warp->legal_row()));
      for (int seat = 0; seat < tables.seats; ++seat) {
        std::vector<std::uint8_t> row(static_cast<std::size_t>(G::schema(tables.options).bytes()));
        slot.game.observe(tables.options, seat, row.data());
        CHECK(same_row(row, warp->observe(seat)));
      }
      // Bots meet and take land, random play wanders.
      const int kind = (turn / 40 + game) % 3 == 0 ? 0 : 1 + (turn + game) % 3;
      const int action = tables.scripted(slot, kind);
      CHECK(warp->scripted(kind) == action);
      CHECK(warp->scripted(0) == tables.scripted(slot, 0));
      Report report;
      tables.apply(slot, action, report);
      const std::vector<float> rewards = warp->apply(action);
      CHECK(std::equal(rewards.begin(), rewards.end(), report.reward));
    }
  }
}

}  // namespace

int main() {
  plays_alike<12, 2>({{"width", 6}, {"height", 5}, {"max_ticks", 150}}, 6, 300);
  plays_alike<12, 2>({{"preset", 0}, {"width", 9}, {"height", 7}, {"maps", 20}, {"mountains", 5}}, 4, 500);
  plays_alike<20, 2>({{"shaping", 50}}, 2, 700);
  plays_alike<20, 2>({{"preset", 2}, {"width", 15}, {"height", 13}, {"distance", 4}}, 3, 500);
  plays_alike<32, 8>({{"width", 13}, {"height", 17}, {"players", 5}, {"order", 3}}, 2, 900);
  plays_alike<32, 8>({{"width", 32}, {"height", 32}, {"players", 8}, {"order", 4}, {"preset", 0}}, 1, 800);
  return 0;
}
