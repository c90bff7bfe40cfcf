// What differs between the compilers that read the rules: nvcc and the host's.
#pragma once

#if defined(__CUDACC__)
#define PM_FN __host__ __device__ inline
#define PM_UNROLL _Pragma("unroll")
#else
#define PM_FN inline
#define PM_UNROLL
#endif
