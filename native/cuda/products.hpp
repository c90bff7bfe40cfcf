// Matrix products by cuBLASLt, with bias, activation and their gradients in the epilogue. The
// library is the one torch has brought into the process; nothing of it is needed to build.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "device.hpp"
#include "learn.hpp"

namespace playmill {

// What is done to the result on its way out. The numbers are cuBLASLt's. Of its epilogues for the way
// back none is used: on an H200 they run as kernels of their own, at a fifth of the memory's rate.
enum class Epilogue : int { kNone = 1, kReluBias = 2 | 4 };

// D[m, n] = A[m, k] B[k, n] in columns, as cuBLAS counts: row-major matrices are their own transposes.
struct Product {
  int m = 0, n = 0, k = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  int lda = 0, ldb = 0, ldd = 0;
  bool transpose_a = false, transpose_b = false;
  bool wide = false;  // D is float32, whatever A and B are
  bool add = false;   // to what is in D
  Epilogue epilogue = Epilogue::kNone;
  const void* bias = nullptr;
  // Several at once, each so many elements behind the last.
  int batch = 1;
  std::int64_t next_a = 0, next_b = 0, next_d = 0, next_bias = 0;

  Product part(int number, Precision precision) const;  // one of the batch
};

class Products {
 public:
  explicit Products(Precision precision);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // The first call with a shape tries what cuBLASLt offers for it and keeps the fastest.
  void run(const Product& product, cudaStream_t stream);

  // Bytes of workspace.
  static constexpr std::size_t kWorkspace = 64u << 20;

 private:
  struct Plan;
  Plan& plan_for(const Product& product, cudaStream_t stream);
  std::unique_ptr<Plan> make_plan(const Product& product) const;
  void choose(Plan& plan, const Product& product, cudaStream_t stream);
  int launch(const Plan& plan, const Product& product, const void* algorithm, cudaStream_t stream) const;

  Precision precision_;
  void* handle_ = nullptr;
  DeviceMemory workspace_;
  std::map<std::vector<std::int64_t>, std::unique_ptr<Plan>> plans_;
};

}  // namespace playmill
