// What kernels of a device are told: plain structs that lie in tables, for the host to fill and the
// device to read.
//
// One launch takes any number of items, so a wave costs a few launches however many chunks it has.
// A tile is what one group of warps does: some units of one item, from `first` on. Units are blocks
// for tide, grains for sums, bytes and values for the rest.
//
// Structs own nothing. Pointers in them are addresses that the device reaches. A null pointer says
// that there is no such thing. Nobody checks them: whoever fills a table is our own code.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/floats/floats.h"

namespace sluice::warp {

struct Tile {
  std::uint32_t item = 0;
  std::uint32_t first = 0;  // unit
};

// Units of one tile.
inline constexpr std::uint32_t kTideTile = 64;     // blocks
inline constexpr std::uint32_t kSumTile = 64;      // grains
inline constexpr std::uint32_t kCopyTile = 16384;  // bytes
inline constexpr std::uint32_t kDenseTile = 8192;  // values
inline constexpr std::uint32_t kCompareTile = 32;  // words

// What a wave finds out about itself, on the device. Zero when it begins.
struct Finding {
  std::uint32_t bad = 0;       // bits of Bad: nothing is decoded where one is set
  std::uint32_t infinite = 0;  // coordinates of the means that are Inf or NaN
};
enum Bad : std::uint32_t {
  kBadSum = 1,       // a sum beyond what the contributors can reach
  kBadShift = 2,     // a rounded grain whose shift cannot be
  kBadMismatch = 4,  // a rank reduces something else
  kBadStopped = 8,   // somebody gave it up: what arrived may be anything
};

// Bytes from one place to another; any alignment.
struct Copy {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::uint64_t size = 0;
};

// `count` words of 8 bytes, `stride` bytes apart, any alignment, that must all be `expected`; else
// kBadMismatch.
struct Compare {
  const std::byte* words = nullptr;
  std::uint64_t stride = 0;
  std::uint32_t count = 0;
  std::uint64_t expected = 0;
  Finding* finding = nullptr;
};

// --- sums ---

enum class SumOp : std::uint8_t { lane_sum, max, f32_sum, bf16_sum, f16_sum };
enum class SumForm : std::uint8_t { full, round };

// One segment of a round, as round/combine.h defines it: the same bytes. Contributor i has its
// bytes at source + ranks[i]·stride; ranks ascend. Lanes of `max` have 1 to 32 bits. The grain is
// that of the reduction, at most `count`; of lane_sum a multiple of 8, at most 1024. Other
// reductions are cut into units of 256 lanes.
struct Sum {
  const std::byte* source = nullptr;
  std::uint64_t stride = 0;
  const std::uint32_t* ranks = nullptr;
  std::uint32_t contributors = 0;
  std::uint32_t count = 0;  // lanes
  std::uint32_t grain = 0;
  SumOp op = SumOp::lane_sum;
  SumForm form = SumForm::full;
  std::uint8_t bits = 1;       // of a code, or of a lane of max
  std::uint8_t down_bits = 1;  // of a lane on the way down: sum_bits, or bits + extra
  std::byte* down = nullptr;
};
inline constexpr std::uint32_t kSumUnit = 256;  // lanes of a unit where there are no grains

// --- dense floats ---

// The chunk of a codec that sends floats as they are. The input is values + residual, where there
// is a residual (canonical NaN, as kernels/floats); in float32.
struct Dense {
  const void* values = nullptr;
  floats::Format values_format = floats::Format::f32;
  floats::Format wire_format = floats::Format::f32;
  floats::Format mean_format = floats::Format::f32;
  std::uint8_t counted = 1;   // whether this worker was
  float* residual = nullptr;  // what feedback keeps
  std::uint64_t count = 0;
  float scale = 1;          // wire = input · scale; a power of two
  float divisor = 1;        // mean = sum / scale / divisor: how many were counted
  std::byte* up = nullptr;  // encode writes, keep reads
  const std::byte* down = nullptr;
  void* mean = nullptr;  // may be the very same memory as the values
  Finding* finding = nullptr;
};

// --- tide ---

inline constexpr std::size_t kTideRounds = 9;  // widths 1 to 8, then the exact blocks
inline constexpr std::uint8_t kTideExact = 0xff;

// One block of a chunk, by number.
struct TideBlock {
  std::uint16_t code = 0;  // the scale in use; of a faint block as it is, not amplified
  std::uint8_t width = 0;  // 1 to 8, kTideExact, or 0: does not travel
  std::uint8_t flags = 0;  // of TideFlag
  std::uint32_t lane = 0;  // its first lane in the round of its width
};
enum TideFlag : std::uint8_t {
  kTideZeros = 1,  // encode: this worker sends the codes of zeros
  kTideAgain = 2,  // decode: it travelled in the second sending
};

// The rounds of one sending, by width − 1; the last has the exact blocks.
struct TideSending {
  std::array<std::byte*, kTideRounds> up{};
  std::array<const std::byte*, kTideRounds> down{};
};

// What follows from a scale but for its whole octaves: by width (from 1) and eighth of an octave.
// value = (128·T − b)·(factor·2^k) + centre·2^k, where code − 1200 − 4·log2(size) = 8·k + eighth.
struct TideAffines {
  std::array<std::array<float, 8>, 8> factor{};
  std::array<std::array<float, 8>, 8> centre{};
};

// A chunk of codec tide (src/codec/tide/README.md has the formulae). Blocks are those of
// TideLayout(count, block). `values` and `mean` are in their formats; residual, arithmetic and
// codes as in float32 on the host.
struct TideChunk {
  const void* values = nullptr;
  float* residual = nullptr;
  void* mean = nullptr;  // may be the very same memory as the values
  floats::Format values_format = floats::Format::f32;
  floats::Format mean_format = floats::Format::f32;
  std::uint8_t counted = 1;   // decode: whether this worker was
  std::uint8_t measures = 0;  // encode: also writes my own codes, and damps blocks by them
  std::uint32_t count = 0;
  std::uint32_t block = 256;
  std::uint32_t shift = 0;                // of this worker's dither
  std::uint64_t element = 0;              // of the chunk's first coordinate in the tensor
  std::uint64_t dithers = 0;              // RandomStream::key() of the shared dither
  std::array<std::uint32_t, 32> signs{};  // bit i mod 32 of word i / 32: place i is minus
  const TideBlock* blocks = nullptr;      // of encode, check and decode
  std::uint16_t* codes = nullptr;         // my own scale codes: measure writes
  std::array<TideSending, 2> sendings{};  // encode writes up of the first
  // Of what comes down: full sums of so many bits by width, or rounded lanes of width + extra.
  std::array<std::uint8_t, 8> full_bits{};
  std::array<std::uint8_t, 8> rounded{};  // by width: 1 if rounded
  std::uint8_t extra = 0;
  std::uint32_t contributors = 1;
  // What the receiver takes off: b = times·U mod 256, or table[U] where there is one.
  std::uint32_t dither_times = 0;
  const std::int32_t* dither_table = nullptr;
  const TideAffines* affines = nullptr;      // of the mean
  const TideAffines* own_affines = nullptr;  // of one worker's codes, for feedback
  Finding* finding = nullptr;
};

}  // namespace sluice::warp
