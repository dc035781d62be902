#include "abi/edge.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace sluice::abi {
namespace {

thread_local std::string t_last_error;
constexpr const char* kSparseSpec = "lossless";

sluice_code code_of(Code code) {
  switch (code) {
    case Code::ok: return SLUICE_OK;
    case Code::invalid_argument: return SLUICE_INVALID_ARGUMENT;
    case Code::malformed: return SLUICE_MALFORMED;
    case Code::mismatch: return SLUICE_MISMATCH;
    case Code::timeout: return SLUICE_TIMEOUT;
    case Code::unavailable: return SLUICE_UNAVAILABLE;
    case Code::out_of_memory: return SLUICE_OUT_OF_MEMORY;
    case Code::pending:
    case Code::lost:
    case Code::exhausted:
    case Code::io: break;
  }
  return SLUICE_FAILED;
}

}  // namespace

sluice_code report(const Problem& problem) {
  t_last_error = problem.message;
  return code_of(problem.code);
}

sluice_code report(const Verdict& verdict) {
  if (!verdict) return report(verdict.error());
  t_last_error.clear();
  return SLUICE_OK;
}

Problem null(const char* name, const char* accepted) {
  return invalid(fmt::format("{} is NULL; accepted: {}", name, accepted));
}

Checked<GroupOptions> options_from(const sluice_options* options) {
  if (options == nullptr) return null("options", "a sluice_options with its size");
  if (options->size != sizeof(sluice_options)) {
    return invalid(fmt::format("options.size is {}; accepted: {}", options->size,
                               sizeof(sluice_options)));
  }
  GroupOptions made;
  made.rank = options->rank;
  made.workers = options->workers;
  made.seed = options->seed;
  if (options->chunk != 0) made.chunk_count = options->chunk;
  if (options->window != 0) made.window = options->window;
  made.keep_before = options->keep_before != 0;
  if (options->feedback != nullptr) {
    SLUICE_TRY_ASSIGN(made.feedback, parse_feedback(options->feedback));
  }
  if (!(options->timeout >= 0 && options->timeout <= 1e6)) {
    return invalid(fmt::format("timeout of {} seconds; accepted: 0 to 1e6", options->timeout));
  }
  if (options->timeout > 0) {
    made.timeout = std::chrono::nanoseconds(std::llround(options->timeout * 1e9));
  }
  return made;
}

Checked<std::unique_ptr<Codec>> sparse_codec_from(const sluice_options& options) {
  SLUICE_TRY_ASSIGN(NamedCodec named,
                    make_codec(options.sparse == nullptr ? kSparseSpec : options.sparse));
  if (named.codec->traits(options.workers).model_size != 0) {
    return invalid(
        fmt::format("codec {} for sparse jobs, which keep no memory of a model; accepted: one"
                    " without, such as {}",
                    named.spec, kSparseSpec));
  }
  const Tensor any{.id = kSparseTensor, .rows = 1, .cols = 1};
  SLUICE_TRY(named.codec->accepts({&any, 1}, options.workers));
  return std::move(named.codec);
}

sluice_stats stats_from(const Stats& stats) {
  return {stats.rounds, stats.bytes_up,       stats.bytes_down,
          stats.chunks, stats.encode_seconds, stats.decode_seconds};
}

sluice_report report_from(const ParcelReport& report) {
  return {stats_from(report.stats), report.digest, report.infinite};
}

std::size_t probes_from(const ParcelReport& report, std::span<sluice_probe> into) {
  const std::size_t count = std::min(report.probes.size(), into.size());
  for (std::size_t i = 0; i < count; ++i) {
    const TensorProbe& probe = report.probes[i];
    into[i] = {probe.tensor, probe.blocks,       probe.live,
               probe.silent, probe.error_energy, probe.exact_energy};
  }
  return report.probes.size();
}

Checked<floats::Format> half_from(const char* format) {
  const std::string_view text = format == nullptr ? "NULL" : format;
  if (text == "bf16") return floats::Format::bf16;
  if (text == "fp16") return floats::Format::f16;
  return invalid(fmt::format("format '{}'; accepted: bf16, fp16", text));
}

ParcelOrder order_from(const sluice_order& order) {
  return {order.step,  order.sequence,    order.part,
          order.parts, order.digest != 0, order.probe};
}

Checked<std::vector<Job>> jobs_from(const sluice_job* jobs, std::size_t count) {
  if (jobs == nullptr && count != 0) return null("jobs", "an array of job_count jobs");
  std::vector<Job> made;
  for (std::size_t i = 0; i < count; ++i) {
    const sluice_job& job = jobs[i];
    if (job.count != 0 && (job.gradient == nullptr || job.mean == nullptr)) {
      return invalid(fmt::format("jobs[{}] has a NULL gradient or mean; accepted: {} floats each",
                                 i, job.count));
    }
    const auto size = static_cast<std::size_t>(job.count);
    made.push_back({job.tensor, {job.gradient, size}, {job.mean, size}});
  }
  return made;
}

}  // namespace sluice::abi

extern "C" const char* sluice_last_error(void) { return sluice::abi::t_last_error.c_str(); }
