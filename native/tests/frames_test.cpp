// Frames: what is answered from the socket to the hall and back, and what is left to the caller.
#include "../core/frames.hpp"

#include <unistd.h>

#include <memory>
#include <thread>

#include "../games/kuhn.hpp"
#include "check.hpp"

using namespace playmill;

namespace {

constexpr std::size_t kGames = 3, kRoom = 1 << 14;

// A hall, a desk on a thread, and the client's end of their socket.
struct Visit {
  Visit() : hall({}, 1), memory(kRoom), keys(kGames * 3 * kKeyBytes), ids(kGames) {
    const std::uint64_t nonce[kGames] = {1ull << 30, 2ull << 30, 3ull << 30}, seeds[kGames] = {1, 2, 3};
    const std::uint8_t drivers[2] = {};
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<std::uint8_t>(mix64(3, i));
    hall.open(kGames, nonce, seeds, keys.data(), drivers, 5, ids.data());
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    desk = std::make_unique<FrameDesk>(ends[0], memory.data(), memory.size(), 100, 0.2);
    const Schema schema = Kuhn::schema({});
    desk->know(0, hall, {2, legal_bytes_of<Kuhn>({}), static_cast<std::size_t>(schema.bytes())});
  }
  ~Visit() {
    close(ends[0]);
    close(ends[1]);
  }

  // What seat 0 of all games sends: states or, with an action, answers to turn 0.
  std::vector<std::uint8_t> request(std::uint32_t call, std::uint32_t hall_number = 0) const {
    const std::size_t columns = call == 1 ? 3 : 5;
    std::vector<std::uint8_t> out(64 * (1 + columns));
    FrameHeader head{};
    head.seq = 9;
    head.call = call;
    head.hall = hall_number;
    head.rows = kGames;
    head.size = static_cast<std::uint32_t>(64 * columns);
    std::memcpy(out.data(), &head, sizeof head);
    std::memcpy(&out[64], ids.data(), 8 * kGames);
    for (std::size_t i = 0; i < kGames; ++i)
      std::memcpy(&out[192 + i * kKeyBytes], &keys[i * 3 * kKeyBytes], kKeyBytes);
    return out;
  }

  void send_all(const std::vector<std::uint8_t>& data) {
    CHECK(write(ends[1], data.data(), data.size()) == static_cast<ssize_t>(data.size()));
  }

  FrameHeader head() {
    FrameHeader head;
    CHECK(recv(ends[1], &head, sizeof head, MSG_WAITALL) == sizeof head);
    return head;
  }
  std::vector<std::uint8_t> content(std::size_t size) {
    std::vector<std::uint8_t> out(size);
    CHECK(recv(ends[1], out.data(), size, MSG_WAITALL) == static_cast<ssize_t>(size));
    return out;
  }

  Hall<Kuhn> hall;
  std::vector<std::uint8_t> memory, keys;
  std::vector<std::uint64_t> ids;
  std::unique_ptr<FrameDesk> desk;
  int ends[2];
};

void states_and_turns_are_answered_and_counted() {
  Visit visit;
  bool left = true;
  std::thread server([&] { left = visit.desk->next(); });
  visit.send_all(visit.request(1));
  const FrameHeader states = visit.head();
  CHECK(states.ack == 9 && states.code == 0 && states.size % 64 == 0);
  CHECK(visit.content(states.size)[0] == 0);  // standing of the first row
  for (const Standing standing : {Standing::kOk, Standing::kRepeated}) {
    visit.send_all(visit.request(2));
    const FrameHeader answers = visit.head();
    CHECK(answers.ack == 9 && answers.size == 3 * 64);
    const auto found = visit.content(answers.size);
    CHECK(found[0] == static_cast<std::uint8_t>(standing) && found[64] == 1);
  }
  CHECK(visit.hall.changes() == 2 * kGames);
  shutdown(visit.ends[1], SHUT_WR);
  server.join();
  CHECK(!left);
}

void what_is_not_for_here_is_left_to_the_caller() {
  Visit visit;
  const auto left = [&](const std::vector<std::uint8_t>& data) {
    visit.send_all(data);
    return visit.desk->next() && std::memcmp(visit.memory.data(), data.data(), data.size()) == 0;
  };
  CHECK(left(visit.request(1, 1)));  // a hall it does not know
  CHECK(left(visit.request(7)));
  for (const auto& [at, value] : {std::pair<std::size_t, std::uint32_t>{24, 101}, {24, 2'000'000'000}, {24, 90}}) {
    auto many = visit.request(1);
    std::memcpy(&many[at], &value, sizeof value);
    CHECK(left(many));
  }
  visit.hall.drain();
  CHECK(left(visit.request(2)));
  CHECK(visit.hall.changes() == kGames);  // opened, and nothing since
}

void a_frame_longer_than_the_memory_is_not_read() {
  Visit visit;
  auto frame = visit.request(1);
  const std::uint32_t size = kRoom;
  std::memcpy(&frame[28], &size, sizeof size);
  visit.send_all(frame);
  CHECK(visit.desk->next());
  std::uint8_t rest[1024];
  CHECK(recv(visit.ends[0], rest, sizeof rest, MSG_DONTWAIT) == static_cast<ssize_t>(frame.size() - 64));
}

void half_a_frame_is_given_up() {
  Visit visit;
  auto frame = visit.request(1);
  frame.resize(100);
  visit.send_all(frame);
  CHECK(!visit.desk->next());
}

void who_does_not_read_is_given_up() {
  Visit visit;
  int room = 4096;
  setsockopt(visit.ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  std::thread server([&] { CHECK(!visit.desk->next()); });
  const auto frame = visit.request(1);
  for (int i = 0; i < 100; ++i) visit.send_all(frame);
  server.join();
}

}  // namespace

int main() {
  states_and_turns_are_answered_and_counted();
  what_is_not_for_here_is_left_to_the_caller();
  a_frame_longer_than_the_memory_is_not_read();
  half_a_frame_is_given_up();
  who_does_not_read_is_given_up();
  return 0;
}
