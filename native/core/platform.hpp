// What differs between the compilers that read the rules: nvcc and the host's.
#pragma once

// PM_FN: rules, for the host and the card. PM_APART before it: a function of its own on the card, where it is large
// and called from several places (all else is inlined there, and compiled as often).

// PM_WARP: the rules are compiled for the lanes of a warp, on the card or where a test acts one on the host.
#if defined(__CUDA_ARCH__) || defined(PLAYMILL_ACTED_WARP)
#define PM_WARP
#endif

#if defined(__CUDACC__)
#define PM_FN __host__ __device__ inline
#define PM_UNROLL _Pragma("unroll")
// Of loops over kWords words: long sets as loops, or compiling takes minutes.
#define PM_UNROLL_WORDS _Pragma("unroll (kWords <= 16 ? kWords : 1)")
// Of loops over players: where they are two, what is kept for each stays in registers.
#define PM_UNROLL_PLAYERS _Pragma("unroll (kPlayers == 2 ? 2 : 1)")
#define PM_ROLLED _Pragma("unroll 1")
#define PM_BY_FOUR _Pragma("unroll 4")
#define PM_APART __noinline__
#else
#define PM_FN inline
#define PM_UNROLL
#define PM_UNROLL_WORDS
#define PM_UNROLL_PLAYERS
#define PM_ROLLED
#define PM_BY_FOUR
#define PM_APART
#endif
