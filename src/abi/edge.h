// The edge between C and the library: error codes and texts, and what the opaque types are.
#pragma once

#include <sluice/sluice.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "catalog/codecs.h"
#include "group/cargo.h"
#include "group/group.h"
#include "group/memory.h"
#include "group/options.h"
#include "kernels/floats/floats.h"

struct sluice_codec {
  sluice::NamedCodec named;
};

struct sluice_memory {
  std::unique_ptr<sluice::Memory> memory;
  std::unique_ptr<sluice::Codec> sparse;  // of SLUICE_SPARSE jobs
};

namespace sluice::abi {

// Keeps the text for sluice_last_error() and gives the code; success clears the text.
sluice_code report(const Verdict& verdict);
sluice_code report(const Problem& problem);

inline Problem invalid(std::string message) {
  return Problem{Code::invalid_argument, std::move(message)};
}
// "NAME is NULL; accepted: WHAT".
Problem null(const char* name, const char* accepted);

Checked<GroupOptions> options_from(const sluice_options* options);
// The codec that the options name for sparse jobs.
Checked<std::unique_ptr<Codec>> sparse_codec_from(const sluice_options& options);
sluice_stats stats_from(const Stats& stats);
sluice_report report_from(const ParcelReport& report);
std::size_t probes_from(const ParcelReport& report, std::span<sluice_probe> into);
ParcelOrder order_from(const sluice_order& order);
Checked<floats::Format> half_from(const char* format);
inline std::vector<Tensor> tensors_from(const sluice_tensor* tensors, std::size_t count) {
  std::vector<Tensor> made;
  for (std::size_t i = 0; i < count; ++i) {
    made.push_back({tensors[i].id, tensors[i].rows, tensors[i].cols});
  }
  return made;
}
// Refuses null pointers of jobs that have coordinates.
Checked<std::vector<Job>> jobs_from(const sluice_job* jobs, std::size_t count);

}  // namespace sluice::abi
