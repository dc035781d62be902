// `sluice reduce`: reduces one gradient per worker and measures what came out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "accuracy.h"
#include "base/result.h"
#include "catalog/codecs.h"
#include "group/stats.h"
#include "json_file.h"
#include "npy.h"

namespace sluice::cli {

struct ReduceOptions {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t steps = 1;
  std::string feedback = "none";
  std::string carrier = "local";
  std::vector<std::uint32_t> drop;
  std::optional<std::string> dump_wire;  // folder for all bytes that cross the carrier
};

struct Reduced {
  std::string codec;
  ReduceOptions options;
  std::uint32_t workers = 0;
  std::uint32_t contributors = 0;
  std::uint64_t count = 0;
  std::vector<float> mean;      // as the workers got it; of several steps their average
  std::vector<double> average;  // the same before rounding, which errors are measured on
  Stats stats;                  // of worker 0, all steps; seconds are the mean over the workers
  double reduce_seconds = 0;
  Accuracy accuracy;
};

// One .npy per worker, same shape; errors name the file.
Checked<std::vector<Array>> read_workers(const std::vector<std::string>& files);

Checked<Reduced> reduce(const NamedCodec& codec, const ReduceOptions& options,
                        std::span<const Array> workers);

Json to_json(const Reduced& reduced);
std::string to_text(std::span<const Reduced> rows);

}  // namespace sluice::cli
