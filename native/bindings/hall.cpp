// playmill._native.Hall: games behind keys, for the batch game service; and FrameDesk, a client of it.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include "../core/frames.hpp"
#include "arrays.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace playmill {
namespace {

using Games1 = Array<std::uint64_t, 1>;
using Turns1 = Array<std::uint32_t, 1>;
// Requests are read only: they may be views of received bytes.
template <class T, std::size_t Dimensions>
using Given = Array<const T, Dimensions>;
using GivenGames1 = Given<std::uint64_t, 1>;
using GivenTurns1 = Given<std::uint32_t, 1>;
using GivenBytes1 = Given<std::uint8_t, 1>;
using GivenBytes2 = Given<std::uint8_t, 2>;

// A hall and the sizes its arrays must have.
class HallHandle {
 public:
  HallHandle(const std::string& name, const OptionValues& options, int threads)
      : facts_(entry(name).facts(options)),
        seats_(static_cast<std::size_t>(facts_.seats)),
        hall_(entry(name).hall(options, threads)) {}

  void open(GivenGames1 nonce, GivenGames1 seed, Given<std::uint8_t, 3> keys, GivenBytes1 drivers, std::uint64_t now,
            Games1 game) {
    const auto n = game.shape(0);
    want(nonce, "nonce", {n});
    want(seed, "seed", {n});
    want(keys, "keys", {n, seats_ + 1, kKeyBytes});
    want(drivers, "drivers", {seats_});
    nb::gil_scoped_release release;
    hall_->open(n, nonce.data(), seed.data(), keys.data(), drivers.data(), now, game.data());
  }

  void states(GivenGames1 game, GivenBytes1 seat, GivenBytes2 key, Bytes1 standing, Turns1 turn, Bytes1 to_act,
              Bytes1 role, Bytes1 over, Floats2 rewards, Bytes2 legal, Bytes2 observation) {
    const Places places = seats_of(game, seat, key);
    const auto n = places.rows;
    want(standing, "standing", {n});
    want(turn, "turn", {n});
    want(to_act, "to_act", {n});
    want(role, "role", {n});
    want(over, "over", {n});
    want(rewards, "rewards", {n, seats_});
    want(legal, "legal", {n, static_cast<std::size_t>(facts_.legal_bytes)});
    want(observation, "observation", {n, static_cast<std::size_t>(facts_.schema.bytes())});
    nb::gil_scoped_release release;
    hall_->states(places, {standing.data(), turn.data(), to_act.data(), role.data(), over.data(), rewards.data(),
                           legal.data(), observation.data()});
  }

  std::size_t submit(GivenGames1 game, GivenBytes1 seat, GivenBytes2 key, GivenTurns1 turn,
                     Given<std::int32_t, 1> action, std::uint64_t now, Bytes1 standing, Turns1 turn_now, Bytes1 over) {
    const Places places = seats_of(game, seat, key);
    want(turn, "turn", {places.rows});
    want(action, "action", {places.rows});
    const AnswerColumns out = answers(places, standing, turn_now, over);
    nb::gil_scoped_release release;
    return hall_->submit(places, turn.data(), action.data(), now, out);
  }

  std::size_t reset(GivenGames1 game, GivenBytes2 key, GivenTurns1 turn, GivenGames1 seed, std::uint64_t now,
                    Bytes1 standing, Turns1 turn_now, Bytes1 over) {
    const Places hosts = hosts_of(game, key);
    want(turn, "turn", {hosts.rows});
    want(seed, "seed", {hosts.rows});
    const AnswerColumns out = answers(hosts, standing, turn_now, over);
    nb::gil_scoped_release release;
    return hall_->reset(hosts, turn.data(), seed.data(), now, out);
  }

  std::size_t close(GivenGames1 game, GivenBytes2 key, Bytes1 standing) {
    const Places hosts = hosts_of(game, key);
    want(standing, "standing", {hosts.rows});
    nb::gil_scoped_release release;
    return hall_->close(hosts, standing.data());
  }

  std::size_t sweep(std::uint64_t before) {
    nb::gil_scoped_release release;
    return hall_->sweep(before);
  }

  void keys(GivenGames1 game, Array<std::uint8_t, 3> keys) {
    want(keys, "keys", {game.shape(0), seats_ + 1, kKeyBytes});
    nb::gil_scoped_release release;
    hall_->keys(game.shape(0), game.data(), keys.data());
  }

  nb::bytes snapshot() {
    const std::size_t size = hall_->snapshot_bytes();
    auto out = nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
    if (!out.is_valid()) throw nb::python_error();
    auto* data = reinterpret_cast<std::uint8_t*>(PyBytes_AS_STRING(out.ptr()));
    {
      nb::gil_scoped_release release;
      hall_->snapshot(data, size);
    }
    return out;
  }

  void restore(nb::bytes data) { hall_->restore(reinterpret_cast<const std::uint8_t*>(data.c_str()), data.size()); }

  std::size_t games() const { return hall_->games(); }
  std::size_t bytes() const { return hall_->bytes(); }
  std::uint64_t changes() const { return hall_->changes(); }
  void drain() { hall_->drain(); }

  void sit(FrameDesk& desk, std::size_t number) {
    const auto wide = [](int count) { return static_cast<std::size_t>(count); };
    desk.know(number, *hall_, {seats_, wide(facts_.legal_bytes), wide(facts_.schema.bytes())});
  }

 private:
  static Places seats_of(const GivenGames1& game, const GivenBytes1& seat, const GivenBytes2& key) {
    const auto n = game.shape(0);
    want(seat, "seat", {n});
    want(key, "key", {n, kKeyBytes});
    return {n, game.data(), seat.data(), key.data()};
  }

  static Places hosts_of(const GivenGames1& game, const GivenBytes2& key) {
    want(key, "key", {game.shape(0), kKeyBytes});
    return {game.shape(0), game.data(), nullptr, key.data()};
  }

  static AnswerColumns answers(const Places& places, const Bytes1& standing, const Turns1& turn, const Bytes1& over) {
    want(standing, "standing", {places.rows});
    want(turn, "turn_now", {places.rows});
    want(over, "over", {places.rows});
    return {standing.data(), turn.data(), over.data()};
  }

  GameFacts facts_;
  std::size_t seats_;
  std::unique_ptr<AnyHall> hall_;
};

}  // namespace

void bind_hall(nb::module_& m) {
  m.attr("KEY_BYTES") = kKeyBytes;
  m.attr("STANDINGS") =
      nb::make_tuple("ok", "repeated", "not_your_turn", "illegal", "over", "stale", "ahead", "no_game", "wrong_key");
  nb::class_<HallHandle>(m, "Hall")
      .def(nb::init<const std::string&, const OptionValues&, int>(), "name"_a, "options"_a, "threads"_a)
      .def("open", &HallHandle::open, "nonce"_a, "seed"_a, "keys"_a, "drivers"_a, "now"_a, "game"_a.noconvert())
      .def("states", &HallHandle::states, "game"_a, "seat"_a, "key"_a, "standing"_a.noconvert(), "turn"_a.noconvert(),
           "to_act"_a.noconvert(), "role"_a.noconvert(), "over"_a.noconvert(), "rewards"_a.noconvert(),
           "legal"_a.noconvert(), "observation"_a.noconvert())
      .def("submit", &HallHandle::submit, "game"_a, "seat"_a, "key"_a, "turn"_a, "action"_a, "now"_a,
           "standing"_a.noconvert(), "turn_now"_a.noconvert(), "over"_a.noconvert())
      .def("reset", &HallHandle::reset, "game"_a, "key"_a, "turn"_a, "seed"_a, "now"_a, "standing"_a.noconvert(),
           "turn_now"_a.noconvert(), "over"_a.noconvert())
      .def("close", &HallHandle::close, "game"_a, "key"_a, "standing"_a.noconvert())
      .def("sweep", &HallHandle::sweep, "before"_a)
      .def("keys", &HallHandle::keys, "game"_a, "keys"_a.noconvert())
      .def("snapshot", &HallHandle::snapshot)
      .def("restore", &HallHandle::restore, "data"_a)
      .def("drain", &HallHandle::drain)
      .def_prop_ro("changes", &HallHandle::changes)
      .def_prop_ro("games", &HallHandle::games)
      .def_prop_ro("bytes", &HallHandle::bytes);
  nb::class_<FrameDesk>(m, "FrameDesk")
      .def(
          "__init__",
          [](FrameDesk* self, int socket, Bytes1 memory, std::size_t rows, double patience) {
            new (self) FrameDesk(socket, memory.data(), memory.shape(0), rows, patience);
          },
          "socket"_a, "memory"_a.noconvert(), "rows"_a, "patience"_a, nb::keep_alive<1, 3>())
      .def(
          "know", [](FrameDesk& self, std::size_t number, HallHandle& hall) { hall.sit(self, number); }, "number"_a,
          "hall"_a, nb::keep_alive<1, 3>())
      .def("next", &FrameDesk::next, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "reply", [](FrameDesk& self, std::size_t begin) { return self.reply(begin); }, "begin"_a,
          nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace playmill
