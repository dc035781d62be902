// f32, bf16, fp16: dense baselines on float sums.
#pragma once

#include "codec/info.h"

namespace sluice::dense {

// Info::make of the three; there are no options, and nothing is refused.
Checked<std::unique_ptr<Codec>> make_f32(const OptionValues& options);
Checked<std::unique_ptr<Codec>> make_bf16(const OptionValues& options);
Checked<std::unique_ptr<Codec>> make_fp16(const OptionValues& options);

inline constexpr Info kF32{
    .id = 1,
    .name = "f32",
    .summary = "dense float32, summed in rank order: the yardstick",
    .paper = "-",
    .reductions = "f32_sum",
    .make = &make_f32,
};
inline constexpr Info kBf16{
    .id = 2,
    .name = "bf16",
    .summary = "dense bfloat16, summed in float32, rounded once",
    .paper = "-",
    .reductions = "bf16_sum",
    .make = &make_bf16,
};
inline constexpr Info kFp16{
    .id = 3,
    .name = "fp16",
    .summary = "dense float16, scaled by a power of two so that sums of n cannot overflow",
    .paper = "-",
    .reductions = "f16_sum",
    .make = &make_fp16,
};

}  // namespace sluice::dense
