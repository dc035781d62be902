#include "bench_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "base/aligned_buffer.h"
#include "base/random.h"
#include "codec/codec.h"
#include "group/flight.h"
#include "kernels/level.h"
#include "round/combine.h"
#include "table.h"
#include "terminal.h"

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

// The gradients and means of one thread's share of the coordinates.
struct Buffers {
  Buffers(std::uint64_t count, std::uint32_t workers, std::uint64_t seed) : mean(count) {
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      const RandomStream stream(chunk_key(seed, 0, 0), Purpose::data, rank);
      auto& gradient = gradients.emplace_back(count);
      for (std::uint64_t i = 0; i < count; ++i) gradient[i] = 2 * stream.uniform(i) - 1;
    }
  }
  std::vector<std::vector<float>> gradients;
  std::vector<float> mean;
};

// One worker's end of the exchange under measurement.
struct Worker {
  AlignedBuffer host;
  AlignedBuffer place;
  Exchange* exchange = nullptr;
  std::vector<float> mean;  // of workers other than the first, chunk by chunk
  Step step;
};

// Drives the exchanges of all workers chunk by chunk; what worker 0 does is timed.
class Bench {
 public:
  Bench(const Codec& codec, Buffers& buffers, std::uint32_t workers)
      : codec_(codec), buffers_(buffers), all_(WorkerSet::all(workers)), workers_(workers) {
    const std::uint64_t count = buffers.mean.size();
    tensor_ = {0, 1, count};
    chunk_count_ = fit_chunk(codec.plan(tensor_, workers), 1u << 16);
    const auto first = static_cast<std::uint32_t>(std::min<std::uint64_t>(chunk_count_, count));
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      FlightSize size;
      size.cover(codec, {tensor_, 0, first, rank, workers});
      crew_[rank].host = AlignedBuffer(size.host);
      crew_[rank].place = AlignedBuffer(size.place);
      crew_[rank].mean.resize(rank == 0 ? 0 : chunk_count_);
    }
  }

  Checked<Times> pass() {
    times_ = {};
    for (std::uint64_t at = 0; at < buffers_.mean.size(); at += chunk_count_) {
      const auto count = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(chunk_count_, buffers_.mean.size() - at));
      if (const Status status = chunk(at, count); !status) {
        return Problem{status.error().code, status.error().what};
      }
    }
    return times_;
  }

 private:
  Status chunk(std::uint64_t at, std::uint32_t count) {
    for (std::uint32_t rank = 0; rank < workers_; ++rank) begin(rank, at, count);
    std::vector<Answer> none;
    SLUICE_TRY(next(none));
    while (crew_[0].step.kind == Step::Kind::ask) {
      combine_rounds();
      SLUICE_TRY(next(answers_));
    }
    return ok();
  }

  void begin(std::uint32_t rank, std::uint64_t at, std::uint32_t count) {
    Worker& worker = crew_[rank];
    Chunk chunk;
    chunk.piece = {tensor_, at, count, rank, workers_};
    chunk.key = chunk_key(0, 0, 0);
    chunk.gradient = std::span<const float>(buffers_.gradients[rank]).subspan(at, count);
    chunk.mean = rank == 0 ? std::span(buffers_.mean).subspan(at, count)
                           : std::span(worker.mean).first(count);
    Arena arena(worker.host.bytes(), worker.place.bytes());
    worker.exchange = codec_.begin(chunk, arena);
  }

  Status next(std::span<const Answer> answers) {
    for (std::uint32_t rank = 0; rank < workers_; ++rank) {
      Worker& worker = crew_[rank];
      for (std::size_t i = 0; i < answers.size() && rank != 0; ++i) {
        const auto& down = answers[i].down;
        std::copy(down.begin(), down.end(), worker.step.rounds[i].down.begin());
      }
      const auto start = Clock::now();
      SLUICE_TRY_ASSIGN(worker.step, worker.exchange->next(answers));
      const double took = seconds_since(start);
      if (rank == 0) (worker.step.kind == Step::Kind::ask ? times_.encode : times_.decode) += took;
    }
    return ok();
  }

  void combine_rounds() {
    const auto rounds = crew_[0].step.rounds;
    answers_.assign(rounds.size(), Answer{});
    parts_.resize(rounds.size());
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      const Reduction& what = rounds[i].what;
      if (what.count == 0) continue;
      contributions_.clear();
      for (std::uint32_t rank = 0; rank < workers_; ++rank) {
        contributions_.push_back({rank, crew_[rank].step.rounds[i].up});
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
  WorkerSet all_;
  std::uint32_t workers_;
  Tensor tensor_;
  std::uint32_t chunk_count_ = 0;
  std::vector<Worker> crew_ = std::vector<Worker>(workers_);
  std::vector<Answer> answers_;
  std::vector<Part> parts_;
  std::vector<Contribution> contributions_;
  AlignedBuffer scratch_;
  Times times_;
};

// One thread's share of the work.
struct Share {
  Share(std::span<const NamedCodec> codecs, std::uint64_t count, std::uint32_t workers,
        std::uint64_t seed)
      : buffers(count, workers, seed), copy(count) {
    for (const NamedCodec& codec : codecs) {
      benches.push_back(std::make_unique<Bench>(*codec.codec, buffers, workers));
    }
  }
  double copy_seconds() {
    const auto start = Clock::now();
    std::memcpy(copy.data(), buffers.gradients[0].data(), copy.size() * sizeof(float));
    // The copy must be seen to be used, or the compiler may drop it.
    asm volatile("" : : "r"(copy.data()) : "memory");
    return seconds_since(start);
  }

  Buffers buffers;
  std::vector<float> copy;
  std::vector<std::unique_ptr<Bench>> benches;
  Times times;
  double memcpy_seconds = 0;
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

Verdict measure(std::vector<std::unique_ptr<Share>>& shares, std::size_t codec, Samples* samples) {
  on_all(shares, [&](Share& share) {
    const Checked<Times> times = share.benches[codec]->pass();
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
  return Nothing{};
}

}  // namespace

Checked<std::vector<BenchRow>> bench_codecs(std::span<const NamedCodec> codecs,
                                            const BenchOptions& options) {
  SLUICE_TRY(check(options));
  SLUICE_TRY_ASSIGN(const Level level, parse_level(options.kernel));
  const ScopedLevel scoped(level);
  std::vector<std::unique_ptr<Share>> shares;
  for (std::uint32_t i = 0; i < options.threads; ++i) {
    shares.push_back(
        std::make_unique<Share>(codecs, options.count / options.threads, options.workers, i));
  }
  // One pass that is not counted faults in all memory.
  for (std::size_t i = 0; i < codecs.size(); ++i) SLUICE_TRY(measure(shares, i, nullptr));
  std::vector<Samples> samples(codecs.size());
  std::vector<double> copies;
  Progress progress("measuring: repetition");
  for (std::uint32_t repetition = 0; repetition < options.repetitions; ++repetition) {
    progress.update(repetition, options.repetitions);
    for (std::size_t i = 0; i < codecs.size(); ++i) {
      on_all(shares, [](Share& share) { share.memcpy_seconds = share.copy_seconds(); });
      copies.push_back(slowest(shares, [](const Share& s) { return s.memcpy_seconds; }));
      SLUICE_TRY(measure(shares, i, &samples[i]));
    }
  }
  std::vector<BenchRow> rows;
  for (std::size_t i = 0; i < codecs.size(); ++i) {
    rows.push_back({codecs[i].spec, options, median(copies), median(samples[i].encode),
                    median(samples[i].combine), median(samples[i].decode)});
    rows.back().options.kernel = name_of(level);
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
  json["memcpy_gbps"] = gigabytes_per_second(row, row.memcpy_seconds);
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
