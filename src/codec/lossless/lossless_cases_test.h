// The cases that codec lossless is accepted by: densities, numbers of workers, overlaps, patterns,
// contents and shapes, for each way of using it.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codec/lossless/lossless_settings.h"
#include "tests/support/pairwise.h"
#include "tests/support/sparse_job.h"

namespace sluice::lossless {

using support::Gradients;
using support::Judge;
using support::SparseCase;
using support::SparseJob;

// What a group's codec counted, of which there is a list in settings.h.
inline std::uint64_t counted(const Group& group, Count what) {
  return group.counts()[static_cast<std::size_t>(what)];
}

inline constexpr std::array<std::string_view, 16> kSpecs{
    "lossless",
    "lossless:mode=packed,index=bitmap",
    "lossless:mode=packed,index=levels",
    "lossless:mode=packed,index=rows",
    "lossless:mode=packed,index=bloom",
    "lossless:mode=packed,index=gather",
    "lossless:mode=sketch,index=bitmap",
    "lossless:mode=sketch,index=bloom",
    "lossless:mode=dense",
    "lossless:sum=float",
    "lossless:mode=packed,sum=float,index=bitmap",
    "lossless:mode=packed,sum=float,index=levels",
    "lossless:mode=packed,sum=float,index=rows",
    "lossless:mode=packed,sum=float,index=bloom",
    "lossless:mode=packed,sum=float,index=gather",
    "lossless:mode=dense,sum=float",
};

// Of each factor the cheapest first; the order of Row.
inline constexpr std::array<double, 7> kDensities{0.01, 0.001, 0.05, 0.1, 0.5, 0, 1};
inline constexpr std::array<std::uint32_t, 6> kWorkers{2, 1, 8, 15, 16, 64};
inline constexpr std::array<std::array<std::uint64_t, 2>, 4> kShapes{
    {{256, 1024}, {1, (1 << 18) - 1}, {1, (1 << 18) + 77}, {257, 1021}}};
inline constexpr std::array<std::uint32_t, 2> kChunkCounts{1u << 16, 1u << 20};
enum Factor : std::size_t {
  specs,
  densities,
  workers,
  overlaps,
  patterns,
  contents,
  shapes,
  chunks
};
inline constexpr std::array<std::size_t, 8> kValueCounts{kSpecs.size(),
                                                         kDensities.size(),
                                                         kWorkers.size(),
                                                         support::kOverlaps.size(),
                                                         support::kPatterns.size(),
                                                         support::kContents.size(),
                                                         kShapes.size(),
                                                         kChunkCounts.size()};

// Without values there is nothing to arrange, and where everything has one no pattern.
inline bool is_pointless(std::size_t a, std::size_t x, std::size_t b, std::size_t y) {
  if (a != densities || y == 0) return false;
  if (kDensities[x] == 0) return b == overlaps || b == patterns || b == contents;
  if (kDensities[x] != 1) return false;
  return b == patterns ||
         (b == overlaps && y == static_cast<std::size_t>(support::Overlap::independent));
}

inline bool is_float(std::string_view spec) { return spec.find("sum=float") != spec.npos; }
inline bool is_sketch(std::string_view spec) { return spec.find("mode=sketch") != spec.npos; }

// … and what takes long: exceptions go from everybody to everybody. Of float sums, whose index is
// that of exact ones, the automatic choice stands for all where there are many workers.
inline bool is_pointless_or_long(std::size_t a, std::size_t x, std::size_t b, std::size_t y) {
  if (is_pointless(a, x, b, y)) return true;
  const bool is_many = b == workers && kWorkers[y] == 64;
  if (a == specs) return is_many && is_float(kSpecs[x]) && kSpecs[x] != "lossless:sum=float";
  if (a == densities && b == workers) {
    return kWorkers[y] > 8 && (kDensities[x] == 0 || kDensities[x] == 1);
  }
  if (b != contents || y != static_cast<std::size_t>(support::Contents::mixed)) return false;
  return (a == densities && kDensities[x] == 1) || (a == workers && kWorkers[x] == 64);
}

struct LosslessCase {
  std::string_view spec;
  SparseCase data;
  std::uint32_t chunk_count = 0;
};

inline LosslessCase case_of(const support::Row& row) {
  const auto& shape = kShapes[row[shapes]];
  return {kSpecs[row[specs]],
          {.tensor = {9, shape[0], shape[1]},
           .workers = kWorkers[row[workers]],
           .density = kDensities[row[densities]],
           .pattern = static_cast<support::Pattern>(row[patterns]),
           .overlap = static_cast<support::Overlap>(row[overlaps]),
           .contents = static_cast<support::Contents>(row[contents])},
          kChunkCounts[row[chunks]]};
}

// Empty, or what is wrong. Two steps of the same gradients, in the second of which the codec knows
// what to expect; one where that takes long and makes no difference.
inline std::string accept(const LosslessCase& what) {
  const Gradients gradients = support::sparse_gradients(what.data);
  const Judge judge = is_float(what.spec)
                          ? Judge::of_float_sums(gradients, what.data.tensor, what.chunk_count)
                          : Judge::of_exact_sums(gradients);
  const int steps = what.data.workers > 16 && !is_sketch(what.spec) ? 1 : 2;
  // Few workers do it all again: the same bits, in as many bytes.
  const int runs = what.data.workers <= 2 ? 2 : 1;
  Stats before;
  for (int run = 0; run < runs; ++run) {
    SparseJob job(what.spec, what.data.tensor,
                  {.workers = what.data.workers, .chunk_count = what.chunk_count});
    std::string wrong;
    for (int step = 0; step < steps && wrong.empty(); ++step) {
      wrong = job.step(gradients);
      if (wrong.empty()) wrong = judge.judge(job.mean());
    }
    const Stats& stats = job.stats(0);
    if (run == 1 && (stats.bytes_up != before.bytes_up || stats.bytes_down != before.bytes_down)) {
      wrong = "not the same number of bytes when repeated";
    }
    before = stats;
    if (wrong.empty()) continue;
    return fmt::format("{}, chunks of {}, {}: {}", what.spec, what.chunk_count,
                       support::describe(what.data), wrong);
  }
  return "";
}

// As part of a test's name.
inline std::string name_of_spec(std::string_view spec) {
  std::string name(spec);
  for (char& letter : name) {
    if (letter == ':' || letter == ',' || letter == '=') letter = '_';
  }
  return name;
}

}  // namespace sluice::lossless
