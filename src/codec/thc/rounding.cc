#include "codec/thc/rounding.h"

namespace sluice::thc {

quantiser::Draws rounding_draws(ThcRounding rounding, const Chunk& chunk) {
  if (rounding == ThcRounding::stratified) {
    const std::uint64_t rank = chunk.extent.rank;
    return {.stream = RandomStream(chunk.key, Purpose::dither, kShared),
            .shift = static_cast<std::uint16_t>((rank << 16) / chunk.extent.workers)};
  }
  return {.stream = RandomStream(chunk.key, Purpose::rounding, chunk.extent.rank),
          .nearest = rounding == ThcRounding::nearest};
}

}  // namespace sluice::thc
