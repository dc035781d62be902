// `sluice bench allreduce`: whole operations between all workers of a job, in the shape of
// nccl-tests, so that its readers and scripts can read ours. The carrier's own float32 all-reduce,
// where it has one, is measured beside the codecs.
//
// An operation is a training step of one tensor. Inputs are made by seed, so every process can make
// any worker's. Functions are for one thread; problems name the option and what is accepted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/sluice/bench/bench_data.h"
#include "apps/sluice/process/process.h"
#include "base/result.h"
#include "catalog/codecs.h"

namespace sluice::cli {

struct AllreduceOptions {
  std::uint64_t bytes_min = std::uint64_t{32} << 20;  // of one worker's float32 gradient
  std::uint64_t bytes_max = std::uint64_t{32} << 20;
  std::uint64_t factor = 2;  // from one size to the next
  std::uint64_t iterations = 20;
  std::uint64_t warmup = 5;
  bool check = true;  // whether results are compared
  std::uint32_t workers = 4;
  std::uint64_t seed = 0;
  BenchData data = {.kind = BenchData::Kind::normal};
  std::string feedback = "none";
  std::uint32_t chunk = 1u << 16;  // coordinates, fitted to the codec's plan
  std::uint32_t window = 4;
  std::uint64_t timeout_seconds = 60;
};

// "8", "64K", "32M", "1G": bytes, binary multiples, either case. Errors name the option.
Checked<std::uint64_t> parse_bytes(std::string_view option, const std::string& text);

// The sizes of the table: coordinates, ascending.
std::vector<std::uint64_t> counts_of(const AllreduceOptions& options);

// One way of handing over memory: results beside the gradients, or in their place.
struct AllreduceWay {
  double seconds = 0;  // of an operation: the mean over iterations, of the slowest process
  // Coordinates that are wrong, on the worker and in the checked step that have most; nothing where
  // they were not checked. A codec's coordinate is wrong in two cases. Its bits differ from the
  // same reduction done another way in one process (`local`, stepped by one thread, arriving
  // backwards, combined by a tree). Or it is further from the true mean than the codec promises
  // (Traits::error_max). The carrier's own is wrong where it is further from the true sum than
  // float32 additions in any order can be.
  std::optional<std::uint64_t> wrong;
};

struct AllreduceRow {
  std::string codec;  // kPlain for the carrier's own
  std::uint64_t count = 0;
  AllreduceWay out_of_place;
  AllreduceWay in_place;
  double wire_bytes = 0;        // up + down of worker 0, per operation
  std::optional<double> vnmse;  // of one checked operation
  double cpu_seconds = 0;       // per operation, all threads of a process, the largest of any
  // Contributions sent again, of all workers, per operation; nothing where the carrier sends none.
  std::optional<double> retransmits;
  // Per operation, of an aggregator that is a thread here; nothing where it is another process.
  std::optional<double> aggregator_cpu_seconds;
};

inline constexpr std::string_view kPlain = "plain";

struct AllreduceBench {
  const Process* process = nullptr;  // outlives this
  AllreduceOptions options;          // with the number of workers there are
  bool has_plain = false;  // else the carrier has no all-reduce of its own to compare with
};

// Before anything is done: Code::invalid_argument names what is accepted.
Verdict check_allreduce(const Process& process, const AllreduceOptions& options,
                        std::span<const NamedCodec> codecs);

// After the check: whether all processes have the same options, and what the carrier has. All
// processes call it together. Code::invalid_argument where options differ, or the carrier's
// failure.
Checked<AllreduceBench> prepare_allreduce(const Process& process, AllreduceOptions options,
                                          std::span<const NamedCodec> codecs);

// Measures size by size, all codecs and then the carrier's own at each. Hands over every row as
// soon as it is there. All processes call it together, with the same arguments, and get the same
// rows but for worker 0's bytes. Fails as the carrier does; rows before stay right.
Verdict bench_allreduce(const AllreduceBench& bench, std::span<const NamedCodec> codecs,
                        const std::function<void(const AllreduceRow&)>& take);

}  // namespace sluice::cli
