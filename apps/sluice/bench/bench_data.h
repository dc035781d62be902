// Gradients that `sluice bench` makes: dense of three kinds, or sparse with a known union. No
// state; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "codec/chunk.h"

namespace sluice::cli {

// What the workers' supports have in common.
enum class Overlap : std::uint8_t {
  identical,    // everything
  independent,  // what chance gives
  disjoint,     // nothing
};
inline constexpr std::array<std::string_view, 3> kOverlaps{"identical", "independent", "disjoint"};

// What is zero or not as a whole.
enum class Pattern : std::uint8_t {
  random,   // each coordinate
  blocks,   // 256 coordinates that follow each other
  columns,  // each column of a layer of 1024
  rows,     // each row of an embedding of 64
};
inline constexpr std::array<std::string_view, 4> kPatterns{"random", "blocks", "columns", "rows"};

std::string_view name_of(Overlap overlap);
std::string_view name_of(Pattern pattern);

// How many units of the pattern so many coordinates have; a unit is zero or not as a whole.
std::uint64_t unit_count(Pattern pattern, std::uint64_t coordinates);

struct Sparsity {
  double density = 1;  // of the union of all workers' supports
  Overlap overlap = Overlap::identical;
  Pattern pattern = Pattern::random;
};

// "5%" or "0.05". Code::invalid_argument names the option, the value and what is accepted.
Checked<double> parse_density(std::string_view option, std::string_view text);
Checked<Overlap> parse_overlap(std::string_view option, std::string_view text);
Checked<Pattern> parse_pattern(std::string_view option, std::string_view text);

struct BenchData {
  enum class Kind : std::uint8_t {
    uniform,  // in [-1, 1)
    normal,
    layers,  // normal, each 4096 of another scale
    sparse,  // normal where anything is
  };
  Kind kind = Kind::uniform;
  Sparsity sparsity = {};  // of sparse
};

// "uniform", "normal", "layers", or "sparse:DENSITY", then ",OVERLAP" and ",PATTERN" if other than
// the first of each.
Checked<BenchData> parse_data(std::string_view option, std::string_view text);
std::string to_text(const Sparsity& sparsity);  // as parse_data() takes it

// The shape that a pattern means: rows of its width where that divides the count, else one row.
Tensor tensor_of(const BenchData& data, std::uint64_t count);

// Which worker of how many, and which of the gradients that a seed stands for.
struct Maker {
  std::uint32_t rank = 0;
  std::uint32_t workers = 1;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  // Supports, scales and what workers have in common repeat after so many coordinates, not 0. A
  // layer's 4096 and all widths of patterns divide it, unless no gradient is longer than it.
  std::uint64_t period = 0;
};

// The same for the same arguments. In each period of a sparse gradient as many coordinates are not
// zero as its density says, rounded to whole units of its pattern. Of independent supports each
// worker's own number is fixed, not that of the union.
void make_gradient(const BenchData& data, const Maker& maker, std::span<float> into);

}  // namespace sluice::cli
