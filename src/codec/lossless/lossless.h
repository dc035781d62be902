// lossless: sparse gradients summed exactly in compressed form.
#pragma once

#include <array>
#include <string_view>

#include "codec/info.h"
#include "codec/lossless/lossless_settings.h"

namespace sluice::lossless {

// Info::make; refuses mode=sketch with sum=float, or with an index but auto, bitmap and bloom.
Checked<std::unique_ptr<Codec>> make(const OptionValues& options);

inline constexpr std::array<std::string_view, 4> kModes{"auto", "packed", "sketch", "dense"};
inline constexpr std::array<std::string_view, 2> kSums{"exact", "float"};
inline constexpr std::array<std::string_view, 6> kIndexes{"auto", "bitmap", "levels",
                                                          "rows", "bloom",  "gather"};

inline constexpr std::array kOptions{
    OptionInfo{.key = "mode",
               .kind = OptionInfo::Kind::choice,
               .choices = kModes,
               .help = "how values travel; auto: whatever costs least"},
    OptionInfo{.key = "sum",
               .kind = OptionInfo::Kind::choice,
               .choices = kSums,
               .help = "exact: the true mean, rounded once; float: the bits of codec f32"},
    OptionInfo{.key = "index",
               .kind = OptionInfo::Kind::choice,
               .choices = kIndexes,
               .help = "how the places of values travel; auto: whatever costs least"},
    OptionInfo{.key = "step_bytes",
               .kind = OptionInfo::Kind::integer,
               .preset = 128,
               .minimum = 0,
               .maximum = 1 << 24,
               .help = "bytes per chunk that one step less is worth"},
    OptionInfo{.key = "room",
               .kind = OptionInfo::Kind::real,
               .preset = 1,
               .minimum = 0.5,
               .maximum = 4,
               .help = "buckets of a sketch, times what all but surely gives every key back"},
};

inline constexpr Info kInfo{
    .id = 8,
    .name = "lossless",
    .summary = "sparse gradients, summed exactly: agreed index, packed integers, exceptions",
    .paper = "Lossless Homomorphic Compression, Li et al., arXiv 2402.07529; repaired",
    .reductions = "max{1,8,9,32}, wrap_sum{8…64} or f32_sum, gather for exceptions",
    .options = kOptions,
    .counts = kCountNames,
    .make = &make,
};

}  // namespace sluice::lossless
