// The draws by which one worker rounds, by element of the tensor.
#pragma once

#include "codec/chunk.h"
#include "codec/thc/settings.h"
#include "kernels/levels/levels.h"

namespace sluice::thc {

// stochastic: the rank's own. stratified: draws that all ranks share, moved by rank / n of their
// range, so that the ranks' are spread evenly. nearest: one half.
levels::Draws rounding_draws(Rounding rounding, const Chunk& chunk);

}  // namespace sluice::thc
