// The kinds of gradients that tests feed to codecs, and a seeded generator for them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace sluice::support {

enum class DataKind : std::uint8_t {
  normal,
  zeros,
  negative_zeros,
  one_nonzero,
  constant,
  heavy_tails,
  subnormals,
  infinities,
  nans,
};

struct DataInfo {
  DataKind kind = DataKind::normal;
  std::string_view name;
  bool finite = true;
};

// The first is what a test takes that does not care.
inline constexpr std::array kData{
    DataInfo{DataKind::normal, "normal"},
    DataInfo{DataKind::zeros, "zeros"},
    DataInfo{DataKind::negative_zeros, "negative_zeros"},
    DataInfo{DataKind::one_nonzero, "one_nonzero"},
    DataInfo{DataKind::constant, "constant"},
    DataInfo{DataKind::heavy_tails, "heavy_tails"},
    DataInfo{DataKind::subnormals, "subnormals"},
    DataInfo{DataKind::infinities, "infinities", false},
    DataInfo{DataKind::nans, "nans", false},
};

std::string_view name_of(DataKind kind);

// One worker's gradient of one tensor. The same arguments give the same floats everywhere. The
// kinds that are not finite have at least one such coordinate on every other worker, 0 included,
// about one in 500 on those, and are normal elsewhere.
void fill_gradient(DataKind kind, std::uint64_t seed, std::uint64_t tensor, std::uint32_t rank,
                   std::span<float> gradient);

// What a mean holds before it is written: unlike any mean, unlike on any other rank.
float unwritten(std::uint32_t rank);

}  // namespace sluice::support
