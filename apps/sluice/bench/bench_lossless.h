// `sluice bench lossless`: what sparse gradients cost on the wire and in time, by the density of
// the union of all supports, their overlap and the number of workers.
//
// Bytes, counts and results come from groups on carrier `local`, in the second of two steps: what a
// codec keeps between steps it has by then. Both steps have gradients of their own. Times come from
// bench_codecs: medians of worker 0's passes over a gradient that is read from end to end, with
// f32, memcpy and plain reading in the same run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/sluice/bench/bench_data.h"
#include "apps/sluice/bench/codec_counts.h"
#include "base/result.h"
#include "catalog/codecs.h"

namespace sluice::cli {

// What is swept, every value with every other, and what is the same in all rows.
struct LosslessOptions {
  std::vector<double> densities{0.001, 0.01, 0.05, 0.1, 0.2, 0.5};  // of the union
  std::vector<Overlap> overlaps{Overlap::identical, Overlap::independent, Overlap::disjoint};
  std::vector<std::uint32_t> workers{2, 8};
  std::uint64_t count = std::uint64_t{1} << 20;  // coordinates
  Pattern pattern = Pattern::random;
  std::uint32_t repetitions = 9;
  std::uint64_t seed = 0;
  std::uint32_t chunk = 1u << 16;  // coordinates, fitted to the codec's plan
};

// Bytes, and counts whose names end in _bytes, are the mean over the workers. Exceptions are summed
// over all workers. Other counts are the same on all.
struct LosslessRow {
  std::string codec;
  LosslessOptions options;
  Sparsity sparsity;  // as asked for
  std::uint32_t workers = 0;
  double union_density = 0;  // as it came out
  std::uint64_t rounds = 0;
  double bytes_up = 0;
  double bytes_down = 0;
  std::vector<std::pair<std::string_view, double>> counts;  // of the codec, by name
  // Coordinates of both steps whose bits differ from the judge's: the true mean, rounded once, or
  // what codec f32 gives.
  std::uint64_t wrong = 0;
  bool judged_by_f32 = false;
  double encode_seconds = 0;
  double decode_seconds = 0;
  double dense_seconds = 0;  // f32's encode and decode
  double read_seconds = 0;
  double memcpy_seconds = 0;
  std::string kernel;
};

// The SPECs of a sweep for which none are given: of these, what is in the catalogue.
std::vector<std::string> lossless_specs();

// Sweeps; for one thread. Fails as a carrier or codec does, and names what is not accepted.
Checked<std::vector<LosslessRow>> bench_lossless(std::vector<NamedCodec> codecs,
                                                 const LosslessOptions& options);

// What is left of dense float32: 4 bytes per coordinate ÷ these bytes.
double reduction(const LosslessRow& row, double bytes);
// The larger share of a link is what limits: the smaller reduction of both ways.
double reduction(const LosslessRow& row);

// A reduction that no lossless codec of its kind exceeds. Its index has 1 bit per coordinate, or as
// many as the entropy. Its values have 32 bits, packed, or in the 1.23 buckets per key with which
// sketches of three hashes begin to decode.
struct Bound {
  std::string_view name;
  bool is_bitmap = false;
  double buckets = 1;  // per key

  // Units of the pattern per coordinate are `units`: chance decides once for each of them.
  [[nodiscard]] double at(double density, double units) const;
};
inline constexpr Bound kEntropyPacked{"entropy + packed"};
inline constexpr Bound kBitmapPacked{"bitmap + packed", true};
inline constexpr Bound kEntropySketch{"entropy + 1.23 buckets", false, 1.23};
inline constexpr Bound kBitmapSketch{"bitmap + 1.23 buckets", true, 1.23};

// The one that applies to a codec, by its name and options.
const Bound& bound_of(std::string_view spec);
double units_of(const LosslessRow& row);

inline std::string mode_of(const LosslessRow& row) { return mode_of(row.counts); }

// Code::mismatch names the first row of codec `lossless` that is not exact.
Verdict check_exact(std::span<const LosslessRow> rows);

}  // namespace sluice::cli
