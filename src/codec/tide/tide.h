// tide: rotated blocks, a scale and a width per block, dithered integer codes that add.
#pragma once

#include <array>
#include <string_view>

#include "codec/info.h"

namespace sluice::tide {

// Info::make; refuses an extra other than auto with down=full or narrow.
Checked<std::unique_ptr<Codec>> make(const OptionValues& options);

enum class Scales : std::uint8_t { now, previous };

// Replaces down=auto: sums rounded on the way down lose what is in nobody's residual, so with a
// feedback they are narrow.
void settle(OptionValues& options, bool feedback);

inline constexpr std::array<std::string_view, 4> kDowns{"full", "narrow", "round", "auto"};
inline constexpr std::array<std::string_view, 6> kExtras{"auto", "0", "1", "2", "3", "4"};
inline constexpr std::array<std::string_view, 2> kScales{"now", "previous"};
inline constexpr std::array<std::string_view, 2> kFloors{"0", "1"};
inline constexpr std::array<std::string_view, 5> kBlocks{"64", "128", "256", "512", "1024"};

inline constexpr std::array kOptions{
    OptionInfo{.key = "bits",
               .kind = OptionInfo::Kind::real,
               .preset = 4,
               .minimum = 1,
               .maximum = 8,
               .help = "bits up per coordinate, scales included"},
    OptionInfo{.key = "block",
               .kind = OptionInfo::Kind::choice,
               .preset = 2,
               .choices = kBlocks,
               .help = "coordinates that share a rotation, a scale and a width"},
    OptionInfo{.key = "down",
               .kind = OptionInfo::Kind::choice,
               .preset = 3,
               .choices = kDowns,
               .resumes = true,
               .help = "form of the sums on the way down; auto: narrow with feedback, else round"},
    OptionInfo{.key = "extra",
               .kind = OptionInfo::Kind::choice,
               .preset = 0,
               .choices = kExtras,
               .resumes = true,
               .help = "bits of a rounded sum beyond the code's; auto: max(1, log2(workers)/2)"},
    OptionInfo{.key = "scales",
               .kind = OptionInfo::Kind::choice,
               .preset = 0,
               .choices = kScales,
               .help = "this step's, agreed first, or those of the step before: one round trip"},
    OptionInfo{.key = "floor",
               .kind = OptionInfo::Kind::choice,
               .preset = 1,
               .choices = kFloors,
               .resumes = true,
               .help = "bits of a block that is not zero before the others get more; 0: blocks of "
                       "little energy may get none"},
};

inline constexpr Info kInfo{
    .id = 6,
    .name = "tide",
    .summary = "dithered integer codes, bits where the energy is; summed while compressed",
    .paper = "Sluice's own",
    .reductions = "max{12}, lane_sum{1–8} per width, f32_sum where a block is not finite",
    .options = kOptions,
    .settle = &settle,
    .make = &make,
};

}  // namespace sluice::tide
