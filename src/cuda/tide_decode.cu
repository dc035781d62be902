// Tide's kernel decode, for each size of the largest block.
#include "cuda/kernels.cuh"

namespace sluice::cuda {

SLUICE_TIDE_KERNEL(decode, 1, 12, (kMost <= 8 ? 5 : kMost == 9 ? 2 : 1))

}  // namespace sluice::cuda
