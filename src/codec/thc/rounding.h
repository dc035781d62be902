// The draws by which one worker rounds, by element of the tensor.
#pragma once

#include "codec/chunk.h"
#include "codec/thc/thc_settings.h"
#include "kernels/quantiser/quantiser.h"

namespace sluice::thc {

// stochastic: the rank's own. stratified: draws that all ranks share, moved by rank / n of their
// range, so that the ranks' are spread evenly. nearest: one half. A pure function for any thread;
// it reads extent and key of the chunk.
quantiser::Draws rounding_draws(ThcRounding rounding, const Chunk& chunk);

}  // namespace sluice::thc
