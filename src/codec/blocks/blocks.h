// blocks: only blocks that are not all zero travel; block floating point, 32-bit integers that add.
#pragma once

#include <array>

#include "codec/agreed_blocks.h"
#include "codec/info.h"

namespace sluice::blocks {

// Info::make; refuses nothing.
Checked<std::unique_ptr<Codec>> make(const OptionValues& options);

inline constexpr std::array kOptions{
    agreed_block_option("coordinates that travel together, or not at all where all are zero")};

inline constexpr Info kInfo{
    .id = 7,
    .name = "blocks",
    .summary = "blocks that are not all zero, as block floating point: 32-bit integer sums",
    .paper = "OmniReduce, Fei et al., SIGCOMM 2021",
    .reductions = "max{8}, block_sum{32}, f32_sum where a block is not finite",
    .options = kOptions,
    .make = &make,
};

}  // namespace sluice::blocks
