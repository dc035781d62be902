// Tide's kernel measure, for each size of the largest block.
#include "cuda/kernels.cuh"

namespace sluice::cuda {

SLUICE_TIDE_KERNEL(measure, 1, 1, (kMost <= 8 ? 6 : kMost == 9 ? 4 : 2))

}  // namespace sluice::cuda
