// Which g and p suit a number of workers and a width of sums: what `sluice tables` recommends.
#pragma once

#include <cstdint>
#include <optional>

#include "codec/thc/tables.h"

namespace sluice::thc {

// Bits, g and p out of range assert: whoever asks a person has checked them.
struct Wish {
  std::uint32_t bits = 4;  // 1 to 8
  std::uint32_t workers = 8;
  std::uint32_t g_max = 31;  // at least 2^bits − 1
  Shape shape = Shape::optimal;
  Inputs inputs = Inputs::independent;
  std::optional<std::uint32_t> g = {};  // given: only p is searched
  std::optional<double> p = {};         // given: only g is searched
};

struct TableChoice {
  TableSpec spec;
  Table table;
  double error = 0;  // expected_error() of it
};

// The g and p of least expected error; on a tie the smaller g and the larger p. p is 1/q with eight
// q per doubling. Where there are few g, all are tried; otherwise a geometric sample with both
// ends. For 4 to 8 bits and g up to 600 it was within 0.2 % of the best of all. For the command
// line: takes seconds at worst, and allocates. Any thread that rounds to nearest.
TableChoice best_choice(const Wish& wish);

}  // namespace sluice::thc
