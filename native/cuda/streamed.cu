// A block keeps 128 columns of weights and goes down the rows, 64 at a time. One thread has the copy engine
// bring rows, and the activations that mask them, into a ring in shared memory. Three groups of four warps
// take 64 rows each in turn, multiply them by the weights and write the result, so that the matrix units have
// work while results are on their way.
#include <cuda.h>

#include "kernels.cuh"
#include "streamed.hpp"

namespace playmill {

namespace {

constexpr int kRows = 64, kColumns = 128, kInner = 128;  // of a tile
constexpr int kBox = 64;  // elements the copy engine takes of a row: the 128 bytes it swizzles
constexpr int kGroups = 3;
constexpr int kGroupThreads = 128;
constexpr int kBlockThreads = (kGroups + 1) * kGroupThreads;
constexpr int kStageBytes = kRows * kInner * 2;      // rows; or activations, of which there are as many
constexpr int kWeightBytes = kInner * kColumns * 2;  // for each 128 of the inner dimension
constexpr int kMaxStages = 12;
constexpr int kAhead = 2;                   // tiles that are announced to the card's cache before they are fetched
constexpr int kShared = 227 * 1024 - 1024;  // of a block, less what is declared below

struct Shape {
  int rows, inner, width;
  int slabs;   // of 128 columns, in a trunk
  int parts;   // the rows are shared out to
  int blocks;  // of the inner dimension
  int stages;
  int slope_stride;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ unsigned address(const void* shared) { return static_cast<unsigned>(__cvta_generic_to_shared(shared)); }

// ---- Barriers in shared memory, which count arrivals and bytes ----

__device__ void init(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(barrier)), "r"(arrivals));
}
__device__ void expect(std::uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(barrier)), "r"(bytes) : "memory");
}
__device__ void wait(std::uint64_t* barrier, unsigned phase) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra out;\n"
      "bra again;\n"
      "out:\n"
      "}\n" ::"r"(address(barrier)),
      "r"(phase)
      : "memory");
}
__device__ void arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(barrier)) : "memory");
}
// Until as many threads as two groups have have come by; `hand_on` does not wait.
__device__ void take_turn(int number) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(2 * kGroupThreads) : "memory");
}
__device__ void hand_on(int number) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "n"(2 * kGroupThreads) : "memory");
}
__device__ void groups_sync() { asm volatile("bar.sync 1, %0;" ::"n"(kGroups * kGroupThreads) : "memory"); }

// ---- The copy engine ----

__device__ void fetch(void* to, const CUtensorMap* map, int x, int y, std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          address(to)),
      "l"(map), "r"(x), "r"(y), "r"(address(barrier))
      : "memory");
}
// Into the card's cache, for a fetch to come.
__device__ void announce(const CUtensorMap* map, int x, int y) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(map), "r"(x), "r"(y) : "memory");
}

// ---- The matrix units ----

// Where an operand lies: rows of 128 swizzled bytes, eight of them 1,024 bytes apart from the next eight.
// Addresses count 16 bytes.
constexpr std::uint64_t kOperand = std::uint64_t{1024 >> 4} << 32 | std::uint64_t{1} << 62;
__device__ unsigned operand_at(const void* shared) { return (address(shared) & 0x3FFFFu) >> 4; }

#define PM_ACCUMULATORS(d)                                                                                    \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), \
      "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),  \
      "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), \
      "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), \
      "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), \
      "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), \
      "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), \
      "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])

#define PM_MULTIPLY(type)                                                                                          \
  asm volatile(                                                                                                    \
      "{\n"                                                                                                        \
      ".reg .pred p;\n"                                                                                            \
      "setp.ne.b32 p, %66, 0;\n"                                                                                   \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type                                                 \
      " "                                                                                                          \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, " \
      "%23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, "  \
      "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "      \
      "%64, %65, p, 1, 1, 0, 1;\n"                                                                                 \
      "}\n"                                                                                                        \
      : PM_ACCUMULATORS(d)                                                                                         \
      : "l"(a), "l"(b), "r"(static_cast<int>(add)))

// d[64, 128] (+)= a[64, 16] b[16, 128]; four warps together. b's rows run along the 128.
template <class T>
__device__ void multiply(float (&d)[64], std::uint64_t a, std::uint64_t b, bool add) {
  if constexpr (std::is_same_v<T, __half>) {
    PM_MULTIPLY("f16");
  } else {
    PM_MULTIPLY("bf16");
  }
}
__device__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kLeft>
__device__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

// ---- The way out ----

// Eight activations of a row, where the copy engine has put them.
__device__ uint4 activations(const std::uint8_t* stage, int row, int eighth) {
  const int place = eighth % 8 ^ row % 8;
  return *reinterpret_cast<const uint4*>(stage + eighth / 8 * (kStageBytes / 2) + row * 128 + place * 16);
}

// Four lanes hold two columns each of four chunks; afterwards each holds the eight columns of its chunk.
__device__ uint4 gather(unsigned (&v)[4], int lane) {
  const bool odd = lane & 1, high = lane & 2;
  const unsigned s0 = __shfl_xor_sync(~0u, odd ? v[0] : v[1], 1), s1 = __shfl_xor_sync(~0u, odd ? v[2] : v[3], 1);
  const unsigned a0 = odd ? s0 : v[0], a1 = odd ? v[1] : s0, a2 = odd ? s1 : v[2], a3 = odd ? v[3] : s1;
  const unsigned t0 = __shfl_xor_sync(~0u, high ? a0 : a2, 2), t1 = __shfl_xor_sync(~0u, high ? a1 : a3, 2);
  return make_uint4(high ? t0 : a0, high ? t1 : a1, high ? a2 : t0, high ? a3 : t1);
}

template <class T>
struct Pair;
template <>
struct Pair<__nv_bfloat16> {
  using Type = __nv_bfloat162;
  static __device__ unsigned pack(float low, float high) {
    const Type two = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&two);
  }
  static __device__ float2 floats(unsigned v) {
    return make_float2(__uint_as_float(v << 16), __uint_as_float(v & 0xFFFF0000u));
  }
  static __device__ unsigned above_zero(unsigned v) {
    return __hgt2_mask(*reinterpret_cast<const Type*>(&v), __float2bfloat162_rn(0.0f));
  }
};
template <>
struct Pair<__half> {
  using Type = __half2;
  static __device__ unsigned pack(float low, float high) {
    const Type two = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&two);
  }
  static __device__ float2 floats(unsigned v) { return __half22float2(*reinterpret_cast<const Type*>(&v)); }
  static __device__ unsigned above_zero(unsigned v) {
    return __hgt2_mask(*reinterpret_cast<const Type*>(&v), __float2half2_rn(0.0f));
  }
};

template <class T>
__device__ unsigned keep(unsigned v, unsigned activation, float& low, float& high) {
  const unsigned kept = v & Pair<T>::above_zero(activation);
  const float2 two = Pair<T>::floats(kept);
  low += two.x;
  high += two.y;
  return kept;
}

#endif

template <class T>
__global__ void __launch_bounds__(kBlockThreads, 1)
    stream_kernel(const __grid_constant__ CUtensorMap behind, const __grid_constant__ CUtensorMap weight,
                  const __grid_constant__ CUtensorMap activation, T* slope, float* sums, const Shape shape) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ std::uint8_t raw[];
  __shared__ std::uint64_t full[kMaxStages], empty[kMaxStages], weights_here;
  std::uint8_t* weights = raw + (1024 - (address(raw) & 1023u)) % 1024;
  std::uint8_t* ring = weights + shape.blocks * kWeightBytes;
  const int thread = static_cast<int>(threadIdx.x);
  const int group = __shfl_sync(~0u, thread / kGroupThreads, 0);  // the same for a warp, and known to be
  const int slabs = static_cast<int>(gridDim.x) / shape.parts;
  const int slab = static_cast<int>(blockIdx.x) % slabs, part = static_cast<int>(blockIdx.x) / slabs;
  const int trunk = slab / shape.slabs;
  const int column = slab % shape.slabs * kColumns;  // in its trunk
  const int tiles = (shape.rows + kRows - 1) / kRows;
  const int count = part < tiles ? (tiles - part + shape.parts - 1) / shape.parts : 0;  // tiles of this block

  if (thread == 0) {
    for (int s = 0; s < shape.stages; ++s) {
      init(&full[s], 1);
      init(&empty[s], 4);  // each warp of the group that used it
    }
    init(&weights_here, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();

  int stage = 0;
  unsigned phase = 0;
  const auto pass = [&](int more) {
    for (stage += more; stage >= shape.stages; stage -= shape.stages) phase ^= 1;
  };
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
    if (thread > 0) return;
    expect(&weights_here, shape.blocks * kWeightBytes);
    for (int i = 0; i < 4 * shape.blocks; ++i)  // 64 by 64: the lower and the upper columns of 64 rows
      fetch(weights + i * (kWeightBytes / 4), &weight, column + i % 2 * kBox, trunk * shape.inner + i / 2 * kBox,
            &weights_here);
    const auto bring = [&](const CUtensorMap* from, int x, int row) {
      wait(&empty[stage], phase ^ 1);
      expect(&full[stage], kStageBytes);
      std::uint8_t* to = ring + stage * kStageBytes;
      fetch(to, from, x, row, &full[stage]);
      fetch(to + kStageBytes / 2, from, x + kBox, row, &full[stage]);
      pass(1);
    };
    const int x = trunk * shape.inner, cell = trunk * shape.width + column;
    for (int n = 0; n < count; ++n) {
      const int row = (part + n * shape.parts) * kRows, later = row + kAhead * shape.parts * kRows;
      if (later < shape.rows) {
        for (int i = 0; column == 0 && i < 2 * shape.blocks; ++i) announce(&behind, x + i * kBox, later);
        for (int i = 0; i < 2; ++i) announce(&activation, cell + i * kBox, later);
      }
      for (int i = 0; i < shape.blocks; ++i) bring(&behind, x + i * kInner, row);
      bring(&activation, cell, row);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
    const int lane = thread % 32, warp = thread % kGroupThreads / 32;
    const unsigned weights_at = operand_at(weights), ring_at = operand_at(ring);
    float total[32] = {};
    wait(&weights_here, 0);
    pass((group - 1) * (shape.blocks + 1));
    for (int n = group - 1; n < count; n += kGroups, pass((kGroups - 1) * (shape.blocks + 1))) {
      float d[64];
      // One group after the other: a stage's barrier can tell only one use from the next.
      if (n > 0) take_turn(1 + group);
      int before = 0;
      for (int i = 0; i < shape.blocks; ++i) {
        wait(&full[stage], phase);
        const unsigned a = ring_at + static_cast<unsigned>(stage) * (kStageBytes >> 4);
        const unsigned b = weights_at + static_cast<unsigned>(i) * (kWeightBytes >> 4);
        begin_products();
#pragma unroll
        for (int k = 0; k < kInner / 16; ++k)
          multiply<T>(d, kOperand | (a + k / 4 * (kStageBytes >> 5) + k % 4 * 2),
                      kOperand | (8192u >> 4) << 16 | (b + k / 4 * (kWeightBytes >> 5) + k % 4 * (2048 >> 4)),
                      i > 0 || k > 0);
        commit_products();
        wait_products<1>();
        if (i > 0 && lane == 0) arrive(&empty[before]);
        before = stage;
        pass(1);
      }
      wait(&full[stage], phase);
      if (n + 1 < count) hand_on(2 + group % kGroups);
      wait_products<0>();
      if (lane == 0) arrive(&empty[before]);

      const std::uint8_t* passed = ring + stage * kStageBytes;
      const int line = warp * 16 + lane / 4;  // in the tile
      const int row = (part + n * shape.parts) * kRows + line;
      T* to = slope + static_cast<std::size_t>(row) * shape.slope_stride + trunk * shape.width + column + lane % 4 * 8;
#pragma unroll
      for (int k = 0; k < 8; ++k) {  // k: which half of the rows, and which 32 of the columns
        const int half = k / 4, quarter = k % 4;
        unsigned v[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float* two = d + (quarter * 4 + j) * 4 + half * 2;
          v[j] = Pair<T>::pack(two[0], two[1]);
        }
        uint4 eight = gather(v, lane);
        const uint4 mask = activations(passed, line + half * 8, quarter * 4 + lane % 4);
        float* sum = total + quarter * 8;
        eight.x = keep<T>(eight.x, mask.x, sum[0], sum[1]);
        eight.y = keep<T>(eight.y, mask.y, sum[2], sum[3]);
        eight.z = keep<T>(eight.z, mask.z, sum[4], sum[5]);
        eight.w = keep<T>(eight.w, mask.w, sum[6], sum[7]);
        if (row + half * 8 < shape.rows)
          *reinterpret_cast<uint4*>(to + half * 8 * static_cast<std::size_t>(shape.slope_stride) + quarter * 32) =
              eight;
      }
      __syncwarp();
      if (lane == 0) arrive(&empty[stage]);
      pass(1);
    }
    // Sums of columns: lanes of a warp, then warps in their order. The ring is free by now.
    groups_sync();
    auto* lines = reinterpret_cast<float*>(ring);  // [warps][128]
#pragma unroll
    for (int k = 0; k < 32; ++k) {
      float sum = total[k];
      for (int step = 4; step < 32; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
      if (lane < 4) lines[(thread / 32 - 4) * kColumns + k / 8 * 32 + lane * 8 + k % 8] = sum;
    }
    groups_sync();
    const int mine = thread - kGroupThreads;
    if (mine < kColumns) {
      float sum = 0;
      for (int w = 0; w < 4 * kGroups; ++w) sum += lines[w * kColumns + mine];
      sums[static_cast<std::size_t>(part) * shape.slope_stride + trunk * shape.width + column + mine] = sum;
    }
  }
#endif
}

// ---- The host's side ----

struct Card {
  int major = 0, minor = 0, processors = 0;
};

Card card() {
  Card found;
  int device = 0;
  check(cudaGetDevice(&device), "asking for the card");
  check(cudaDeviceGetAttribute(&found.major, cudaDevAttrComputeCapabilityMajor, device), "asking for the card");
  check(cudaDeviceGetAttribute(&found.minor, cudaDevAttrComputeCapabilityMinor, device), "asking for the card");
  check(cudaDeviceGetAttribute(&found.processors, cudaDevAttrMultiProcessorCount, device), "asking for the card");
  return found;
}

using Encode = decltype(&cuTensorMapEncodeTiled);

Encode encoder() {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &result),
        "asking the driver");
#else
  check(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &entry, cudaEnableDefault, &result), "asking the driver");
#endif
  return result == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(entry) : nullptr;
}

// A matrix [height, width] of which the copy engine takes boxes; beyond its edges it reads zeros.
CUtensorMap matrix(const void* data, Precision precision, int width, int height, int stride) {
  CUtensorMap map;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(width), static_cast<cuuint64_t>(height)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride) * 2};
  const cuuint32_t box[] = {kBox, kRows};
  const cuuint32_t steps[] = {1, 1};
  const auto type =
      precision == Precision::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  static const Encode encode = encoder();
  if (encode(&map, type, 2, const_cast<void*>(data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
    throw CudaError("describing a matrix to the copy engine failed");
  return map;
}

int inner_blocks(const WayBack& back) { return (back.inner + kInner - 1) / kInner; }
int stages(const WayBack& back) {
  const int fit = (kShared - 1024 - inner_blocks(back) * kWeightBytes) / kStageBytes;
  return fit < kMaxStages ? fit : kMaxStages;
}
int slabs(const WayBack& back) { return back.trunks * (back.width / kColumns); }

template <class T>
void launch(const WayBack& back, Precision precision, cudaStream_t stream) {
  const int across = back.trunks * back.inner;
  const CUtensorMap behind = matrix(back.behind, precision, across, back.rows, back.behind_stride);
  const CUtensorMap weight = matrix(back.weight, precision, back.width, across, back.weight_stride);
  const CUtensorMap activation =
      matrix(back.activation, precision, back.trunks * back.width, back.rows, back.activation_stride);
  const Shape shape{back.rows,          back.inner,         back.width,   back.width / kColumns,
                    stream_parts(back), inner_blocks(back), stages(back), back.slope_stride};
  const auto kernel = stream_kernel<T>;
  const int room = shape.blocks * kWeightBytes + shape.stages * kStageBytes + 1024;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, room), "asking for shared memory");
  kernel<<<shape.parts * slabs(back), kBlockThreads, static_cast<std::size_t>(room), stream>>>(
      behind, weight, activation, static_cast<T*>(back.slope), back.sums, shape);
  launched("going back through a layer");
}

}  // namespace

#ifdef PLAYMILL_HOPPER
constexpr bool kBuilt = true;
#else
constexpr bool kBuilt = false;
#endif

bool can_stream(const WayBack& back, Precision precision) {
  static const Card here = card();
  static const bool hopper = kBuilt && here.major == 9 && here.minor == 0 && encoder() != nullptr;
  const bool whole = back.trunks == 1 || back.inner % kInner == 0;  // a trunk's rows must not run into the next
  return hopper && precision != Precision::kFloat32 && whole && back.width % kColumns == 0 &&
         slabs(back) <= here.processors && stages(back) > inner_blocks(back);
}

int stream_parts(const WayBack& back) {
  static const Card here = card();
  const int tiles = (back.rows + kRows - 1) / kRows, fit = here.processors / slabs(back);
  return tiles < fit ? tiles : fit;
}

void stream_back(const WayBack& back, Precision precision, cudaStream_t stream) {
  if (precision == Precision::kFloat16) return launch<__half>(back, precision, stream);
  launch<__nv_bfloat16>(back, precision, stream);
}

}  // namespace playmill
