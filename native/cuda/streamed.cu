// A block keeps 128 columns of weights and goes down the rows, 64 at a time. One warp has the copy engine
// bring rows into a ring in shared memory; three groups of four warps take 64 rows each in turn, multiply
// them by the weights and write the result, so that the matrix units have work while results are on their
// way. Blocks work in pairs where they can: both need the same rows, and each fetches half of them for both.
#include "streamed.hpp"

#include <cuda.h>

#include "kernels.cuh"

namespace playmill {

namespace {

constexpr int kRows = 64, kColumns = 128, kInner = 64;  // of a tile; 64 elements are the 128 bytes of a swizzle
constexpr int kGroups = 3;
constexpr int kGroupThreads = 128;
constexpr int kBlockThreads = (kGroups + 1) * kGroupThreads;
constexpr int kStageBytes = kRows * kInner * 2;
constexpr int kWeightBytes = kInner * kColumns * 2;  // for each 64 of the inner dimension
constexpr int kMaxStages = 24;
constexpr int kShared = 227 * 1024 - 1024;  // of a block, less what is declared below

struct Shape {
  int rows, inner, width;
  int slabs;   // of 128 columns, in a trunk
  int parts;   // the rows are shared out to
  int blocks;  // of the inner dimension
  int stages;
  int activation_stride, slope_stride;
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
// At the same barrier of block `rank` of the cluster. What it follows are products that have read the stage:
// no writes have to be seen next door, and a release at the cluster's scope would wait for all of them.
__device__ void arrive(std::uint64_t* barrier, unsigned rank) {
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
      "}\n" ::"r"(address(barrier)),
      "r"(rank)
      : "memory");
}
__device__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}
__device__ unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// ---- The copy engine ----

__device__ void fetch(void* to, const CUtensorMap* map, int x, int y, std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          address(to)),
      "l"(map), "r"(x), "r"(y), "r"(address(barrier))
      : "memory");
}
// Into the same place of both blocks of a pair.
__device__ void fetch_for_both(void* to, const CUtensorMap* map, int x, int y, std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(address(to)),
      "l"(map), "r"(x), "r"(y), "r"(address(barrier)), "h"(static_cast<unsigned short>(3))
      : "memory");
}

// ---- The matrix units ----

// Where an operand lies: rows of 128 swizzled bytes, eight of them 1,024 bytes apart from the next eight.
__device__ std::uint64_t operand(const void* shared, unsigned leading) {
  const std::uint64_t at = (address(shared) & 0x3FFFFu) >> 4;
  return at | static_cast<std::uint64_t>(leading >> 4) << 16 | std::uint64_t{1024 >> 4} << 32 | std::uint64_t{1} << 62;
}

#define PM_ACCUMULATORS(d)                                                                                           \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),        \
      "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),         \
      "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),        \
      "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]),        \
      "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]),        \
      "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),        \
      "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),        \
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

__device__ uint4 load(const void* at) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(at));
  return v;
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

template <class T, int kPair>
__global__ void __launch_bounds__(kBlockThreads, 1)
    stream_kernel(const __grid_constant__ CUtensorMap behind, const __grid_constant__ CUtensorMap weight,
                  const T* activation, T* slope, float* sums, const Shape shape) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ std::uint8_t raw[];
  __shared__ std::uint64_t full[kMaxStages], empty[kMaxStages], weights_here;
  std::uint8_t* weights = raw + (1024 - (address(raw) & 1023u)) % 1024;
  std::uint8_t* ring = weights + shape.blocks * kWeightBytes;
  const int thread = static_cast<int>(threadIdx.x), group = thread / kGroupThreads;
  const unsigned rank = kPair == 2 ? cluster_rank() : 0;
  const int slabs_all = static_cast<int>(gridDim.x) / shape.parts;
  const int slab = static_cast<int>(blockIdx.x) % slabs_all, part = static_cast<int>(blockIdx.x) / slabs_all;
  const int trunk = slab / shape.slabs;
  const int column = slab % shape.slabs * kColumns;  // in its trunk
  const int tiles = (shape.rows + kRows - 1) / kRows;
  const int count = part < tiles ? (tiles - part + shape.parts - 1) / shape.parts : 0;  // tiles of this block

  if (thread == 0) {
    for (int s = 0; s < shape.stages; ++s) {
      init(&full[s], 1);
      init(&empty[s], 4 * kPair);  // each warp of the group that used it, here and next door
    }
    init(&weights_here, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if constexpr (kPair == 2) cluster_sync();

  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
    if (thread == 0) {
      expect(&weights_here, shape.blocks * kWeightBytes);
      for (int i = 0; i < shape.blocks; ++i)
        for (int half = 0; half < 2; ++half)
          fetch(weights + i * kWeightBytes + half * (kWeightBytes / 2), &weight, column + half * 64,
                trunk * shape.inner + i * kInner, &weights_here);
      int stage = 0;
      unsigned phase = 0;
      for (int n = 0; n < count; ++n) {
        const int row = (part + n * shape.parts) * kRows;
        for (int i = 0; i < shape.blocks; ++i) {
          wait(&empty[stage], phase ^ 1);
          expect(&full[stage], kStageBytes);
          std::uint8_t* to = ring + stage * kStageBytes;
          const int x = trunk * shape.inner + i * kInner;
          if constexpr (kPair == 2) {
            const int half = static_cast<int>(rank) * (kRows / 2);
            fetch_for_both(to + half * 128, &behind, x, row + half, &full[stage]);
          } else {
            fetch(to, &behind, x, row, &full[stage]);
          }
          if (++stage == shape.stages) {
            stage = 0;
            phase ^= 1;
          }
        }
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
    const int lane = thread % 32, warp = thread % kGroupThreads / 32;
    const int cell = trunk * shape.width + column + lane % 4 * 8;
    float total[32] = {};
    wait(&weights_here, 0);
    int stage = 0;
    unsigned phase = 0;
    const auto pass = [&](int more) {
      for (stage += more; stage >= shape.stages; stage -= shape.stages) phase ^= 1;
    };
    pass((group - 1) * shape.blocks);
    for (int n = group - 1; n < count; n += kGroups, pass((kGroups - 1) * shape.blocks)) {
      const int row = (part + n * shape.parts) * kRows + warp * 16 + lane / 4;
      uint4 passed[8];
#pragma unroll
      for (int k = 0; k < 8; ++k) {  // k: which half of the rows, and which 32 of the columns
        const int r = row + k / 4 * 8;
        passed[k] = r < shape.rows ? load(activation + static_cast<std::size_t>(r) * shape.activation_stride + cell +
                                          k % 4 * 32)
                                   : make_uint4(0, 0, 0, 0);
      }
      float d[64];
      int before = 0;
      // One group after the other: a stage's barrier tells only this use from the last.
      if (n > 0) asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(2 * kGroupThreads) : "memory");
      for (int i = 0; i < shape.blocks; ++i) {
        wait(&full[stage], phase);
        const std::uint8_t* a = ring + stage * kStageBytes;
        const std::uint8_t* b = weights + i * kWeightBytes;
        begin_products();
#pragma unroll
        for (int k = 0; k < kInner / 16; ++k)
          multiply<T>(d, operand(a + k * 32, 16), operand(b + k * 16 * 128, kWeightBytes / 2), i > 0 || k > 0);
        commit_products();
        if (i + 1 == shape.blocks && n + 1 < count)
          asm volatile("bar.arrive %0, %1;" ::"r"(2 + group % kGroups), "n"(2 * kGroupThreads) : "memory");
        wait_products<1>();
        if (i > 0 && lane == 0)
          for (unsigned other = 0; other < kPair; ++other) arrive(&empty[before], other);
        before = stage;
        pass(1);
      }
      wait_products<0>();
      if (lane == 0)
        for (unsigned other = 0; other < kPair; ++other) arrive(&empty[before], other);
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const int half = k / 4, first = k % 4 * 4;
        unsigned v[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
          v[j] = Pair<T>::pack(d[(first + j) * 4 + half * 2], d[(first + j) * 4 + half * 2 + 1]);
        uint4 eight = gather(v, lane);
        float* sum = total + k % 4 * 8;
        eight.x = keep<T>(eight.x, passed[k].x, sum[0], sum[1]);
        eight.y = keep<T>(eight.y, passed[k].y, sum[2], sum[3]);
        eight.z = keep<T>(eight.z, passed[k].z, sum[4], sum[5]);
        eight.w = keep<T>(eight.w, passed[k].w, sum[6], sum[7]);
        const int r = row + half * 8;
        if (r < shape.rows)
          *reinterpret_cast<uint4*>(slope + static_cast<std::size_t>(r) * shape.slope_stride + cell + k % 4 * 32) =
              eight;
      }
    }
    // Sums of columns: lanes of a warp, then warps in their order. The ring is free by now.
    asm volatile("bar.sync 1, %0;" ::"n"(kGroups * kGroupThreads) : "memory");
    auto* rows = reinterpret_cast<float*>(ring);  // [warps][128]
    const int line = thread / 32 - 4;
#pragma unroll
    for (int k = 0; k < 32; ++k) {
      float sum = total[k];
      for (int step = 4; step < 32; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
      if (lane < 4) rows[line * kColumns + k / 8 * 32 + lane * 8 + k % 8] = sum;
    }
    asm volatile("bar.sync 1, %0;" ::"n"(kGroups * kGroupThreads) : "memory");
    const int mine = thread - kGroupThreads;
    if (mine < kColumns) {
      float sum = 0;
      for (int w = 0; w < 4 * kGroups; ++w) sum += rows[w * kColumns + mine];
      sums[static_cast<std::size_t>(part) * shape.slope_stride + trunk * shape.width + column + mine] = sum;
    }
  }
  __syncwarp();
  if constexpr (kPair == 2) cluster_sync();  // a block must not end while its neighbour still writes to it
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

// A matrix [height, width] of which the copy engine takes boxes.
CUtensorMap matrix(const void* data, Precision precision, int width, int height, int stride, int box_width,
                   int box_height) {
  CUtensorMap map;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(width), static_cast<cuuint64_t>(height)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride) * 2};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(box_width), static_cast<cuuint32_t>(box_height)};
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
bool in_pairs(const WayBack& back) { return back.width / kColumns % 2 == 0; }

template <class T, int kPair>
void launch(const WayBack& back, Precision precision, cudaStream_t stream) {
  const CUtensorMap behind = matrix(back.behind, precision, back.trunks * back.inner, back.rows, back.behind_stride,
                                    kInner, kRows / kPair);
  const CUtensorMap weight =
      matrix(back.weight, precision, back.width, back.trunks * back.inner, back.weight_stride, 64, kInner);
  const Shape shape{back.rows,          back.inner,   back.width,
                    back.width / kColumns, stream_parts(back), inner_blocks(back),
                    stages(back),       back.activation_stride, back.slope_stride};
  const auto kernel = stream_kernel<T, kPair>;
  const int room = shape.blocks * kWeightBytes + shape.stages * kStageBytes + 1024;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, room), "asking for shared memory");
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(shape.parts * slabs(back));
  config.blockDim = kBlockThreads;
  config.dynamicSmemBytes = static_cast<std::size_t>(room);
  config.stream = stream;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {kPair, 1, 1};
  config.attrs = &cluster;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, behind, weight, static_cast<const T*>(back.activation),
                           static_cast<T*>(back.slope), back.sums, shape),
        "going back through a layer");
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
         slabs(back) <= here.processors && stages(back) >= 6;
}

int stream_parts(const WayBack& back) {
  static const Card here = card();
  const int tiles = (back.rows + kRows - 1) / kRows, fit = here.processors / slabs(back);
  return tiles < fit ? tiles : fit;
}

void stream_back(const WayBack& back, Precision precision, cudaStream_t stream) {
  const auto go = [&](auto type) {
    using T = decltype(type);
    return in_pairs(back) ? launch<T, 2>(back, precision, stream) : launch<T, 1>(back, precision, stream);
  };
  return precision == Precision::kFloat16 ? go(__half{}) : go(__nv_bfloat16{});
}

}  // namespace playmill
