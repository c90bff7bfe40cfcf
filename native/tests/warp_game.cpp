// The rules once more, compiled for the lanes of a warp and under another name.
#define PLAYMILL_ACTED_WARP
#define playmill playmill_by_warp
#include "acted_warp.hpp"
// The warp comes first: the rules are written in its words.
#include "core/registry.hpp"
#include "games/generals.hpp"
#include "warp_game.hpp"

namespace {

using namespace playmill;

template <Game G>
class Acted final : public WarpGame {
 public:
  explicit Acted(const GeneralsOptions& options) : tables_{options, G::seats(options)} {
    prepared_ = prepare<G>(tables_.options);
    std::memset(static_cast<void*>(&slot_), 0, sizeof slot_);
  }

  void start(std::uint64_t seed) override {
    acted::Warp::one().run([&] { tables_.start(slot_, seed); });
  }

  int scripted(int kind) override {
    int found[32] = {};
    acted::Warp::one().run([&] { found[acted::thread().x] = tables_.scripted(slot_, kind); });
    for (const int other : found)
      if (other != found[0]) return -1;  // the lanes do not agree
    return found[0];
  }

  std::vector<float> apply(int action) override {
    Report report;
    acted::Warp::one().run([&] { tables_.apply(slot_, action, report); });
    return {report.reward, report.reward + tables_.seats};
  }

  std::vector<std::uint8_t> legal_row() override {
    std::vector<std::uint8_t> row(legal_bytes_of<G>(tables_.options) + 8, 0xAA);
    acted::Warp::one().run([&] { slot_.game.legal_row(tables_.options, row.data()); });
    return row;
  }

  std::vector<std::uint8_t> observe(int seat) override {
    std::vector<std::uint8_t> row(static_cast<std::size_t>(G::schema(tables_.options).bytes()) + 8, 0xAA);
    // Rows begin at any byte.
    acted::Warp::one().run([&] { slot_.game.observe(tables_.options, seat, row.data() + shift_); });
    row.erase(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(shift_));
    shift_ = (shift_ + 1) % 4;
    return row;
  }

  std::vector<std::uint8_t> state() const override {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&slot_);
    return {bytes, bytes + sizeof slot_};
  }

 private:
  Tables<G> tables_;
  Prepared prepared_;
  Slot<G> slot_;
  std::size_t shift_ = 0;
};

}  // namespace

std::unique_ptr<WarpGame> make_warp_game(const std::map<std::string, int>& options, int side, int players) {
  const auto read = read_options<Generals>(options);
  if (side == 12 && players == 2) return std::make_unique<Acted<GeneralsBoard<12, 2>>>(read);
  if (side == 20 && players == 2) return std::make_unique<Acted<GeneralsBoard<20, 2>>>(read);
  return std::make_unique<Acted<GeneralsBoard<32, 8>>>(read);
}
