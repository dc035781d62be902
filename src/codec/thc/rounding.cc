#include "codec/thc/rounding.h"

namespace sluice::thc {

levels::Draws rounding_draws(Rounding rounding, const Chunk& chunk) {
  if (rounding == Rounding::stratified) {
    const std::uint64_t rank = chunk.piece.rank;
    return {.stream = RandomStream(chunk.key, Purpose::dither, kShared),
            .shift = static_cast<std::uint16_t>((rank << 16) / chunk.piece.workers)};
  }
  return {.stream = RandomStream(chunk.key, Purpose::rounding, chunk.piece.rank),
          .nearest = rounding == Rounding::nearest};
}

}  // namespace sluice::thc
