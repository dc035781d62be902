// For kernels that keep an array of vectors in registers.
#pragma once

// Stands right before a loop over such an array, of at most 64 turns: the vectors stay in registers
// only where the loop is unrolled whole. GCC has to be told. Clang unrolls by itself, and warns
// when it is told and a sanitizer prevents it.
#if defined(__clang__)
#define SLUICE_UNROLL
#else
#define SLUICE_UNROLL _Pragma("GCC unroll 64")
#endif
