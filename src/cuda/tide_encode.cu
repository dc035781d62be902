// Tide's kernel encode, for each size of the largest block.
#include "cuda/kernels.cuh"

namespace sluice::cuda {

SLUICE_TIDE_KERNEL(encode, warp::encode_tile_words(kMost), 8, (kMost <= 8 ? 4 : kMost == 9 ? 3 : 2))

}  // namespace sluice::cuda
