// One source, several instruction sets: the loader picks the best this machine has, so a
// build made on one machine runs on another.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define PM_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PM_CLONES
#endif

namespace playmill {

// Sixteen floats; one register, two or four, as the machine has them. Unaligned on purpose.
typedef float Float16 __attribute__((vector_size(64), aligned(4), may_alias));

}  // namespace playmill
