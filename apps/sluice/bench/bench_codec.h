// `sluice bench codec`: encode, combine and decode against a memcpy of the gradient, in one run.
//
// A repetition is a training step of one tensor, cut into chunks as a group would: the tensor's and
// the model's codec state, the tally and the residual are carried from step to step. The pass that
// is not counted is step 0.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/sluice/files/json_file.h"
#include "base/result.h"
#include "catalog/codecs.h"

namespace sluice::cli {

struct BenchOptions {
  std::uint64_t count = std::uint64_t{1} << 24;  // coordinates: 64 MiB of gradient
  std::uint32_t threads = 1;
  std::uint32_t workers = 4;
  std::uint32_t repetitions = 9;
  std::uint32_t chunk = 1u << 16;  // coordinates; in a row: as fitted to the codec's plan
  std::string kernel = "best";
  std::string feedback = "none";
  std::string data = "uniform";  // as parse_data() takes it
  std::uint64_t seed = 0;        // of the gradients
};

// Seconds per pass over all coordinates; medians over the repetitions.
struct BenchRow {
  std::string codec;
  BenchOptions options;
  double memcpy_seconds = 0;
  double read_seconds = 0;  // of reading the gradient and nothing else
  double encode_seconds = 0;
  double combine_seconds = 0;  // of one worker's contribution
  double decode_seconds = 0;
};

// A row per codec. Repetitions of all codecs, of memcpy and of reading take turns, so that a noisy
// second hits all of them. Code::invalid_argument names an option that is not accepted. Takes the
// memory of all workers' gradients: may throw bad_alloc.
Checked<std::vector<BenchRow>> bench_codecs(std::span<const NamedCodec> codecs,
                                            const BenchOptions& options);

Json to_json(const BenchRow& row);
std::string to_text(std::span<const BenchRow> rows);

}  // namespace sluice::cli
