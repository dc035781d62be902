// The vocabulary of reductions: what a round does to bytes, exactly, on every carrier.
//
// Lanes are unsigned, little-endian, bit-packed (kernels/lanes). A grain is a run of lanes that
// share one contributor set and, where the answer has headers, one header. It is a multiple of 8
// lanes, so every grain starts on a byte whatever the width. All reductions but the float sums are
// exact, associative and commutative. Float sums are made in rank order: each addition is rounded
// to float32, the total once to the format.
//
//   lane_sum   codes of 1–8 bits, each mapped through `table` if there is one, summed. Down:
//              full    lanes of sum_bits(what, n) bits: those of n·value_max, value_max being the
//                      greatest entry of the table or 2^bits − 1
//              narrow  per grain: width k (1 byte), minimum (as many whole bytes as sum_bits
//                      needs), lanes − minimum at k bits; lossless
//              round   per grain: shift s (1 byte), lanes of b = bits + extra bits around the
//                      centre c0 = (m·value_max + 1) >> 1:
//                        lane = clamp(((S − c0) >> s) + 2^(b−1), 0, 2^b − 1), read back as
//                        2Ŝ = 2·c0 + ((lane − 2^(b−1)) << (s + 1)) + 2^s − 1,
//                      with the s from 0 to bits(m·value_max) − b of least Σ(2S − 2Ŝ)², smallest
//                      on ties; where b ≥ sum_bits(what, n) it is `full`, without header
//   wrap_sum   integers of 8, 16, 24, … 64 bits modulo 2^bits
//   max        lanes of 1–32 bits (1 bit: or)
//   gather     up: at most `count` bytes. Down: (rank u32, size u32, bytes)*, ranks ascending
//   block_sum  up and down: number of blocks u32, then per block its number u32, ascending, its
//              form u8 and its `grain` integers of `bits` bits in that form:
//                0 dense   all of them
//                1 bitmap  grain / 8 bytes, bit i: integer i is there; then those, in order
//                2 pairs   count u16, then (position u16, integer)*, positions ascending
//              What is not there is zero. Whoever writes takes the shortest form, the lowest on
//              ties, and leaves zeros out of forms 1 and 2; whoever reads takes any form that is
//              no longer than the dense one. Sums are modulo 2^bits; blocks nobody sent are
//              absent, blocks whose sums are all zero are not
//   f32_sum, bf16_sum, f16_sum   down: the sum in the same format
//
// Pure functions for any thread, without allocation. Only check() fails; it may ask about anything.
// All others expect a reduction that has passed it, with the same number of workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "kernels/floats/floats.h"

namespace sluice {

enum class Op : std::uint8_t {
  lane_sum,
  wrap_sum,
  max,
  gather,
  block_sum,
  f32_sum,
  bf16_sum,
  f16_sum
};
enum class Down : std::uint8_t { full, narrow, round };

// As written above; lives as long as the program.
std::string_view name_of(Op op);
std::string_view name_of(Down down);

// A value, equal on all ranks. It does not own its table.
struct Reduction {
  Op op = Op::max;
  std::uint8_t bits = 8;
  Down down = Down::full;
  std::uint8_t extra = 0;
  std::uint32_t count = 0;                    // lanes; of a gather: bytes one worker may send
  std::uint32_t grain = 0;                    // 0: all lanes are one grain
  std::span<const std::uint16_t> table = {};  // lives as long as the codec

  friend bool operator==(const Reduction& a, const Reduction& b);  // tables by their entries
};

// Whether this can be reduced among n workers at all. Otherwise Code::invalid_argument; the literal
// says what is wrong.
Status check(const Reduction& what, std::uint32_t workers);

constexpr bool is_float_sum(Op op) { return op >= Op::f32_sum; }
constexpr bool is_list(Op op) { return op == Op::gather || op == Op::block_sum; }
floats::Format float_format(Op op);  // of a float sum (asserted)

// Lanes of one grain (all of them when grain is 0, and always for lists).
std::uint32_t grain_of(const Reduction& what);
// The largest value one worker's code can stand for; here and in the next three, of a lane_sum.
// O(entries of the table).
std::uint32_t value_max(const Reduction& what);
// The bits a sum over n workers needs; at least 1.
unsigned sum_bits(const Reduction& what, std::uint32_t workers);
// Whether the answer of this lane_sum has the rounded form, given down and the widths.
bool is_rounded(const Reduction& what, std::uint32_t workers);

// Bytes up: exactly this many, or at most this many for lists.
std::size_t up_size(const Reduction& what);
// Bytes down: exactly this many, or at most this many for lists and narrow sums.
std::size_t down_size_max(const Reduction& what, std::uint32_t workers);
// Whether it is exactly.
bool is_down_size_fixed(const Reduction& what);

inline constexpr std::size_t kMessageHeader = 8;        // gather: rank u32, size u32
inline constexpr std::size_t kBlockListHeader = 4;      // block_sum: number of blocks u32
inline constexpr std::size_t kBlockHeader = 5;          // block_sum: block number u32, form u8
inline constexpr std::uint32_t kBlockGrainMax = 65528;  // positions and counts are u16
std::size_t block_size_max(const Reduction& what);      // block_sum: header and all integers
std::uint32_t block_count(const Reduction& what);       // block_sum: numbers are below this

// The value that stands for this reduction in digests and comparisons; the same on every machine.
std::uint64_t digest_of(const Reduction& what);

}  // namespace sluice
