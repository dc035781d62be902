// Tide's kernel check, for each size of the largest block.
#include "cuda/kernels.cuh"

namespace sluice::cuda {

SLUICE_TIDE_KERNEL(check, 1, 4, 6)

}  // namespace sluice::cuda
