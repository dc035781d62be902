#include "apps/sluice/reduce/generate.h"

#include <cmath>

#include "apps/sluice/reduce/normal_draws.h"
#include "base/random.h"

namespace sluice::cli {
namespace {

constexpr std::uint64_t kSparseOneIn = 64;

}  // namespace

void generate_gradient(std::string_view kind, std::uint64_t seed, std::uint32_t rank,
                       std::span<float> into) {
  const RandomStream common(chunk_key(seed, 0, 0), Purpose::data, kShared);
  const RandomStream own(chunk_key(seed, 0, 0), Purpose::data, rank);
  const RandomStream layers(chunk_key(seed, 0, 1), Purpose::data, kShared);
  for (std::uint64_t i = 0; i < into.size(); ++i) {
    float value = std::sqrt(kSignal) * normal(common, i) + std::sqrt(1 - kSignal) * normal(own, i);
    if (kind == "layers") value *= 1e-3f * std::exp2(2 * normal(layers, i / kLayer));
    if (kind == "sparse" && layers.word(i) % kSparseOneIn != 0) value = 0;
    into[i] = value;
  }
}

}  // namespace sluice::cli
