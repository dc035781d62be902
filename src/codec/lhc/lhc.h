// lhc: an index of the coordinates that are not zero, and a Count-Sketch of float32, peeled; as
// published, with what it loses.
#pragma once

#include <array>
#include <string_view>

#include "codec/info.h"

namespace sluice::lhc {

// Info::make; refuses nothing.
Checked<std::unique_ptr<Codec>> make(const OptionValues& options);

inline constexpr std::array kOptions{OptionInfo{
    .key = "ratio",
    .kind = OptionInfo::Kind::real,
    .preset = 10,
    .minimum = 1,
    .maximum = 1000,
    .help = "blocks of 1024 coordinates per row of 1024 buckets",
}};

inline constexpr std::array<std::string_view, 1> kCountNames{"estimated_keys"};

inline constexpr Info kInfo{
    .id = 9,
    .name = "lhc",
    .summary = "index and float32 Count-Sketch, peeled, as published; lossy, for comparison",
    .paper = "Lossless Homomorphic Compression, Li et al., arXiv 2402.07529",
    .reductions = "max{1}, f32_sum",
    .options = kOptions,
    .counts = kCountNames,
    .make = &make,
};

}  // namespace sluice::lhc
