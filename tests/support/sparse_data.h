// Sparse gradients of a job's workers: where values are, whose they are, and what they are.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codec/chunk.h"

namespace sluice::support {

enum class Pattern : std::uint8_t {
  random,       // coordinate by coordinate
  blocky,       // aligned runs of 256
  columns,      // whole columns, 1024 wide
  dense_block,  // one run
  rows,         // whole rows of the tensor, 1024 wide where it has but one
};
enum class Overlap : std::uint8_t { identical, independent, disjoint };
enum class Contents : std::uint8_t {
  normal,
  tiny,        // ±2^-126 and its neighbours, subnormals, −0
  special,     // Inf of both signs and NaN among normal ones; several in a coordinate
  cancelling,  // pairs of workers whose large values leave little or nothing
  mixed,       // blocks with all exponents from 2^-126 to 2^127 among normal ones
};

inline constexpr std::array<std::string_view, 5> kPatterns{"random", "blocky", "columns",
                                                           "dense_block", "rows"};
inline constexpr std::array<std::string_view, 3> kOverlaps{"identical", "independent", "disjoint"};
inline constexpr std::array<std::string_view, 5> kContents{"normal", "tiny", "special",
                                                           "cancelling", "mixed"};

struct SparseCase {
  Tensor tensor;
  std::uint32_t workers = 2;
  double density = 0.01;  // of a worker's values; of all workers' where they are disjoint
  Pattern pattern = Pattern::random;
  Overlap overlap = Overlap::identical;
  Contents contents = Contents::normal;
  std::uint64_t seed = 1;
};

std::string describe(const SparseCase& what);

// By rank. The same arguments give the same floats. Unless the density is 0 there is a value.
std::vector<std::vector<float>> sparse_gradients(const SparseCase& what);

// Coordinates in which anybody has anything but +0, ascending.
std::vector<std::uint32_t> union_of(const std::vector<std::vector<float>>& gradients);

// The exact mean at each of these coordinates, by PaperSum.
std::vector<float> paper_means(const std::vector<std::vector<float>>& gradients,
                               const std::vector<std::uint32_t>& coordinates);

}  // namespace sluice::support
