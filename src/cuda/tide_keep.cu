// Tide's kernel keep, for each size of the largest block.
#include "cuda/kernels.cuh"

namespace sluice::cuda {

SLUICE_TIDE_KERNEL(keep, 1, 16, (kMost <= 7 ? 4 : kMost == 8 ? 3 : kMost == 9 ? 2 : 1))

}  // namespace sluice::cuda
