#include "apps/sluice/bench/bench_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>

#include "apps/sluice/bench/bench_data.h"
#include "apps/sluice/process/table.h"
#include "apps/sluice/process/terminal.h"
#include "apps/sluice/reduce/normal_draws.h"
#include "base/aligned_buffer.h"
#include "base/bytes.h"
#include "base/float_environment.h"
#include "base/limits.h"
#include "base/random.h"
#include "catalog/feedbacks.h"
#include "codec/codec.h"
#include "group/flight.h"
#include "kernels/level.h"
#include "round/combine.h"

namespace sluice::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Times {
  double encode = 0;
  double combine = 0;
  double decode = 0;
};

// Workers other than the first read their gradients from memory of this many coordinates (and a
// chunk) again and again. In training they are other machines: what they read must not push the
// first worker's memory out of its caches, and 64 of them must fit into this one.
constexpr std::uint64_t kWindow = std::uint64_t{1} << 18;
static_assert(kWindow % kLayer == 0, "a coordinate has the same scale on all workers");

// The gradients and the mean of one thread's share of the coordinates.
struct Buffers {
  Buffers(const BenchOptions& options, const BenchData& data, const Tensor& tensor,
          std::uint32_t chunk_max, std::uint64_t seed)
      : mean(tensor.count()) {
    const std::uint64_t count = tensor.count();
    const std::uint64_t window = std::min(count, kWindow + chunk_max);
    for (std::uint32_t rank = 0; rank < options.workers; ++rank) {
      gradients.emplace_back(rank == 0 ? count : window);
      make_gradient(data, {rank, options.workers, seed, 0, std::min(count, kWindow)},
                    gradients.back());
    }
  }
  std::vector<AlignedVector<float>> gradients;
  AlignedVector<float> mean;
};

std::uint32_t chunk_of(const Codec& codec, const BenchOptions& options, const Tensor& tensor) {
  return fit_chunk(codec.plan(tensor, options.workers), options.chunk);
}

// Touches everything as fast as caches and memory give it: sums that do not wait for each other,
// which the compiler makes vectors of.
std::uint32_t read_all(std::span<const float> values) {
  std::array<std::uint32_t, 16> sums{};
  while (values.size() >= sums.size()) {
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] += std::bit_cast<std::uint32_t>(values[i]);
    values = values.subspan(sums.size());
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    sums[i] += std::bit_cast<std::uint32_t>(values[i]);
  return std::accumulate(sums.begin(), sums.end(), 0u);
}

// What the texts among the options say.
struct Asked {
  NamedFeedback feedback;
  BenchData data = {};
};

// Where a rank's memory for the chunk at this offset starts.
std::uint64_t place_of(std::uint32_t rank, std::uint64_t offset) {
  return rank == 0 ? offset : offset % kWindow;
}

// One worker's end of the exchange under measurement, and what it carries from step to step.
struct Worker {
  AlignedBuffer host;
  AlignedBuffer place;
  std::array<AlignedVector<float>, kMemoriesMax> memories;  // of feedback
  std::vector<std::byte> state;
  std::vector<std::byte> model;
  std::vector<std::uint64_t> tally;
  Exchange* exchange = nullptr;
  AlignedVector<float> mean;  // of workers other than the first, chunk by chunk
  Leg leg;
};

// Drives the exchanges of all workers chunk by chunk; what worker 0 does is timed.
class Bench {
 public:
  Bench(const Codec& codec, Buffers& buffers, const BenchOptions& options, const Tensor& tensor,
        const NamedFeedback& feedback)
      : codec_(codec),
        buffers_(buffers),
        workers_(options.workers),
        kind_{feedback.kind.get(), feedback.info->plain, {}},
        fuses_(codec.traits(workers_).fuses_feedback),
        all_(WorkerSet::all(workers_)),
        tensor_(tensor),
        chunk_count_(chunk_of(codec, options, tensor_)) {
    const Plan plan = codec.plan(tensor_, workers_);
    const Traits traits = codec.traits(workers_);
    const auto tail = static_cast<std::uint32_t>(tensor_.count() % chunk_count_);
    for (std::uint32_t rank = 0; rank < workers_; ++rank) {
      Worker& worker = workers_here_[rank];
      FlightSize size;
      for (const std::uint32_t count : {chunk_count_, tail}) {
        if (count == 0 || count > tensor_.count()) continue;
        size.cover(codec, {tensor_, tensor_.count() - count, count, rank, workers_}, kind_);
      }
      worker.host = AlignedBuffer(size.host);
      worker.place = AlignedBuffer(size.place);
      worker.mean.resize(rank == 0 ? 0 : std::min<std::uint64_t>(chunk_count_, tensor_.count()));
      worker.state.resize(plan.state_size);
      worker.model.resize(traits.model_size);
      worker.tally.resize(traits.tally_count);
      for (std::size_t i = 0; i < feedback.info->memories.size(); ++i) {
        worker.memories[i].resize(buffers.gradients[rank].size());
      }
    }
  }

  // One training step.
  Checked<Times> pass(std::uint64_t step) {
    const FloatEnvironment environment;
    times_ = {};
    for (std::uint64_t at = 0; at < tensor_.count(); at += chunk_count_) {
      const auto count =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(chunk_count_, tensor_.count() - at));
      if (const Status status = chunk(step, at, count); !status) {
        return Problem{status.error().code, status.error().what};
      }
    }
    const auto start = Clock::now();
    end_step(workers_here_[0]);
    times_.decode += seconds_since(start);
    for (std::uint32_t rank = 1; rank < workers_; ++rank) end_step(workers_here_[rank]);
    return times_;
  }

  [[nodiscard]] std::uint32_t chunk_count() const { return chunk_count_; }

 private:
  Status chunk(std::uint64_t step, std::uint64_t at, std::uint32_t count) {
    for (std::uint32_t rank = 0; rank < workers_; ++rank) begin(rank, step, at, count);
    SLUICE_TRY(next({}));
    while (workers_here_[0].leg.kind == Leg::Kind::ask) {
      combine_rounds();
      SLUICE_TRY(next(answers_));
    }
    if (workers_here_[0].leg.kind == Leg::Kind::done) return ok();
    return Error{Code::unavailable, 0, "bench: device exchanges are not supported"};
  }

  void begin(std::uint32_t rank, std::uint64_t step, std::uint64_t at, std::uint32_t count) {
    Worker& worker = workers_here_[rank];
    const std::uint64_t place = place_of(rank, at);
    Chunk chunk;
    chunk.extent = {tensor_, at, count, rank, workers_};
    chunk.step = step;
    chunk.key = chunk_key(0, step, tensor_.id);
    chunk.gradient = std::span<const float>(buffers_.gradients[rank]).subspan(place, count);
    chunk.mean = rank == 0 ? std::span(buffers_.mean).subspan(at, count)
                           : std::span(worker.mean).first(count);
    chunk.state = worker.state;
    chunk.model = worker.model;
    chunk.tally = worker.tally;
    Kept kept = kind_;
    for (std::size_t i = 0; i < kMemoriesMax; ++i) {
      if (worker.memories[i].empty()) continue;
      kept.memories[i] = std::span(worker.memories[i]).subspan(place, count);
    }
    Arena arena(worker.host.bytes(), worker.place.bytes());
    const auto start = Clock::now();
    worker.exchange = codec_.begin(with_feedback(chunk, kept, fuses_, arena), arena);
    if (rank == 0) times_.encode += seconds_since(start);
  }

  void end_step(Worker& worker) {
    if (worker.tally.empty() && worker.model.empty()) return;
    codec_.end_step(worker.tally, worker.model);
    std::fill(worker.tally.begin(), worker.tally.end(), std::uint64_t{0});
  }

  Status next(std::span<const Answer> answers) {
    for (std::uint32_t rank = 0; rank < workers_; ++rank) {
      Worker& worker = workers_here_[rank];
      for (std::size_t i = 0; i < answers.size() && rank != 0; ++i) {
        const auto& down = answers[i].down;
        std::copy(down.begin(), down.end(), worker.leg.rounds[i].down.begin());
      }
      const auto start = Clock::now();
      SLUICE_TRY_ASSIGN(worker.leg, worker.exchange->next(answers));
      const double took = seconds_since(start);
      if (rank == 0) (worker.leg.kind == Leg::Kind::ask ? times_.encode : times_.decode) += took;
    }
    return ok();
  }

  void combine_rounds() {
    const auto rounds = workers_here_[0].leg.rounds;
    answers_.assign(rounds.size(), Answer{});
    parts_.resize(rounds.size());
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      const Reduction& what = rounds[i].what;
      if (what.count == 0) continue;
      contributions_.clear();
      for (std::uint32_t rank = 0; rank < workers_; ++rank) {
        contributions_.push_back({rank, workers_here_[rank].leg.rounds[i].up});
      }
      if (scratch_.size() < scratch_size(what)) scratch_ = AlignedBuffer(scratch_size(what));
      const auto start = Clock::now();
      const std::size_t size =
          combine(what, workers_, 0, what.count, contributions_, scratch_.bytes(), rounds[i].down);
      times_.combine += seconds_since(start) / workers_;
      parts_[i] = {0, what.count, all_.view()};
      answers_[i] = {rounds[i].down.first(size), std::span(&parts_[i], 1)};
    }
  }

  const Codec& codec_;
  Buffers& buffers_;
  std::uint32_t workers_;
  Kept kind_;  // of feedback, without memories
  bool fuses_;
  WorkerSet all_;
  Tensor tensor_;
  std::uint32_t chunk_count_;
  std::vector<Worker> workers_here_ = std::vector<Worker>(workers_);
  std::vector<Answer> answers_;
  std::vector<Part> parts_;
  std::vector<Contribution> contributions_;
  AlignedBuffer scratch_;
  Times times_;
};

// One thread's share of the work: a tensor of its own.
struct Share {
  Share(std::span<const NamedCodec> codecs, const BenchOptions& options, const Asked& asked,
        const Tensor& tensor, std::uint64_t seed)
      : buffers(options, asked.data, tensor, chunk_max(codecs, options, tensor), seed),
        copy(tensor.count()) {
    for (const NamedCodec& codec : codecs) {
      benches.push_back(
          std::make_unique<Bench>(*codec.codec, buffers, options, tensor, asked.feedback));
    }
  }
  static std::uint32_t chunk_max(std::span<const NamedCodec> codecs, const BenchOptions& options,
                                 const Tensor& tensor) {
    std::uint32_t most = 0;
    for (const NamedCodec& codec : codecs) {
      most = std::max(most, chunk_of(*codec.codec, options, tensor));
    }
    return most;
  }
  double copy_seconds() {
    const auto start = Clock::now();
    std::memcpy(copy.data(), buffers.gradients[0].data(), copy.size() * sizeof(float));
    // The copy must be seen to be used, or the compiler may drop it.
    asm volatile("" : : "r"(copy.data()) : "memory");
    return seconds_since(start);
  }
  double read_seconds() {
    const auto start = Clock::now();
    const std::uint32_t read = read_all(buffers.gradients[0]);
    asm volatile("" : : "r"(read) : "memory");
    return seconds_since(start);
  }

  Buffers buffers;
  AlignedVector<float> copy;
  std::vector<std::unique_ptr<Bench>> benches;
  Times times;
  double seconds = 0;  // of the copy or of the reading
  Verdict verdict = Nothing{};
};

// Runs on all shares at once.
void on_all(std::vector<std::unique_ptr<Share>>& shares, const std::function<void(Share&)>& work) {
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < shares.size(); ++i) {
    threads.emplace_back([&, i] { work(*shares[i]); });
  }
  work(*shares[0]);
  for (std::thread& thread : threads) thread.join();
}

// The slowest share is the one that counts.
template <class Get>
double slowest(const std::vector<std::unique_ptr<Share>>& shares, Get get) {
  double most = 0;
  for (const auto& share : shares) most = std::max(most, get(*share));
  return most;
}

struct Samples {
  std::vector<double> encode;
  std::vector<double> combine;
  std::vector<double> decode;
};

Verdict measure(std::vector<std::unique_ptr<Share>>& shares, std::size_t codec, std::uint64_t step,
                Samples* samples) {
  on_all(shares, [&](Share& share) {
    const Checked<Times> times = share.benches[codec]->pass(step);
    if (times) share.times = *times;
    share.verdict = times ? Verdict(Nothing{}) : Verdict(times.error());
  });
  for (const auto& share : shares) SLUICE_TRY(share->verdict);
  if (samples == nullptr) return Nothing{};
  samples->encode.push_back(slowest(shares, [](const Share& s) { return s.times.encode; }));
  samples->combine.push_back(slowest(shares, [](const Share& s) { return s.times.combine; }));
  samples->decode.push_back(slowest(shares, [](const Share& s) { return s.times.decode; }));
  return Nothing{};
}

Verdict check(const BenchOptions& options) {
  const auto refuse = [](const char* name, std::uint64_t value, const char* accepted) {
    return Problem{Code::invalid_argument,
                   fmt::format("{} {}; accepted: {}", name, value, accepted)};
  };
  if (options.count < 1 || options.count > std::uint64_t{1} << 30) {
    return refuse("--count", options.count, "1 to 1073741824");
  }
  if (options.threads < 1 || options.threads > 256 || options.threads > options.count) {
    return refuse("--threads", options.threads, "1 to 256, at most one per coordinate");
  }
  if (options.workers < 1 || options.workers > 64) {
    return refuse("--workers", options.workers, "1 to 64");
  }
  if (options.repetitions < 7 || options.repetitions > 1001) {
    return refuse("--repetitions", options.repetitions, "7 to 1001");
  }
  if (options.chunk < 1 || options.chunk > kLanesMax) {
    return refuse("--chunk", options.chunk, "1 to 268435456");
  }
  return Nothing{};
}

std::uint64_t share_of(const BenchOptions& options, std::uint32_t thread) {
  return options.count / options.threads + (thread < options.count % options.threads ? 1 : 0);
}

// What a group would refuse is refused here.
Checked<Asked> check_codecs(std::span<const NamedCodec> codecs, const BenchOptions& options) {
  Asked asked;
  SLUICE_TRY_ASSIGN(asked.data, parse_data("--data", options.data));
  SLUICE_TRY_ASSIGN(asked.feedback, make_feedback(options.feedback));
  for (const NamedCodec& codec : codecs) {
    SLUICE_TRY(check_feedback(asked.feedback, codec.codec->traits(options.workers), codec.spec));
    for (const std::uint32_t thread : {0u, options.threads - 1}) {
      const Tensor tensor = tensor_of(asked.data, share_of(options, thread));
      SLUICE_TRY(codec.codec->accepts({&tensor, 1}, options.workers));
    }
  }
  return asked;
}

// Of a memcpy or of a reading.
double time_all(std::vector<std::unique_ptr<Share>>& shares, double (Share::*seconds)()) {
  on_all(shares, [&](Share& share) { share.seconds = (share.*seconds)(); });
  return slowest(shares, [](const Share& share) { return share.seconds; });
}

}  // namespace

Checked<std::vector<BenchRow>> bench_codecs(std::span<const NamedCodec> codecs,
                                            const BenchOptions& options) {
  SLUICE_TRY(check(options));
  SLUICE_TRY_ASSIGN(const Level level, parse_level(options.kernel));
  const ScopedLevel scoped(level);
  SLUICE_TRY_ASSIGN(const Asked asked, check_codecs(codecs, options));
  std::vector<std::unique_ptr<Share>> shares;
  for (std::uint32_t i = 0; i < options.threads; ++i) {
    const Tensor tensor = tensor_of(asked.data, share_of(options, i));
    shares.push_back(std::make_unique<Share>(codecs, options, asked, tensor, options.seed + i));
  }
  // Step 0 is not counted: it faults in all memory and gives codecs their first state.
  for (std::size_t i = 0; i < codecs.size(); ++i) SLUICE_TRY(measure(shares, i, 0, nullptr));
  std::vector<Samples> samples(codecs.size());
  std::vector<double> copies;
  std::vector<double> reads;
  Progress progress("measuring: repetition");
  for (std::uint32_t repetition = 0; repetition < options.repetitions; ++repetition) {
    progress.update(repetition, options.repetitions);
    for (std::size_t i = 0; i < codecs.size(); ++i) {
      copies.push_back(time_all(shares, &Share::copy_seconds));
      reads.push_back(time_all(shares, &Share::read_seconds));
      SLUICE_TRY(measure(shares, i, std::uint64_t{1} + repetition, &samples[i]));
    }
  }
  std::vector<BenchRow> rows;
  for (std::size_t i = 0; i < codecs.size(); ++i) {
    rows.push_back({codecs[i].spec, options, median(copies), median(reads),
                    median(samples[i].encode), median(samples[i].combine),
                    median(samples[i].decode)});
    rows.back().options.kernel = name_of(level);
    rows.back().options.chunk = shares[0]->benches[i]->chunk_count();
  }
  return rows;
}

namespace {

double gigabytes_per_second(const BenchRow& row, double seconds) {
  return static_cast<double>(row.options.count) * sizeof(float) / seconds * 1e-9;
}

}  // namespace

Json to_json(const BenchRow& row) {
  Json json;
  json["codec"] = row.codec;
  json["count"] = row.options.count;
  json["threads"] = row.options.threads;
  json["workers"] = row.options.workers;
  json["kernel"] = row.options.kernel;
  json["repetitions"] = row.options.repetitions;
  json["chunk"] = row.options.chunk;
  json["feedback"] = row.options.feedback;
  json["data"] = row.options.data;
  json["seed"] = row.options.seed;
  json["memcpy_gbps"] = gigabytes_per_second(row, row.memcpy_seconds);
  json["read_gbps"] = gigabytes_per_second(row, row.read_seconds);
  json["encode_gbps"] = gigabytes_per_second(row, row.encode_seconds);
  json["combine_gbps"] = gigabytes_per_second(row, row.combine_seconds);
  json["decode_gbps"] = gigabytes_per_second(row, row.decode_seconds);
  json["encode_ratio"] = row.memcpy_seconds / row.encode_seconds;
  json["combine_ratio"] = row.memcpy_seconds / row.combine_seconds;
  json["decode_ratio"] = row.memcpy_seconds / row.decode_seconds;
  return json;
}

std::string to_text(std::span<const BenchRow> rows) {
  std::vector<std::vector<std::string>> cells;
  for (const BenchRow& row : rows) {
    const auto rate = [&](double seconds) {
      return fmt::format("{:.1f}", gigabytes_per_second(row, seconds));
    };
    const auto ratio = [&](double seconds) {
      return fmt::format("{:.2f}", row.memcpy_seconds / seconds);
    };
    cells.push_back({row.codec, row.options.kernel, rate(row.memcpy_seconds),
                     rate(row.encode_seconds), rate(row.combine_seconds), rate(row.decode_seconds),
                     ratio(row.encode_seconds), ratio(row.combine_seconds),
                     ratio(row.decode_seconds)});
  }
  return format_table({"codec", "<kernel", "memcpy GB/s", "encode GB/s", "combine GB/s",
                       "decode GB/s", "encode ÷ memcpy", "combine ÷ memcpy", "decode ÷ memcpy"},
                      cells);
}

}  // namespace sluice::cli
