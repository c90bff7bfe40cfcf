#include "products.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <string>

namespace playmill {

namespace {

// The part of cuBLASLt's interface that is used, as its manual gives it (versions 12 and 13).
using Status = int;
enum Attribute { kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBias = 8, kBiasStride = 10 };
enum LayoutAttribute { kBatchCount = 5, kBatchOffset = 6 };
enum PreferenceAttribute { kMaxWorkspace = 1 };
enum DataType { kReal32 = 0, kReal16 = 2, kBrain16 = 14 };
constexpr int kCompute32 = 68;

struct Algorithm {
  std::uint64_t data[8];
};
struct Candidate {
  Algorithm algorithm;
  std::size_t workspace;
  Status state;
  float waves;
  int reserved[4];
};

struct Library {
  Status (*create)(void**);
  Status (*destroy)(void*);
  Status (*desc_create)(void**, int, int);
  Status (*desc_destroy)(void*);
  Status (*desc_set)(void*, int, const void*, std::size_t);
  Status (*layout_create)(void**, int, std::uint64_t, std::uint64_t, std::int64_t);
  Status (*layout_destroy)(void*);
  Status (*layout_set)(void*, int, const void*, std::size_t);
  Status (*preference_create)(void**);
  Status (*preference_destroy)(void*);
  Status (*preference_set)(void*, int, const void*, std::size_t);
  Status (*heuristic)(void*, void*, void*, void*, void*, void*, void*, int, Candidate*, int*);
  Status (*matmul)(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*,
                   void*, void*, const Algorithm*, void*, std::size_t, cudaStream_t);
};

template <class F>
void find(void* from, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(from, name));
  if (function == nullptr) throw CudaError(std::string("cuBLASLt has no ") + name);
}

const Library& library() {
  static const Library found = [] {
    void* from = nullptr;
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"})
      if (from == nullptr) from = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (from == nullptr)
      throw CudaError("cuBLASLt was not found: it comes with torch for CUDA; is this torch built for the CPU alone?");
    Library lib;
    find(from, "cublasLtCreate", lib.create);
    find(from, "cublasLtDestroy", lib.destroy);
    find(from, "cublasLtMatmulDescCreate", lib.desc_create);
    find(from, "cublasLtMatmulDescDestroy", lib.desc_destroy);
    find(from, "cublasLtMatmulDescSetAttribute", lib.desc_set);
    find(from, "cublasLtMatrixLayoutCreate", lib.layout_create);
    find(from, "cublasLtMatrixLayoutDestroy", lib.layout_destroy);
    find(from, "cublasLtMatrixLayoutSetAttribute", lib.layout_set);
    find(from, "cublasLtMatmulPreferenceCreate", lib.preference_create);
    find(from, "cublasLtMatmulPreferenceDestroy", lib.preference_destroy);
    find(from, "cublasLtMatmulPreferenceSetAttribute", lib.preference_set);
    find(from, "cublasLtMatmulAlgoGetHeuristic", lib.heuristic);
    find(from, "cublasLtMatmul", lib.matmul);
    return lib;
  }();
  return found;
}

void require(Status status, const char* what) {
  if (status != 0) throw CudaError(std::string(what) + ": cuBLASLt says " + std::to_string(status));
}

int type_of(Precision precision) {
  return precision == Precision::kFloat32 ? kReal32 : precision == Precision::kBfloat16 ? kBrain16 : kReal16;
}

constexpr int kCandidates = 8;
constexpr int kTrials = 4;

// Milliseconds that kTrials of `work` take.
template <class Work>
float time(Work&& work, cudaStream_t stream) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "timing");
  check(cudaEventCreate(&end), "timing");
  check(cudaEventRecord(begin, stream), "timing");
  for (int trial = 0; trial < kTrials; ++trial) work();
  check(cudaEventRecord(end, stream), "timing");
  check(cudaEventSynchronize(end), "timing");
  float took = 0;
  check(cudaEventElapsedTime(&took, begin, end), "timing");
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return took;
}

}  // namespace

struct Products::Plan {
  void* desc = nullptr;
  void* a = nullptr;
  void* b = nullptr;
  void* d = nullptr;
  std::vector<Candidate> candidates;
  bool chosen = false;
  bool apart = false;  // a batch that is faster one by one

  ~Plan() {
    const Library& lib = library();
    if (desc != nullptr) lib.desc_destroy(desc);
    for (void* layout : {a, b, d})
      if (layout != nullptr) lib.layout_destroy(layout);
  }

  template <class T>
  void set(int attribute, const T& value) {
    require(library().desc_set(desc, attribute, &value, sizeof value), "describing a product");
  }
};

Products::Products(Precision precision) : precision_(precision), workspace_(kWorkspace) {
  require(library().create(&handle_), "starting cuBLASLt");
}

Products::~Products() {
  plans_.clear();
  library().destroy(handle_);
}

std::unique_ptr<Products::Plan> Products::make_plan(const Product& p) const {
  const Library& lib = library();
  auto plan = std::make_unique<Plan>();
  require(lib.desc_create(&plan->desc, kCompute32, kReal32), "describing a product");
  plan->set(kTransposeA, static_cast<std::int32_t>(p.transpose_a));
  plan->set(kTransposeB, static_cast<std::int32_t>(p.transpose_b));
  plan->set(kEpilogue, static_cast<std::int32_t>(p.epilogue));
  if (p.bias != nullptr) plan->set(kBias, p.bias);
  const auto layout = [&](void** to, int type, int rows, int columns, int ld, std::int64_t next) {
    require(lib.layout_create(to, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns), ld),
            "describing a matrix");
    if (p.batch > 1) {
      const std::int32_t count = p.batch;
      require(lib.layout_set(*to, kBatchCount, &count, sizeof count), "describing a batch");
      require(lib.layout_set(*to, kBatchOffset, &next, sizeof next), "describing a batch");
    }
  };
  const int type = type_of(precision_);
  layout(&plan->a, type, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda, p.next_a);
  layout(&plan->b, type, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb, p.next_b);
  layout(&plan->d, p.wide ? kReal32 : type, p.m, p.n, p.ldd, p.next_d);
  if (p.batch > 1 && p.bias != nullptr) plan->set(kBiasStride, p.next_bias);
  void* preference = nullptr;
  require(lib.preference_create(&preference), "asking for algorithms");
  lib.preference_set(preference, kMaxWorkspace, &kWorkspace, sizeof kWorkspace);
  plan->candidates.resize(kCandidates);
  int count = 0;
  const Status status = lib.heuristic(handle_, plan->desc, plan->a, plan->b, plan->d, plan->d, preference, kCandidates,
                                      plan->candidates.data(), &count);
  lib.preference_destroy(preference);
  plan->candidates.resize(status == 0 ? static_cast<std::size_t>(count) : 0);
  return plan;
}

int Products::launch(const Plan& plan, const Product& p, const void* algorithm, cudaStream_t stream) const {
  const float one = 1.0f;
  const float keep = p.add ? 1.0f : 0.0f;
  return library().matmul(handle_, plan.desc, &one, p.a, plan.a, p.b, plan.b, &keep, p.d, plan.d, p.d, plan.d,
                          static_cast<const Algorithm*>(algorithm), workspace_.as(), kWorkspace, stream);
}

// Tries the candidates for real. Sums that are added to are spoilt by it: the caller's first pass
// is one whose result is thrown away.
void Products::choose(Plan& plan, const Product& product, cudaStream_t stream) {
  float best = 0;
  std::size_t chosen = plan.candidates.size();
  for (std::size_t i = 0; i < plan.candidates.size(); ++i) {
    const void* algorithm = &plan.candidates[i].algorithm;
    if (launch(plan, product, algorithm, stream) != 0) continue;
    const float took = time([&] { launch(plan, product, algorithm, stream); }, stream);
    if (chosen == plan.candidates.size() || took < best) best = took, chosen = i;
  }
  if (chosen == plan.candidates.size()) throw CudaError("cuBLASLt offers a product it cannot do");
  std::swap(plan.candidates[0], plan.candidates[chosen]);
  plan.chosen = true;
  if (product.batch == 1) return;
  for (int i = 0; i < product.batch; ++i) run(product.part(i, precision_), stream);
  plan.apart = time(
                   [&] {
                     for (int i = 0; i < product.batch; ++i) run(product.part(i, precision_), stream);
                   },
                   stream) < best;
}

Products::Plan& Products::plan_for(const Product& p, cudaStream_t stream) {
  const std::vector<std::int64_t> key = {p.m,
                                         p.n,
                                         p.k,
                                         p.lda,
                                         p.ldb,
                                         p.ldd,
                                         p.transpose_a,
                                         p.transpose_b,
                                         p.wide,
                                         p.add,
                                         static_cast<int>(p.epilogue),
                                         p.batch,
                                         p.next_a,
                                         p.next_b,
                                         p.next_d};
  auto& plan = plans_[key];
  if (plan == nullptr) plan = make_plan(p);
  if (plan->candidates.empty()) return *plan;
  if (p.bias != nullptr) plan->set(kBias, p.bias);
  if (plan->chosen) return *plan;
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &capturing), "looking at a stream");
  if (capturing == cudaStreamCaptureStatusNone) choose(*plan, p, stream);
  return *plan;
}

Product Product::part(int number, Precision precision) const {
  const auto size = static_cast<std::int64_t>(size_of(precision));
  const auto moved = [number](const void* from, std::int64_t bytes) -> const void* {
    return from == nullptr ? nullptr : static_cast<const char*>(from) + number * bytes;
  };
  Product one = *this;
  one.batch = 1;
  one.a = moved(a, next_a * size);
  one.b = moved(b, next_b * size);
  one.d = const_cast<void*>(moved(d, next_d * (wide ? 4 : size)));
  one.bias = moved(bias, next_bias * size);
  one.next_a = one.next_b = one.next_d = one.next_bias = 0;
  return one;
}

void Products::run(const Product& product, cudaStream_t stream) {
  const Plan& plan = plan_for(product, stream);
  if (!plan.candidates.empty() && !plan.apart) {
    require(launch(plan, product, &plan.candidates[0].algorithm, stream), "multiplying");
    return;
  }
  if (product.batch == 1) throw CudaError("cuBLASLt has no algorithm for a product of this shape on this card");
  for (int i = 0; i < product.batch; ++i) run(product.part(i, precision_), stream);
}

}  // namespace playmill
