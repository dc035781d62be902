// For kernels that keep an array of vectors in registers.
#pragma once

// Only where the loops over the array are unrolled whole do the vectors stay in registers. GCC has
// to be told; clang does it by itself, and warns when told where a sanitizer keeps it from it.
#if defined(__clang__)
#define SLUICE_UNROLL
#else
#define SLUICE_UNROLL _Pragma("GCC unroll 64")
#endif
