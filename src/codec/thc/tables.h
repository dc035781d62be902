// The non-uniform tables of THC: which integers 0…g the codes stand for.
//
// Pure functions for any thread. For start-up: they allocate. The caller rounds to nearest, or the
// integers may be others. What is out of range asserts: the codec checks its options before.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice::thc {

inline constexpr std::uint32_t kBitsMax = 8;
inline constexpr std::uint32_t kGridMax = 4095;

enum class Shape : std::uint8_t {
  optimal,    // the least rounding variance of all tables
  symmetric,  // … of those with T(z) + T(2^bits − 1 − z) = g, as published
};

struct TableSpec {
  std::uint32_t bits = 4;  // 1 to 8
  std::uint32_t g = 30;    // 2^bits − 1 to 4095
  double p = 0.03125;      // mass beyond the clamp point, both tails together
  Shape shape = Shape::optimal;
};

// A table and what it costs a coordinate that is normal with variance 1.
struct Table {
  std::vector<std::uint16_t> values;  // increasing, from 0 to g
  double clamp_point = 0;             // t: code z stands for −t + values[z] · 2t/g
  double rounding = 0;                // V: mean variance of rounding between neighbours
  double clamping = 0;                // C: mean squared error of clamping to [−t, t]
};

constexpr std::uint32_t grid_min(std::uint32_t bits) { return (1u << bits) - 1; }

// The best table. The same integers on every machine. Of tables that cost exactly the same it is
// the lexicographically larger: one that is not symmetric costs what its mirror image does. At
// worst (8 bits, g = 4095) 12 million steps and 2 MB: for start-up.
Table make_table(const TableSpec& spec);

// Expected squared error of the mean of n workers, at least 1, over the mean squared norm of their
// inputs.
enum class Inputs : std::uint8_t {
  independent,  // clamping errors average out as rounding errors do
  identical,    // clamping errors are the same on all workers and stay
};
double expected_error(const Table& table, std::uint32_t workers, Inputs inputs);

}  // namespace sluice::thc
