// The Python module playmill._cuda: built where a CUDA compiler is, absent where none is. Arrays are
// addresses on the card, checked by the Python side; nothing here waits for the card unless it says so.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "../cuda/mlp.hpp"
#include "../cuda/pool.hpp"
#include "fields.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace playmill;

namespace {

using Address = std::uintptr_t;

template <class T = void>
T* at(Address address) {
  return reinterpret_cast<T*>(address);
}
cudaStream_t stream_at(Address stream) { return reinterpret_cast<cudaStream_t>(stream); }

Precision precision_named(const std::string& name) {
  if (name == "float32") return Precision::kFloat32;
  if (name == "bfloat16") return Precision::kBfloat16;
  if (name == "float16") return Precision::kFloat16;
  throw nb::value_error(("no precision is called " + name).c_str());
}

Advantages advantages_named(const std::string& name) {
  if (name == "raw") return Advantages::kRaw;
  if (name == "normalised") return Advantages::kNormalised;
  if (name == "taught") return Advantages::kTaught;
  throw nb::value_error(("no kind of advantages is called " + name).c_str());
}

// What the driver says, without ever raising.
nb::dict device_status() {
  nb::dict out;
  int driver = 0, runtime = 0, count = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();
  out["driver"] = driver;
  out["runtime"] = runtime;
  out["error"] = status == cudaSuccess ? std::string() : std::string(cudaGetErrorString(status));
  nb::list devices;
  for (int i = 0; status == cudaSuccess && i < count; ++i) {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    devices.append(nb::make_tuple(std::string(properties.name), properties.major, properties.minor,
                                  properties.totalGlobalMem, properties.multiProcessorCount));
  }
  out["devices"] = devices;
  return out;
}

// Whether the kernels here run on the current card: an empty string, or what the driver says.
std::string kernel_problem() {
  try {
    DeviceMemory control(sizeof(Control));
    begin_update(control.as<Control>(), 0, 0, nullptr);
    check(cudaDeviceSynchronize(), "running a kernel");
  } catch (const CudaError& error) {
    return error.what();
  }
  return {};
}

TurnRows turn_rows(Address observation, Address legal, Address seat, Address role, Address driver) {
  return {at<std::uint8_t>(observation), at<std::uint8_t>(legal), at<std::uint8_t>(seat), at<std::uint8_t>(role),
          at<std::uint8_t>(driver)};
}

class PoolHandle {
 public:
  PoolHandle(const std::string& name, const OptionValues& options, std::size_t games, std::uint64_t seed) {
    const auto found = cuda_pools().find(name);
    if (found == cuda_pools().end()) throw nb::key_error(name.c_str());
    pool_ = found->second(options, games, seed);
  }

  void turns(Address observation, Address legal, Address seat, Address role, Address driver, Address stream) {
    pool_->turns(turn_rows(observation, legal, seat, role, driver), stream_at(stream));
  }
  void act(Address actions, Address rewards, Address over, Address stream) {
    nb::gil_scoped_release release;
    pool_->act(at<std::int32_t>(actions), {at<float>(rewards), at<std::uint8_t>(over)}, stream_at(stream));
  }
  void bot_actions(Address kinds, Address actions, Address stream) {
    nb::gil_scoped_release release;
    pool_->bot_actions(at<std::uint8_t>(kinds), at<std::int32_t>(actions), stream_at(stream));
  }
  void script(std::size_t first, std::size_t count, Address kinds, Address actions, Address stream) {
    pool_->script(first, count, at<std::uint8_t>(kinds), at<std::int32_t>(actions), stream_at(stream));
  }

  void step(std::size_t first, std::size_t count, Address heads, int stride, Address legal, std::uint64_t seed,
            Address first_draw, std::uint64_t draw, bool greedy, Address action, Address log_probability, Address value,
            Address rewards, Address over, const std::vector<Address>& next, Address stream) {
    DrawRows rows;
    rows.heads = at<float>(heads);
    rows.stride = stride;
    rows.legal = at<std::uint8_t>(legal);
    rows.seed = seed;
    rows.first_draw = at<std::uint64_t>(first_draw);
    rows.draw = draw;
    rows.greedy = greedy;
    rows.action = at<std::int32_t>(action);
    rows.log_probability = at<float>(log_probability);
    rows.value = at<float>(value);
    pool_->step(first, count, rows, {at<float>(rewards), at<std::uint8_t>(over)}, next_rows(next), stream_at(stream));
  }
  void step_random(std::size_t first, std::size_t count, Address rewards, Address over,
                   const std::vector<Address>& next, Address stream) {
    pool_->step_random(first, count, {at<float>(rewards), at<std::uint8_t>(over)}, next_rows(next), stream_at(stream));
  }

  void reset(bool stagger, Address stream) {
    nb::gil_scoped_release release;
    pool_->reset(nullptr, stagger, stream_at(stream));
  }
  void reset_to(nb::ndarray<std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> seeds, Address stream) {
    if (seeds.shape(0) != pool_->games()) throw nb::value_error("seeds must be one a game");
    nb::gil_scoped_release release;
    pool_->reset(seeds.data(), false, stream_at(stream));
  }
  void set_drivers(nb::ndarray<std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> drivers, Address stream) {
    if (drivers.shape(0) != pool_->games()) throw nb::value_error("drivers must be one row a game");
    nb::gil_scoped_release release;
    pool_->set_drivers(drivers.data(), stream_at(stream));
  }

  nb::bytes snapshot(Address stream) const {
    const auto data = pool_->snapshot(stream_at(stream));
    return nb::bytes(reinterpret_cast<const char*>(data.data()), data.size());
  }
  void restore(nb::bytes data, Address stream) {
    pool_->restore(reinterpret_cast<const std::uint8_t*>(data.c_str()), data.size(), stream_at(stream));
  }

  // (cell, sum, count) of the cells that were counted in; a cell is driver * stats + stat.
  nb::list tallies(Address stream) const {
    nb::list out;
    const auto cells = pool_->tallies(stream_at(stream));
    for (std::size_t i = 0; i < cells.size(); ++i)
      if (cells[i].n > 0) out.append(nb::make_tuple(i, cells[i].sum, cells[i].n));
    return out;
  }
  void clear_tallies(Address stream) { pool_->clear_tallies(stream_at(stream)); }
  void take_tallies(Address out, Address stream) { pool_->take_tallies(at<Tally>(out), stream_at(stream)); }
  std::size_t tally_cells() const { return pool_->tally_cells(); }

  std::size_t games() const { return pool_->games(); }
  std::size_t bytes() const { return pool_->bytes(); }

 private:
  static TurnRows next_rows(const std::vector<Address>& next) {
    if (next.empty()) return {};
    if (next.size() != 5) throw nb::value_error("next must be observation, legal, seat, role and driver");
    return turn_rows(next[0], next[1], next[2], next[3], next[4]);
  }

  std::unique_ptr<AnyCudaPool> pool_;
};

// An array on the card that others take over by DLPack, without a copy.
class DeviceArray {
 public:
  DeviceArray(std::vector<std::size_t> shape, const std::string& type)
      : shape_(std::move(shape)), type_(type_named(type)), memory_(count() * type_.bits / 8) {
    memory_.clear(nullptr);
    check(cudaStreamSynchronize(nullptr), "clearing an array");
  }

  nb::object exported(nb::handle self) const {
    int device = 0;
    check(cudaGetDevice(&device), "looking for the card");
    return nb::cast(nb::ndarray<>(memory_.as(), shape_.size(), shape_.data(), self, nullptr, type_,
                                  nb::device::cuda::value, device));
  }
  nb::tuple shape() const {
    nb::list sizes;
    for (const std::size_t size : shape_) sizes.append(size);
    return nb::tuple(sizes);
  }
  Address address() const { return reinterpret_cast<Address>(memory_.as()); }

  nb::bytes fetch() const {
    std::string host(memory_.bytes(), '\0');
    check(cudaDeviceSynchronize(), "reading an array");
    check(cudaMemcpy(host.data(), memory_.as(), host.size(), cudaMemcpyDeviceToHost), "reading an array");
    return nb::bytes(host.data(), host.size());
  }
  void fill(nb::bytes data) {
    if (data.size() != memory_.bytes()) throw nb::value_error("the data does not fit the array");
    copy_to_card(memory_.as(), data.c_str(), data.size(), "writing an array");
  }

 private:
  static nb::dlpack::dtype type_named(const std::string& name) {
    if (name == "uint8") return nb::dtype<std::uint8_t>();
    if (name == "int32") return nb::dtype<std::int32_t>();
    if (name == "float32") return nb::dtype<float>();
    throw nb::value_error(("no type is called " + name).c_str());
  }
  std::size_t count() const {
    std::size_t n = 1;
    for (const std::size_t size : shape_) n *= size;
    return n;
  }

  std::vector<std::size_t> shape_;
  nb::dlpack::dtype type_;
  DeviceMemory memory_;
};

class ExpanderHandle {
 public:
  explicit ExpanderHandle(nb::list fields) : table_(schema_from(fields)) {}

  void expand(Address rows, Address index, int n, const std::string& precision, Address out, Address stream) {
    table_.expand(at<std::uint8_t>(rows), at<std::int32_t>(index), n, precision_named(precision), at(out),
                  stream_at(stream));
  }
  int padded() const { return table_.padded(); }

 private:
  ExpansionTable table_;
};

class MlpHandle {
 public:
  MlpHandle(nb::list fields, int actions, const std::vector<int>& hidden, int trunks, const std::string& precision,
            int rows, bool training)
      : mlp_(schema_from(fields), {trunks, actions, hidden, precision_named(precision)}, rows, training) {}

  void forward(Address weights, Address packed, Address index, int rows, Address heads, Address stream) {
    mlp_.forward(at(weights), at<std::uint8_t>(packed), at<std::int32_t>(index), rows, at<float>(heads),
                 stream_at(stream));
  }
  void backward(Address weights, int rows, bool add, Address gradients, Address stream) {
    mlp_.backward(at(weights), rows, add, at<float>(gradients), stream_at(stream));
  }
  nb::list layout() const {
    nb::list out;
    for (const auto& p : mlp_.layout()) out.append(nb::make_tuple(p.name, p.offset, p.shape, p.strides));
    return out;
  }
  Mlp& value() { return mlp_; }

 private:
  Mlp mlp_;
};

nb::list control_fields() {
  nb::list out;
  const auto add = [&out](const char* name, const char* type, std::size_t offset) {
    out.append(nb::make_tuple(name, type, offset));
  };
  add("draw", "<u8", offsetof(Control, draw));
  add("usable", "<u4", offsetof(Control, usable));
  add("games", "<u4", offsetof(Control, games));
  add("adam_step", "<u4", offsetof(Control, adam_step));
  add("steps", "<u4", offsetof(Control, steps));
  add("live", "<u4", offsetof(Control, live));
  add("skipped", "<u4", offsetof(Control, skipped));
  add("good_steps", "<u4", offsetof(Control, good_steps));
  add("scale", "<f4", offsetof(Control, scale));
  add("gradient_norm", "<f4", offsetof(Control, gradient_norm));
  add("passes", "<f4", offsetof(Control, passes));
  add("terms", "(6,)<f8", offsetof(Control, terms));
  return out;
}

void bind_learning(nb::module_& m) {
  m.def(
      "returns",
      [](int steps, int games, int seats, Address reward, Address over, Address seat, Address driver, Address value,
         float gamma, float lambda, Address advantage, Address usable, Address stream) {
        seat_returns_on_card({steps, games, seats, at<float>(reward), at<std::uint8_t>(over), at<std::uint8_t>(seat),
                              at<std::uint8_t>(driver), at<float>(value)},
                             gamma, lambda, at<float>(advantage), at<std::uint8_t>(usable), stream_at(stream));
      },
      "steps"_a, "games"_a, "seats"_a, "reward"_a, "over"_a, "seat"_a, "driver"_a, "value"_a, "gamma"_a, "lambda_"_a,
      "advantage"_a, "usable"_a, "stream"_a);
  m.def(
      "usable_room",
      [](int rows) { return list_usable(nullptr, nullptr, rows, nullptr, nullptr, nullptr, 0, nullptr); }, "rows"_a,
      "Bytes list_usable needs beside its arrays.");
  m.def(
      "list_usable",
      [](Address usable, Address over, int rows, Address list, Address control, Address room, std::size_t size,
         Address stream) {
        list_usable(at<std::uint8_t>(usable), at<std::uint8_t>(over), rows, at<std::int32_t>(list),
                    at<Control>(control), at(room), size, stream_at(stream));
      },
      "usable"_a, "over"_a, "rows"_a, "list"_a, "control"_a, "room"_a, "size"_a, "stream"_a);
  m.def(
      "begin_update",
      [](Address control, float lr, float entropy_weight, Address stream) {
        begin_update(at<Control>(control), lr, entropy_weight, stream_at(stream));
      },
      "control"_a, "lr"_a, "entropy_weight"_a, "stream"_a);
  m.def(
      "begin_pass",
      [](Address control, std::uint64_t key, float target_kl, Address stream) {
        begin_pass(at<Control>(control), key, target_kl, stream_at(stream));
      },
      "control"_a, "key"_a, "target_kl"_a, "stream"_a);
  m.def(
      "end_rollout",
      [](Address control, std::uint64_t draws, Address stream) {
        end_rollout(at<Control>(control), draws, stream_at(stream));
      },
      "control"_a, "draws"_a, "stream"_a);
  m.def("pick_blocks", &pick_blocks, "rows"_a);
  m.def(
      "pick_rows",
      [](Address control, Address list, Address advantage, int rows, Address index, Address sums, Address stream) {
        pick_rows(at<Control>(control), at<std::int32_t>(list), at<float>(advantage), rows, at<std::int32_t>(index),
                  at<double>(sums), stream_at(stream));
      },
      "control"_a, "list"_a, "advantage"_a, "rows"_a, "index"_a, "sums"_a, "stream"_a);
  m.def("loss_blocks", &loss_blocks, "rows"_a);
  m.def(
      "loss",
      [](Address control, int rows, int whole, int actions, int stride, int legal_bytes, Address index, Address heads,
         Address magnet, Address sums, Address legal, Address action, Address log_probability, Address advantage,
         Address value, float clip, float value_weight, float magnet_weight, const std::string& advantages,
         const std::string& precision, Address gradient, Address terms, Address stream) {
        LossInput in;
        in.rows = rows;
        in.whole = whole;
        in.actions = actions;
        in.stride = stride;
        in.legal_bytes = legal_bytes;
        in.index = at<std::int32_t>(index);
        in.heads = at<float>(heads);
        in.magnet = at<float>(magnet);
        in.sums = at<double>(sums);
        in.legal = at<std::uint8_t>(legal);
        in.action = at<std::int32_t>(action);
        in.log_probability = at<float>(log_probability);
        in.advantage = at<float>(advantage);
        in.value = at<float>(value);
        in.clip = clip;
        in.value_weight = value_weight;
        in.magnet_weight = magnet_weight;
        in.advantages = advantages_named(advantages);
        ppo_loss_on_card(at<Control>(control), in, precision_named(precision), at(gradient), at<double>(terms),
                         stream_at(stream));
      },
      "control"_a, "rows"_a, "whole"_a, "actions"_a, "stride"_a, "legal_bytes"_a, "index"_a, "heads"_a, "magnet"_a,
      "sums"_a, "legal"_a, "action"_a, "log_probability"_a, "advantage"_a, "value"_a, "clip"_a, "value_weight"_a,
      "magnet_weight"_a, "advantages"_a, "precision"_a, "gradient"_a, "terms"_a, "stream"_a);
  m.def("adam_blocks", &adam_blocks);
  m.def(
      "adam_step",
      [](Address control, std::int64_t n, Address parameters, Address small, const std::string& precision,
         Address gradients, Address mean, Address square, const std::vector<std::int64_t>& head, float max_norm,
         bool scaled, Address terms, int term_blocks, Address norms, Address stream) {
        AdamInput in;
        in.n = n;
        in.parameters = at<float>(parameters);
        in.small = at(small);
        in.precision = precision_named(precision);
        in.gradients = at<float>(gradients);
        in.mean = at<float>(mean);
        in.square = at<float>(square);
        if (head.size() == 6)
          in.head = {head[0],
                     head[1],
                     static_cast<int>(head[2]),
                     static_cast<int>(head[3]),
                     static_cast<int>(head[4]),
                     static_cast<int>(head[5])};
        in.max_norm = max_norm;
        in.scaled = scaled;
        in.terms = at<double>(terms);
        in.term_blocks = term_blocks;
        adam_step(at<Control>(control), in, at<double>(norms), stream_at(stream));
      },
      "control"_a, "n"_a, "parameters"_a, "small"_a, "precision"_a, "gradients"_a, "mean"_a, "square"_a, "head"_a,
      "max_norm"_a, "scaled"_a, "terms"_a, "term_blocks"_a, "norms"_a, "stream"_a);
  m.def(
      "answer_rows",
      [](Address driver, int number, Address other, int rows, int stride, Address heads, Address stream) {
        answer_rows(at<std::uint8_t>(driver), number, at<float>(other), rows, stride, at<float>(heads),
                    stream_at(stream));
      },
      "driver"_a, "number"_a, "other"_a, "rows"_a, "stride"_a, "heads"_a, "stream"_a);
}

}  // namespace

NB_MODULE(_cuda, m) {
  // Python ends without taking modules' globals apart; what they hold on the card goes with the process.
  nb::set_leak_warnings(false);
  nb::exception<CudaError> cuda_error(m, "CudaError", PyExc_RuntimeError);
  nb::exception<OutOfDeviceMemory>(m, "OutOfDeviceMemory", cuda_error);
  nb::register_exception_translator([](const std::exception_ptr& raised, void*) {
    try {
      std::rethrow_exception(raised);
    } catch (const IllegalAction& error) {
      PyErr_SetString(nb::module_::import_("playmill._native").attr("IllegalAction").ptr(), error.what());
    } catch (const OutOfTurn& error) {
      PyErr_SetString(nb::module_::import_("playmill._native").attr("OutOfTurn").ptr(), error.what());
    }
  });

  m.attr("ARCHITECTURES") = PLAYMILL_CUDA_ARCHITECTURES;
  m.attr("CONTROL_BYTES") = sizeof(Control);
  m.attr("CONTROL_FIELDS") = control_fields();
  m.def("device_status", &device_status);
  m.def("kernel_problem", &kernel_problem);
  bind_learning(m);

  nb::class_<PoolHandle>(m, "Pool")
      .def(nb::init<const std::string&, const OptionValues&, std::size_t, std::uint64_t>(), "name"_a, "options"_a,
           "games"_a, "seed"_a)
      .def("turns", &PoolHandle::turns, "observation"_a, "legal"_a, "seat"_a, "role"_a, "driver"_a, "stream"_a)
      .def("act", &PoolHandle::act, "actions"_a, "rewards"_a, "over"_a, "stream"_a)
      .def("bot_actions", &PoolHandle::bot_actions, "kinds"_a, "actions"_a, "stream"_a)
      .def("script", &PoolHandle::script, "first"_a, "count"_a, "kinds"_a, "actions"_a, "stream"_a)
      .def("step", &PoolHandle::step, "first"_a, "count"_a, "heads"_a, "stride"_a, "legal"_a, "seed"_a, "first_draw"_a,
           "draw"_a, "greedy"_a, "action"_a, "log_probability"_a, "value"_a, "rewards"_a, "over"_a, "next"_a,
           "stream"_a)
      .def("step_random", &PoolHandle::step_random, "first"_a, "count"_a, "rewards"_a, "over"_a, "next"_a, "stream"_a)
      .def("reset", &PoolHandle::reset, "stagger"_a, "stream"_a)
      .def("reset_to", &PoolHandle::reset_to, "seeds"_a, "stream"_a)
      .def("set_drivers", &PoolHandle::set_drivers, "drivers"_a, "stream"_a)
      .def("snapshot", &PoolHandle::snapshot, "stream"_a)
      .def("restore", &PoolHandle::restore, "data"_a, "stream"_a)
      .def("tallies", &PoolHandle::tallies, "stream"_a)
      .def("clear_tallies", &PoolHandle::clear_tallies, "stream"_a)
      .def("take_tallies", &PoolHandle::take_tallies, "out"_a, "stream"_a)
      .def_prop_ro("tally_cells", &PoolHandle::tally_cells)
      .def_prop_ro("games", &PoolHandle::games)
      .def_prop_ro("bytes", &PoolHandle::bytes);

  nb::class_<DeviceArray>(m, "DeviceArray")
      .def(nb::init<std::vector<std::size_t>, const std::string&>(), "shape"_a, "type"_a)
      .def("exported", [](nb::handle self) { return nb::cast<DeviceArray&>(self).exported(self); })
      .def("fetch", &DeviceArray::fetch)
      .def("fill", &DeviceArray::fill, "data"_a)
      .def_prop_ro("shape", &DeviceArray::shape)
      .def_prop_ro("address", &DeviceArray::address);

  nb::class_<ExpanderHandle>(m, "Expander")
      .def(nb::init<nb::list>(), "fields"_a)
      .def("expand", &ExpanderHandle::expand, "rows"_a, "index"_a, "n"_a, "precision"_a, "out"_a, "stream"_a)
      .def_prop_ro("padded", &ExpanderHandle::padded);

  nb::class_<MlpHandle>(m, "Mlp")
      .def(nb::init<nb::list, int, const std::vector<int>&, int, const std::string&, int, bool>(), "fields"_a,
           "actions"_a, "hidden"_a, "trunks"_a, "precision"_a, "rows"_a, "training"_a)
      .def("forward", &MlpHandle::forward, "weights"_a, "packed"_a, "index"_a, "rows"_a, "heads"_a, "stream"_a)
      .def("backward", &MlpHandle::backward, "weights"_a, "rows"_a, "add"_a, "gradients"_a, "stream"_a)
      .def("layout", &MlpHandle::layout)
      .def_prop_rw(
          "streamed", [](MlpHandle& h) { return h.value().streamed; },
          [](MlpHandle& h, bool streamed) { h.value().streamed = streamed; },
          "Whether the way back goes through streamed products where the card can.")
      .def("head_cells",
           [](MlpHandle& h) {
             const HeadCells c = h.value().head_cells();
             return std::vector<std::int64_t>{c.begin, c.end, c.stride, c.actions, c.width, c.trunks};
           })
      .def_prop_ro("head_gradient", [](MlpHandle& h) { return reinterpret_cast<Address>(h.value().head_gradient()); })
      .def_prop_ro("size", [](MlpHandle& h) { return h.value().size(); })
      .def_prop_ro("stride", [](MlpHandle& h) { return h.value().stride(); });
}
