// thc: randomly rotated blocks under one agreed norm, codes of few bits that a table maps to
// integers, integer sums.
#pragma once

#include <array>
#include <string_view>

#include "codec/info.h"
#include "codec/thc/normal_law.h"

namespace sluice::thc {

// Info::make; refuses g, rotation, grouping and p that do not go with bits and range, and extra
// without down=round. Takes a while: it searches the table.
Checked<std::unique_ptr<Codec>> make(const OptionValues& options);

// Places in OptionValues.
enum Option : std::size_t {
  kBits,
  kGrid,
  kMass,
  kRotation,
  kGrouping,
  kRange,
  kRounding,
  kTable,
  kDown,
  kExtra,
};

inline constexpr std::array<std::string_view, 3> kGroupings{"blocks", "strided", "full"};
inline constexpr std::array<std::string_view, 2> kRanges{"norm", "minmax"};
inline constexpr std::array<std::string_view, 3> kRoundings{"stochastic", "stratified", "nearest"};
inline constexpr std::array<std::string_view, 2> kTables{"optimal", "symmetric"};
inline constexpr std::array<std::string_view, 3> kDowns{"full", "narrow", "round"};

inline constexpr std::array kOptions{
    OptionInfo{.key = "bits",
               .kind = OptionInfo::Kind::integer,
               .preset = 4,
               .minimum = 1,
               .maximum = 8,
               .help = "bits of a code"},
    OptionInfo{.key = "g",
               .kind = OptionInfo::Kind::integer,
               .preset = 0,
               .minimum = 0,
               .maximum = 4095,
               .help =
                   "codes stand for integers 0 to g, g at least 2^bits - 1; 0: 30 for 4 bits, else "
                   "2^bits - 1"},
    OptionInfo{.key = "p",
               .kind = OptionInfo::Kind::real,
               .preset = 0.03125,
               .minimum = kMassMin,
               .maximum = kMassMax,
               .help = "mass of the normal law that is clamped, both tails together"},
    OptionInfo{.key = "rotation",
               .kind = OptionInfo::Kind::integer,
               .preset = 0,
               .minimum = 0,
               .maximum = 1048576,
               .help = "coordinates that are mixed, a power of two (1: none); 0: 1024, 1048576 for "
                       "grouping=full, 1 for range=minmax"},
    OptionInfo{.key = "grouping",
               .kind = OptionInfo::Kind::choice,
               .choices = kGroupings,
               .help = "blocks: a scale per rotation; strided: a scale per chunk, rotations across "
                       "it; full: a chunk is one rotation"},
    OptionInfo{.key = "range",
               .kind = OptionInfo::Kind::choice,
               .choices = kRanges,
               .help = "norm: the largest norm and p; minmax: smallest and largest value, no "
                       "rotation, uniform codes"},
    OptionInfo{.key = "rounding",
               .kind = OptionInfo::Kind::choice,
               .choices = kRoundings,
               .help = "stochastic: ranks draw alone; stratified: ranks share and divide a draw; "
                       "nearest"},
    OptionInfo{.key = "table",
               .kind = OptionInfo::Kind::choice,
               .choices = kTables,
               .help = "optimal: least variance; symmetric: of symmetric tables, as published"},
    OptionInfo{.key = "down",
               .kind = OptionInfo::Kind::choice,
               .choices = kDowns,
               .help = "sums come back whole, in just enough bits, or rounded to bits + extra"},
    OptionInfo{.key = "extra",
               .kind = OptionInfo::Kind::integer,
               .preset = 0,
               .minimum = 0,
               .maximum = 4,
               .help = "bits beside `bits` of a rounded sum; for down=round"},
};

inline constexpr Info kInfo{
    .id = 5,
    .name = "thc",
    .summary = "rotated blocks under an agreed norm, few-bit codes summed through a table",
    .paper = "THC, Li et al., NSDI 2024",
    .reductions = "max{32}, lane_sum{bits, table}, f32_sum where a block is not finite",
    .options = kOptions,
    .make = &make,
};

}  // namespace sluice::thc
