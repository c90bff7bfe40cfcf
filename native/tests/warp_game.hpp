// One game of Generals as a warp plays it, acted on the host (warp_game.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

class WarpGame {
 public:
  virtual ~WarpGame() = default;
  virtual void start(std::uint64_t seed) = 0;
  virtual int scripted(int kind) = 0;
  virtual std::vector<float> apply(int action) = 0;
  virtual std::vector<std::uint8_t> legal_row() = 0;
  virtual std::vector<std::uint8_t> observe(int seat) = 0;
  virtual std::vector<std::uint8_t> state() const = 0;
};

// Of the type for boards up to `side` with up to `players`.
std::unique_ptr<WarpGame> make_warp_game(const std::map<std::string, int>& options, int side, int players);
