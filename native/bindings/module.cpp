// The Python module playmill._native. Arrays are the caller's; every batch is one call, with
// the GIL released while it runs.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "../core/expand.hpp"
#include "../core/policy_loss.hpp"
#include "../core/returns.hpp"
#include "../core/sample.hpp"
#include "../core/vtrace.hpp"
#include "../games/all_games.hpp"
#include "arrays.hpp"
#include "fields.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace playmill;

const GameEntry& playmill::entry(const std::string& name) {
  const auto found = all_games().find(name);
  if (found == all_games().end()) throw nb::key_error(name.c_str());
  return found->second;
}

namespace {

// A pool and the sizes its arrays must have.
class PoolHandle {
 public:
  PoolHandle(const std::string& name, const OptionValues& options, std::size_t games, std::uint64_t seed, int threads)
      : facts_(entry(name).facts(options)), pool_(entry(name).pool(options, games, seed, threads)) {}

  void turns(Bytes2 observation, Bytes2 legal, Bytes1 seat, Bytes1 role, Bytes1 driver) {
    const auto n = pool_->games();
    want(observation, "observation", {n, static_cast<std::size_t>(facts_.schema.bytes())});
    want(legal, "legal", {n, static_cast<std::size_t>(facts_.legal_bytes)});
    want(seat, "seat", {n});
    want(role, "role", {n});
    want(driver, "driver", {n});
    nb::gil_scoped_release release;
    pool_->turns(observation.data(), legal.data(), seat.data(), role.data(), driver.data());
  }

  void act(Ints1 actions, Floats2 rewards, Bytes1 over) {
    const auto n = pool_->games();
    want(actions, "actions", {n});
    want(rewards, "rewards", {n, static_cast<std::size_t>(facts_.seats)});
    want(over, "over", {n});
    nb::gil_scoped_release release;
    pool_->act(actions.data(), rewards.data(), over.data());
  }

  void bot_actions(Bytes1 kinds, Ints1 actions) {
    want(kinds, "kinds", {pool_->games()});
    want(actions, "actions", {pool_->games()});
    nb::gil_scoped_release release;
    pool_->bot_actions(kinds.data(), actions.data());
  }

  void reset(bool stagger) {
    nb::gil_scoped_release release;
    pool_->reset(nullptr, stagger);
  }

  void reset_to(Array<std::uint64_t, 1> seeds) {
    want(seeds, "seeds", {pool_->games()});
    nb::gil_scoped_release release;
    pool_->reset(seeds.data(), false);
  }

  void set_drivers(Bytes2 drivers) {
    want(drivers, "drivers", {pool_->games(), static_cast<std::size_t>(facts_.seats)});
    nb::gil_scoped_release release;
    pool_->set_drivers(drivers.data());
  }

  nb::bytes snapshot() const { return to_bytes(pool_->snapshot()); }
  void restore(nb::bytes data) { pool_->restore(reinterpret_cast<const std::uint8_t*>(data.c_str()), data.size()); }

  // {driver: {stat: (mean, count)}} as flat lists: (driver, stat, sum, count).
  nb::list tallies() const {
    nb::list out;
    const auto cells = pool_->tallies();
    const auto stats = facts_.stats.size();
    for (std::size_t i = 0; i < cells.size(); ++i)
      if (cells[i].n > 0) out.append(nb::make_tuple(i / stats, i % stats, cells[i].sum, cells[i].n));
    return out;
  }
  void clear_tallies() { pool_->clear_tallies(); }

  std::size_t games() const { return pool_->games(); }
  int threads() const { return pool_->threads(); }
  std::size_t bytes() const { return pool_->bytes(); }

 private:
  GameFacts facts_;
  std::unique_ptr<AnyPool> pool_;
};

class GameHandle {
 public:
  GameHandle(const std::string& name, const OptionValues& options, std::uint64_t seed)
      : game_(entry(name).game(options, seed)) {}
  static GameHandle from_text(const std::string& name, const OptionValues& options, const std::string& text,
                              std::uint64_t seed) {
    return GameHandle(entry(name).game_from(options, text, seed));
  }
  explicit GameHandle(std::unique_ptr<AnyGame> game) : game_(std::move(game)) {}
  GameHandle copy() const { return GameHandle(game_->copy()); }
  AnyGame& value() { return *game_; }
  const AnyGame& value() const { return *game_; }

 private:
  std::unique_ptr<AnyGame> game_;
};

nb::dict facts_of(const std::string& name, const OptionValues& options) {
  const GameFacts facts = entry(name).facts(options);
  nb::dict out;
  out["name"] = facts.name;
  out["title"] = facts.title;
  out["seats"] = facts.seats;
  out["actions"] = facts.actions;
  out["legal_bytes"] = facts.legal_bytes;
  out["state_bytes"] = facts.state_bytes;
  out["roles"] = facts.roles;
  out["bots"] = facts.bots;
  out["stats"] = facts.stats;
  nb::list described;
  for (const auto& o : facts.options)
    described.append(nb::make_tuple(o.name, o.low, o.high, o.standard, o.choices, o.help));
  out["options"] = described;
  nb::list fields;
  for (const auto& f : facts.schema.fields())
    fields.append(nb::make_tuple(f.name, static_cast<int>(f.encoding), f.rows, f.columns, f.size, f.scale, f.counted));
  out["fields"] = fields;
  out["legend"] = facts.legend;
  out["open_table"] = facts.open_table;
  out["schema_hash"] = facts.schema.hash();
  nb::list groups;
  for (const auto& group : facts.board.actions) groups.append(nb::make_tuple(group.each_square, group.headings));
  out["board"] = nb::make_tuple(facts.board.height, facts.board.width, groups);
  return out;
}

// A uniform one of the actions in a row of legal bits, as bot 0 would draw it in that turn; -1 where there is none.
int random_legal(std::uint64_t seed, std::uint32_t turn, nb::bytes legal) {
  const auto* bits = reinterpret_cast<const std::uint8_t*>(legal.c_str());
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < legal.size(); ++i) count += static_cast<std::uint32_t>(std::popcount(bits[i]));
  if (count == 0) return -1;
  auto left = Random(seed, kBotStream + turn).below(count);
  for (std::size_t i = 0;; ++i)
    for (unsigned byte = bits[i]; byte != 0; byte &= byte - 1)
      if (left-- == 0) return static_cast<int>(8 * i) + std::countr_zero(byte);
}

class KernelsHandle {
 public:
  explicit KernelsHandle(int threads) : workers_(threads) {}

  void sample(Floats2 logits, Bytes2 legal, std::uint64_t seed, std::uint64_t step, bool greedy, Ints1 action,
              Floats1 log_probability) {
    const auto n = logits.shape(0);
    const auto actions = logits.shape(1);
    if (legal.shape(0) != n || legal.shape(1) * 8 < actions) throw nb::value_error("legal does not fit logits");
    want(action, "action", {n});
    want(log_probability, "log_probability", {n});
    nb::gil_scoped_release release;
    sample_actions(workers_, logits.data(), legal.data(), n, static_cast<int>(actions),
                   static_cast<int>(legal.shape(1)), seed, step, greedy, action.data(), log_probability.data());
  }

  // Returns the mean terms (policy, entropy, kl, magnet, clip_share); an empty magnet is none.
  nb::tuple loss(Floats2 logits, Bytes2 legal, Array<std::int64_t, 1> action, Floats1 log_probability,
                 Floats1 advantage, Floats2 magnet, float clip, float entropy_weight, float magnet_weight,
                 Floats2 gradient) {
    const auto n = logits.shape(0);
    const auto actions = logits.shape(1);
    if (n == 0 || legal.shape(0) != n || legal.shape(1) * 8 < actions)
      throw nb::value_error("legal does not fit logits");
    want(action, "action", {n});
    want(log_probability, "log_probability", {n});
    want(advantage, "advantage", {n});
    want(gradient, "gradient", {n, actions});
    if (magnet.shape(0) != 0) want(magnet, "magnet", {n, actions});
    for (std::size_t i = 0; i < n; ++i)
      if (action.data()[i] < 0 || action.data()[i] >= static_cast<std::int64_t>(actions))
        throw nb::value_error(("row " + std::to_string(i) + ": there is no such action").c_str());
    PolicyLossInput in;
    in.rows = n;
    in.actions = static_cast<int>(actions);
    in.legal_bytes = static_cast<int>(legal.shape(1));
    in.logits = logits.data();
    in.legal = legal.data();
    in.action = action.data();
    in.log_probability = log_probability.data();
    in.advantage = advantage.data();
    in.magnet = magnet.shape(0) != 0 ? magnet.data() : nullptr;
    in.clip = clip;
    in.entropy_weight = entropy_weight;
    in.magnet_weight = magnet_weight;
    PolicyLossTerms terms;
    {
      nb::gil_scoped_release release;
      terms = policy_loss(workers_, in, gradient.data());
    }
    return nb::make_tuple(terms.policy, terms.entropy, terms.kl, terms.magnet, terms.clip_share);
  }

  void returns(Array<float, 3> reward, Bytes2 over, Bytes2 seat, Floats2 value, float gamma, float lambda,
               Floats2 advantage, Bytes2 usable) {
    const auto columns = rollout_columns(reward, over, seat, value);
    want(advantage, "advantage", {reward.shape(0), reward.shape(1)});
    want(usable, "usable", {reward.shape(0), reward.shape(1)});
    nb::gil_scoped_release release;
    seat_returns(workers_, columns, gamma, lambda, advantage.data(), usable.data());
  }

  void vtrace(Array<float, 3> reward, Bytes2 over, Bytes2 seat, Floats2 value, Floats2 played, Floats2 now, float gamma,
              float lambda, float rho, float c, bool others, Floats2 advantage, Floats2 target, Floats2 weight,
              Bytes2 usable) {
    const auto columns = rollout_columns(reward, over, seat, value);
    for (const auto* array : {&played, &now}) want(*array, "log_probability", {reward.shape(0), reward.shape(1)});
    want(advantage, "advantage", {reward.shape(0), reward.shape(1)});
    want(target, "target", {reward.shape(0), reward.shape(1)});
    want(weight, "weight", {reward.shape(0), reward.shape(1)});
    want(usable, "usable", {reward.shape(0), reward.shape(1)});
    nb::gil_scoped_release release;
    seat_vtrace(workers_, columns, {played.data(), now.data()}, {gamma, lambda, rho, c, others}, advantage.data(),
                target.data(), weight.data(), usable.data());
  }

 private:
  static RolloutColumns rollout_columns(const Array<float, 3>& reward, const Bytes2& over, const Bytes2& seat,
                                        const Floats2& value) {
    const auto steps = reward.shape(0), games = reward.shape(1), seats = reward.shape(2);
    want(over, "over", {steps, games});
    want(seat, "seat", {steps, games});
    want(value, "value", {steps, games});
    // Rows may come from another process: a seat that is not there would be written past the end.
    for (std::size_t i = 0; i < steps * games; ++i)
      if (seat.data()[i] >= seats)
        throw nb::value_error(("turn " + std::to_string(i) + ": there is no seat " + std::to_string(seat.data()[i]) +
                               " among " + std::to_string(seats))
                                  .c_str());
    return {static_cast<int>(steps),
            static_cast<int>(games),
            static_cast<int>(seats),
            reward.data(),
            over.data(),
            seat.data(),
            value.data()};
  }

  Workers workers_;
};

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "Playmill's native core: rules, pools of games, packed observations.";
  m.attr("FIRST_BOT") = kFirstBot;
  m.attr("WITHOUT_CUDA") = PLAYMILL_WITHOUT_CUDA;  // why the CUDA lane was not built, or nothing
  nb::exception<IllegalAction>(m, "IllegalAction", PyExc_ValueError);
  nb::exception<OutOfTurn>(m, "OutOfTurn", PyExc_RuntimeError);

  m.def("names", [] {
    std::vector<std::string> names;
    for (const auto& [name, unused] : all_games()) names.push_back(name);
    return names;
  });
  m.def("facts", &facts_of, "name"_a, "options"_a);
  m.def("schema_hash", [](nb::list fields) { return schema_from(fields).hash(); }, "fields"_a);
  // Seeds of games and answers of bot 0, for pools whose games are played elsewhere.
  m.def(
      "episode_seed",
      [](std::uint64_t seed, std::uint64_t row, std::uint64_t episode) { return mix64(mix64(seed, row), episode); },
      "seed"_a, "row"_a, "episode"_a);
  m.def("random_legal", &random_legal, "seed"_a, "turn"_a, "legal"_a);
  m.def(
      "text_options", [](const std::string& name, const std::string& text) { return entry(name).text_options(text); },
      "name"_a, "text"_a);

  // Arrays that are written into are never converted: what was written would be lost in a copy.
  nb::class_<PoolHandle>(m, "Pool")
      .def(nb::init<const std::string&, const OptionValues&, std::size_t, std::uint64_t, int>(), "name"_a, "options"_a,
           "games"_a, "seed"_a, "threads"_a)
      .def("turns", &PoolHandle::turns, "observation"_a.noconvert(), "legal"_a.noconvert(), "seat"_a.noconvert(),
           "role"_a.noconvert(), "driver"_a.noconvert())
      .def("act", &PoolHandle::act, "actions"_a, "rewards"_a.noconvert(), "over"_a.noconvert())
      .def("bot_actions", &PoolHandle::bot_actions, "kinds"_a, "actions"_a.noconvert())
      .def("reset", &PoolHandle::reset, "stagger"_a)
      .def("reset_to", &PoolHandle::reset_to, "seeds"_a)
      .def("set_drivers", &PoolHandle::set_drivers, "drivers"_a)
      .def("snapshot", &PoolHandle::snapshot)
      .def("restore", &PoolHandle::restore, "data"_a)
      .def("tallies", &PoolHandle::tallies)
      .def("clear_tallies", &PoolHandle::clear_tallies)
      .def_prop_ro("games", &PoolHandle::games)
      .def_prop_ro("threads", &PoolHandle::threads)
      .def_prop_ro("bytes", &PoolHandle::bytes);

  bind_hall(m);
  bind_sum_tree(m);

  nb::class_<GameHandle>(m, "Game")
      .def(nb::init<const std::string&, const OptionValues&, std::uint64_t>(), "name"_a, "options"_a, "seed"_a)
      .def_static("from_text", &GameHandle::from_text, "name"_a, "options"_a, "text"_a, "seed"_a)
      .def("copy", &GameHandle::copy)
      .def_prop_ro("over", [](const GameHandle& g) { return g.value().over(); })
      .def_prop_ro("seat", [](const GameHandle& g) { return g.value().seat(); })
      .def_prop_ro("role", [](const GameHandle& g) { return g.value().role(); })
      .def("legal", [](const GameHandle& g) { return g.value().legal(); })
      .def("legal_bits", [](const GameHandle& g) { return to_bytes(g.value().legal_bits()); })
      .def(
          "observe", [](const GameHandle& g, int seat) { return to_bytes(g.value().observe(seat)); }, "seat"_a)
      .def(
          "act", [](GameHandle& g, int action) { return g.value().act(action); }, "action"_a)
      .def(
          "bot", [](const GameHandle& g, int kind) { return g.value().bot(kind); }, "kind"_a)
      .def(
          "action_text", [](const GameHandle& g, int action) { return g.value().action_text(action); }, "action"_a)
      .def(
          "table_text", [](const GameHandle& g, int seat) { return g.value().table_text(seat); }, "seat"_a)
      .def("state", [](const GameHandle& g) { return to_bytes(g.value().state()); })
      // Sum and number of what was counted, [seats, stats] one behind the other.
      .def("tallies", [](const GameHandle& g) {
        nb::list out;
        for (const Tally& cell : g.value().tallies()) out.append(nb::make_tuple(cell.sum, cell.n));
        return out;
      });

  nb::class_<Expander>(m, "Expander")
      .def(
          "__init__",
          [](Expander* self, nb::list fields, int threads) { new (self) Expander(schema_from(fields), threads); },
          "fields"_a, "threads"_a)
      .def_prop_ro("bytes", &Expander::bytes)
      .def_prop_ro("features", &Expander::features)
      .def(
          "expand",
          [](Expander& e, Bytes2 rows, Floats2 out) {
            want(rows, "rows", {rows.shape(0), static_cast<std::size_t>(e.bytes())});
            want(out, "out", {rows.shape(0), static_cast<std::size_t>(e.features())});
            nb::gil_scoped_release release;
            e.expand(rows.data(), rows.shape(0), out.data());
          },
          "rows"_a, "out"_a.noconvert())
      .def(
          "forward",
          [](Expander& e, Bytes2 rows, Floats2 weight, Floats1 bias, Floats2 out) {
            const auto width = weight.shape(1);
            want(rows, "rows", {rows.shape(0), static_cast<std::size_t>(e.bytes())});
            want(weight, "weight", {static_cast<std::size_t>(e.features()), width});
            want(bias, "bias", {width});
            want(out, "out", {rows.shape(0), width});
            nb::gil_scoped_release release;
            e.forward(rows.data(), rows.shape(0), weight.data(), bias.data(), static_cast<int>(width), out.data());
          },
          "rows"_a, "weight"_a, "bias"_a, "out"_a.noconvert())
      .def(
          "backward",
          [](Expander& e, Bytes2 rows, Floats2 upstream, Floats2 gradient) {
            const auto width = upstream.shape(1);
            want(rows, "rows", {upstream.shape(0), static_cast<std::size_t>(e.bytes())});
            want(gradient, "gradient", {static_cast<std::size_t>(e.features()), width});
            nb::gil_scoped_release release;
            e.backward(rows.data(), rows.shape(0), upstream.data(), static_cast<int>(width), gradient.data());
          },
          "rows"_a, "upstream"_a, "gradient"_a.noconvert());

  nb::class_<KernelsHandle>(m, "Kernels")
      .def(nb::init<int>(), "threads"_a)
      .def("sample", &KernelsHandle::sample, "logits"_a, "legal"_a, "seed"_a, "step"_a, "greedy"_a,
           "action"_a.noconvert(), "log_probability"_a.noconvert())
      .def("policy_loss", &KernelsHandle::loss, "logits"_a, "legal"_a, "action"_a, "log_probability"_a, "advantage"_a,
           "magnet"_a, "clip"_a, "entropy_weight"_a, "magnet_weight"_a, "gradient"_a.noconvert())
      .def("returns", &KernelsHandle::returns, "reward"_a, "over"_a, "seat"_a, "value"_a, "gamma"_a, "lambda_"_a,
           "advantage"_a.noconvert(), "usable"_a.noconvert())
      .def("vtrace", &KernelsHandle::vtrace, "reward"_a, "over"_a, "seat"_a, "value"_a, "played"_a, "now"_a, "gamma"_a,
           "lambda_"_a, "rho"_a, "c"_a, "others"_a, "advantage"_a.noconvert(), "target"_a.noconvert(),
           "weight"_a.noconvert(), "usable"_a.noconvert());
}
