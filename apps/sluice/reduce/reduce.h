// `sluice reduce`: reduces one gradient per worker and measures what came out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/sluice/bench/codec_counts.h"
#include "apps/sluice/files/json_file.h"
#include "apps/sluice/files/npy.h"
#include "apps/sluice/process/process.h"
#include "apps/sluice/reduce/accuracy.h"
#include "base/result.h"
#include "catalog/codecs.h"
#include "group/stats.h"

namespace sluice::cli {

struct ReduceOptions {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t steps = 1;
  std::string feedback = "none";
  std::vector<std::uint32_t> drop;
  std::optional<std::string> dump_wire;  // folder for all bytes that cross the carrier
  std::uint64_t timeout_seconds = 60;    // of a step
};

struct Reduced {
  std::string codec;
  std::string carrier;
  ReduceOptions options;
  std::uint32_t workers = 0;
  std::uint32_t contributors = 0;
  std::uint64_t count = 0;
  std::vector<float> mean;      // as the workers got it; of several steps their average
  std::vector<double> average;  // the same before rounding, which errors are measured on
  // Of the first worker here, all steps; seconds are the mean over the workers here.
  Stats stats;
  CodecCounts counts;
  double reduce_seconds = 0;
  Accuracy accuracy;  // where the process speaks
};

// One .npy per worker, all of the same shape. Errors name the file. Takes the memory of all of
// them.
Checked<std::vector<Array>> read_workers(const std::vector<std::string>& files);

// Before the files are read, which may take long. Code::invalid_argument names what is accepted.
Verdict check_reduce(const Process& process, const ReduceOptions& options, std::size_t files);

// All processes of the job call it, with the gradients of all workers and the same options, which
// were checked. Blocks until all have reduced. Fails as the carrier does; Code::mismatch where
// workers got different means.
Checked<Reduced> reduce(const Process& process, const NamedCodec& codec,
                        const ReduceOptions& options, std::span<const Array> workers);

Json to_json(const Reduced& reduced);
std::string to_text(std::span<const Reduced> rows);

}  // namespace sluice::cli
