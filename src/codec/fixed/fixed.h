// fixed: block floating point, one exponent per block, 32-bit integers that add.
#pragma once

#include <array>

#include "codec/agreed_blocks.h"
#include "codec/info.h"

namespace sluice::fixed {

// Info::make; refuses nothing.
Checked<std::unique_ptr<Codec>> make(const OptionValues& options);

inline constexpr std::array kOptions{agreed_block_option("coordinates that share one exponent")};

inline constexpr Info kInfo{
    .id = 4,
    .name = "fixed",
    .summary = "block floating point: shared exponent per block, 32-bit integer sums",
    .paper = "SwitchML, Sapio et al., NSDI 2021",
    .reductions = "max{8}, wrap_sum{32}, f32_sum where a block is not finite",
    .options = kOptions,
    .make = &make,
};

}  // namespace sluice::fixed
