#include "apps/sluice/bench/bench_allreduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "apps/sluice/bench/allreduce_measure.h"
#include "apps/sluice/process/terminal.h"
#include "base/aligned_buffer.h"
#include "base/limits.h"
#include "base/random.h"
#include "carrier/local/local.h"
#include "catalog/feedbacks.h"
#include "group/fleet.h"

namespace sluice::cli {
namespace {

constexpr std::uint64_t kBytesMax = std::uint64_t{4} << 30;
// Two of each way: the first begins without state, the second with what the first one left.
constexpr std::uint64_t kCheckedSteps = 4;

bool is_in_place(std::uint64_t checked_step) { return checked_step >= kCheckedSteps / 2; }

Problem invalid(std::string message) { return Problem{Code::invalid_argument, std::move(message)}; }

// Of both ways.
std::optional<double> mean_of(std::optional<double> out, std::optional<double> in) {
  if (!out || !in) return std::nullopt;
  return (*out + *in) / 2;
}

using Vectors = std::vector<AlignedVector<float>>;  // by rank; empty where nobody needs it

// What the truth about a result says.
struct Truth {
  std::vector<bool> broken;  // coordinates further off than promised
  double vnmse = 0;
};

// What a check found; wrong coordinates by way.
struct Findings {
  std::uint64_t wrong_out = 0;
  std::uint64_t wrong_in = 0;
  double vnmse = 0;
};

class Bench {
 public:
  explicit Bench(const AllreduceBench& bench) : process_(*bench.process), options_(bench.options) {
    here_.assign(1, process_.rank);
    if (process_.launched == 0) {
      here_.resize(options_.workers);
      std::iota(here_.begin(), here_.end(), 0u);
    }
    const std::uint64_t most = counts_of(options_).back();
    Progress progress("making gradients:");
    for (auto* vectors : {&gradients_, &results_, &reference_}) vectors->resize(options_.workers);
    for (std::uint32_t rank = 0; rank < options_.workers; ++rank) {
      progress.update(rank, options_.workers);
      const bool is_here = std::find(here_.begin(), here_.end(), rank) != here_.end();
      if (is_here) results_[rank].resize(most);
      if (options_.check) reference_[rank].resize(most);
      if (!is_here && !options_.check) continue;
      gradients_[rank].resize(most);
      make_gradient(
          options_.data,
          {.rank = rank, .workers = options_.workers, .seed = options_.seed, .period = most},
          gradients_[rank]);
    }
  }

  Checked<AllreduceRow> codec_row(const NamedCodec& codec, std::uint64_t count) {
    const Tensor tensor = tensor_of(options_.data, count);
    SLUICE_TRY_ASSIGN(const FleetOptions options, fleet_options(*process_.carrier));
    SLUICE_TRY_ASSIGN(const auto fleet, Fleet::make(options, codec, std::span(&tensor, 1)));
    Findings findings;
    std::uint64_t step = 0;
    if (options_.check) {
      SLUICE_TRY_ASSIGN(findings, check_codec(*fleet, codec, tensor));
      step = kCheckedSteps;
    }
    const auto operation = [&](bool in_place) {
      return Operation{.prepare = [this, in_place, count] { fill(results_, count, in_place, 0); },
                       .run = [this, in_place, count, &fleet,
                               &step] { return reduce(*fleet, results_, step++, count, in_place); },
                       .wire_bytes =
                           [&fleet] {
                             const Stats& stats = fleet->groups().front()->stats();
                             return stats.bytes_up + stats.bytes_down;
                           }};
    };
    SLUICE_TRY_ASSIGN(const auto out, timed(fleet->world(), operation(false)));
    SLUICE_TRY_ASSIGN(const auto in, timed(fleet->world(), operation(true)));
    return make_row(codec.spec, count, fleet->world(), out, in, findings);
  }

  // plain_sum() adds in place. The copy that makes it out of place is not timed: an all-reduce of
  // two buffers would not need it.
  Checked<AllreduceRow> plain_row(std::uint64_t count) {
    SLUICE_TRY_ASSIGN(const auto world, process_.carrier->make_world(world_options()));
    const auto values = std::span(results_[here_.front()]).first(count);
    Operation operation{
        .prepare = [this, count] { fill(results_, count, true, 0); },
        .run = [&world, values] { return world->plain_sum(values); },
        .wire_bytes = [] { return std::uint64_t{0}; },
    };
    Findings findings;
    if (options_.check) {
      operation.prepare();
      SLUICE_TRY(operation.run());
      findings = check_sum(values);
    }
    SLUICE_TRY_ASSIGN(auto out, timed(*world, operation));
    SLUICE_TRY_ASSIGN(auto in, timed(*world, operation));
    // The carrier's own bytes cannot be counted; the payloads of one float32 round can be named.
    out.wire_bytes = in.wire_bytes = 2.0 * static_cast<double>(count * sizeof(float));
    return make_row(std::string(kPlain), count, *world, out, in, findings);
  }

 private:
  Checked<Measured> timed(World& world, const Operation& operation) const {
    return measure(world, options_.warmup, options_.iterations, operation);
  }

  [[nodiscard]] WorldOptions world_options() const {
    WorldOptions options;
    options.workers = options_.workers;
    return options;
  }

  [[nodiscard]] Checked<FleetOptions> fleet_options(const CarrierInfo& carrier) const {
    FleetOptions options;
    options.make_world = carrier.make_world;
    options.group.workers = options_.workers;
    options.group.seed = options_.seed;
    options.group.chunk_count = options_.chunk;
    options.group.window = options_.window;
    options.group.timeout = std::chrono::seconds(options_.timeout_seconds);
    options.group.feedback = options_.feedback;
    return options;
  }

  // In place the gradients lie where the means will be.
  void fill(Vectors& vectors, std::uint64_t count, bool in_place, float otherwise) const {
    for (std::uint32_t rank = 0; rank < options_.workers; ++rank) {
      if (vectors[rank].empty()) continue;
      const auto into = std::span(vectors[rank]).first(count);
      if (in_place) {
        std::copy_n(gradients_[rank].begin(), count, into.begin());
      } else if (otherwise != 0) {
        std::fill(into.begin(), into.end(), otherwise);
      }
    }
  }

  Verdict reduce(Fleet& fleet, Vectors& vectors, std::uint64_t step, std::uint64_t count,
                 bool in_place) const {
    return fleet.step(step, [&](std::uint32_t rank) {
      const auto mean = std::span(vectors[rank]).first(count);
      const auto gradient = std::span<const float>(gradients_[rank]).first(count);
      return std::vector<BucketEntry>{
          {0, in_place ? std::span<const float>(mean) : gradient, mean}};
    });
  }

  // The same reduction another way: all workers in this process, stepped by one thread, arriving
  // backwards and combined by a tree. The bits must be the same.
  Checked<std::unique_ptr<Fleet>> make_reference(const NamedCodec& codec,
                                                 const Tensor& tensor) const {
    SLUICE_TRY_ASSIGN(FleetOptions options, fleet_options(local::kInfo));
    options.staffing = Staffing::stepped;
    std::vector<std::uint32_t> backwards(options_.workers);
    std::iota(backwards.rbegin(), backwards.rend(), 0u);
    options.make_world = local::arranged({.order = std::move(backwards), .fan_in = 2});
    return Fleet::make(options, codec, std::span(&tensor, 1));
  }

  Checked<Findings> check_codec(Fleet& fleet, const NamedCodec& codec, const Tensor& tensor) {
    SLUICE_TRY_ASSIGN(const auto reference, make_reference(codec, tensor));
    const std::uint64_t count = tensor.count();
    const Traits traits = codec.codec->traits(options_.workers);
    // A step with feedback returns what was lost before: its mean alone is promised nothing.
    const double promised =
        options_.feedback != "none" ? 0 : (traits.lossless ? 0x1p-24 : traits.error_max);
    const std::uint32_t chunk =
        fit_chunk(codec.codec->plan(tensor, options_.workers), options_.chunk);
    Findings findings;
    for (std::uint64_t step = 0; step < kCheckedSteps; ++step) {
      const bool in_place = is_in_place(step);
      // Unlike each other and any mean, so that what nobody wrote is seen.
      fill(results_, count, in_place, std::numeric_limits<float>::quiet_NaN());
      fill(reference_, count, in_place, std::numeric_limits<float>::infinity());
      SLUICE_TRY(reduce(fleet, results_, step, count, in_place));
      SLUICE_TRY(reduce(*reference, reference_, step, count, in_place));
      const auto mean = std::span<const float>(reference_[0]).first(count);
      const Truth truth = compare_with_truth(mean, promised, chunk);
      std::uint64_t& wrong = in_place ? findings.wrong_in : findings.wrong_out;
      for (const std::uint32_t rank : here_) {
        const auto result = std::span<const float>(results_[rank]).first(count);
        wrong = std::max(wrong, count_wrong(result, mean, truth.broken));
      }
      if (step == 1) findings.vnmse = truth.vnmse;
    }
    return findings;
  }

  static std::uint64_t count_wrong(std::span<const float> result, std::span<const float> reference,
                                   const std::vector<bool>& broken) {
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < result.size(); ++i) {
      const bool same =
          std::bit_cast<std::uint32_t>(result[i]) == std::bit_cast<std::uint32_t>(reference[i]);
      wrong += same && !broken[i] ? 0u : 1u;
    }
    return wrong;
  }

  // `promised` is in units of the chunk's largest input on any worker, as Traits::error_max; 0 for
  // nothing.
  [[nodiscard]] Truth compare_with_truth(std::span<const float> mean, double promised,
                                         std::uint32_t chunk) const {
    Truth truth;
    truth.broken.resize(mean.size());
    double errors = 0;
    double energy = 0;
    // Of the truth itself: its additions in double.
    const double slack = 0x1p-52 * options_.workers;
    for (std::size_t from = 0; from < mean.size(); from += chunk) {
      const std::size_t to = std::min<std::size_t>(mean.size(), from + chunk);
      double largest = 0;
      for (const auto& gradient : gradients_) {
        for (std::size_t i = from; i < to; ++i) {
          largest = std::max(largest, std::fabs(double{gradient[i]}));
        }
      }
      for (std::size_t i = from; i < to; ++i) {
        double sum = 0;
        for (const auto& gradient : gradients_) sum += gradient[i];
        const double true_mean = sum / options_.workers;
        const double error = mean[i] - true_mean;
        errors += error * error;
        energy += true_mean * true_mean;
        truth.broken[i] = promised != 0 && !(std::fabs(error) <= (promised + slack) * largest);
      }
    }
    truth.vnmse = errors / energy;
    return truth;
  }

  // Float32 additions in any order are off by (n−1)u ÷ (1 − (n−1)u) of the sum of magnitudes, at
  // most: Higham, Accuracy and Stability of Numerical Algorithms, 2002, eq. 4.4.
  [[nodiscard]] Findings check_sum(std::span<const float> sums) const {
    const double additions = (options_.workers - 1) * 0x1p-24;
    const double bound = additions / (1 - additions) + 0x1p-52 * options_.workers;
    Findings findings;
    double errors = 0;
    double energy = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      double sum = 0;
      double magnitude = 0;
      for (const auto& gradient : gradients_) {
        sum += gradient[i];
        magnitude += std::fabs(double{gradient[i]});
      }
      const double error = sums[i] - sum;
      errors += error * error;
      energy += sum * sum;
      findings.wrong_out += std::fabs(error) <= bound * magnitude ? 0u : 1u;
    }
    findings.wrong_in = findings.wrong_out;
    findings.vnmse = errors / energy;
    return findings;
  }

  Checked<AllreduceRow> make_row(std::string codec, std::uint64_t count, World& world,
                                 const Measured& out, const Measured& in,
                                 const Findings& findings) const {
    double most[] = {out.seconds, in.seconds, (out.cpu + in.cpu) / 2,
                     static_cast<double>(findings.wrong_out),
                     static_cast<double>(findings.wrong_in)};
    auto retransmits = mean_of(out.retransmits, in.retransmits);
    SLUICE_TRY(combine(world, options_.workers, most, retransmits));
    AllreduceRow row;
    row.codec = std::move(codec);
    row.count = count;
    row.out_of_place.seconds = most[0];
    row.in_place.seconds = most[1];
    row.cpu_seconds = most[2];
    row.retransmits = retransmits;
    row.aggregator_cpu_seconds = mean_of(out.aggregator_cpu, in.aggregator_cpu);
    row.wire_bytes = (out.wire_bytes + in.wire_bytes) / 2;
    if (options_.check) {
      row.out_of_place.wrong = static_cast<std::uint64_t>(most[3]);
      row.in_place.wrong = static_cast<std::uint64_t>(most[4]);
      row.vnmse = findings.vnmse;
    }
    return row;
  }

  const Process& process_;
  AllreduceOptions options_;
  std::vector<std::uint32_t> here_;
  Vectors gradients_;  // all workers' where results are checked
  Vectors results_;    // of the workers here
  Vectors reference_;  // of all, where results are checked
};

Verdict check_options(const AllreduceOptions& options) {
  const auto refuse = [](const char* name, std::uint64_t value, const std::string& accepted) {
    return invalid(fmt::format("{} {}; accepted: {}", name, value, accepted));
  };
  if (options.bytes_min < sizeof(float) || options.bytes_min > kBytesMax) {
    return refuse("-b", options.bytes_min, "4 bytes to 4G");
  }
  if (options.bytes_max < options.bytes_min || options.bytes_max > kBytesMax) {
    return refuse("-e", options.bytes_max,
                  fmt::format("-b, which is {}, to 4G", options.bytes_min));
  }
  if (options.factor < 2 || options.factor > 1024) {
    return refuse("-f", options.factor, "2 to 1024");
  }
  if (options.iterations < 1 || options.iterations > 1000000) {
    return refuse("-n", options.iterations, "1 to 1000000");
  }
  if (options.warmup > 1000000) return refuse("-w", options.warmup, "0 to 1000000");
  if (options.chunk < 1 || options.chunk > kLanesMax) {
    return refuse("--chunk", options.chunk, fmt::format("1 to {}", kLanesMax));
  }
  if (options.window < 1 || options.window > 1024) {
    return refuse("--window", options.window, "1 to 1024");
  }
  return check_timeout(options.timeout_seconds);
}

// Everything that decides which operations a process takes part in.
std::uint64_t digest_of(const AllreduceOptions& options, std::span<const NamedCodec> codecs) {
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}", options.bytes_min, options.bytes_max,
                  options.factor, options.iterations, options.warmup, options.check, options.seed,
                  static_cast<int>(options.data.kind), to_text(options.data.sparsity),
                  options.feedback, options.chunk, options.window);
  for (const NamedCodec& codec : codecs) text += " " + codec.spec;
  std::uint64_t digest = 0;
  for (const char c : text) digest = mix(digest, static_cast<unsigned char>(c));
  return digest;
}

// Processes that do different things would wait for each other without end.
Verdict check_alike(World& world, std::uint64_t digest) {
  const auto high = static_cast<double>(digest >> 32);
  const auto low = static_cast<double>(digest & 0xffffffffu);
  double largest[] = {high, low, -high, -low};
  SLUICE_TRY(world.meet(largest));
  if (largest[0] == -largest[2] && largest[1] == -largest[3]) return Nothing{};
  return invalid("the workers were started with different options; accepted: the same for all");
}

// Whether the carrier has an all-reduce of its own.
Checked<bool> has_plain(World& world) {
  float one[] = {1};
  const Verdict summed = world.plain_sum(one);
  if (summed) return true;
  if (summed.error().code == Code::unavailable) return false;
  return summed.error();
}

}  // namespace

Checked<std::uint64_t> parse_bytes(std::string_view option, const std::string& text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  std::uint64_t unit = 1;
  if (end - parsed.ptr == 1) {
    switch (*parsed.ptr) {
      case 'k':
      case 'K': unit = std::uint64_t{1} << 10; break;
      case 'm':
      case 'M': unit = std::uint64_t{1} << 20; break;
      case 'g':
      case 'G': unit = std::uint64_t{1} << 30; break;
      default: unit = 0;
    }
  }
  const bool good = parsed.ec == std::errc{} && end - parsed.ptr <= 1 && unit != 0 &&
                    value <= std::numeric_limits<std::uint64_t>::max() / unit;
  if (good) return value * unit;
  return invalid(fmt::format("{} '{}'; accepted: bytes, such as 8, 64K, 32M or 1G", option,
                             text.substr(0, 64)));
}

std::vector<std::uint64_t> counts_of(const AllreduceOptions& options) {
  std::vector<std::uint64_t> counts;
  for (std::uint64_t bytes = options.bytes_min; bytes <= options.bytes_max;
       bytes *= options.factor) {
    counts.push_back(bytes / sizeof(float));
  }
  return counts;
}

Verdict check_allreduce(const Process& process, const AllreduceOptions& options,
                        std::span<const NamedCodec> codecs) {
  SLUICE_TRY(check_options(options));
  if (process.launched == 0 && (options.workers < 1 || options.workers > kWorkerThreadsMax)) {
    return invalid(fmt::format("--workers {} on carrier '{}'; accepted: 1 to {}", options.workers,
                               process.carrier->name, kWorkerThreadsMax));
  }
  SLUICE_TRY_ASSIGN(const NamedFeedback feedback, make_feedback(options.feedback));
  for (const NamedCodec& codec : codecs) {
    SLUICE_TRY(check_feedback(feedback, codec.codec->traits(options.workers), codec.spec));
    for (const std::uint64_t count : counts_of(options)) {
      const Tensor tensor = tensor_of(options.data, count);
      SLUICE_TRY(codec.codec->accepts({&tensor, 1}, options.workers));
    }
  }
  return Nothing{};
}

Checked<AllreduceBench> prepare_allreduce(const Process& process, AllreduceOptions options,
                                          std::span<const NamedCodec> codecs) {
  WorldOptions world_options;
  world_options.workers = options.workers;
  SLUICE_TRY_ASSIGN(const auto world, process.carrier->make_world(world_options));
  SLUICE_TRY(check_alike(*world, digest_of(options, codecs)));
  AllreduceBench bench{&process, std::move(options), false};
  SLUICE_TRY_ASSIGN(bench.has_plain, has_plain(*world));
  return bench;
}

Verdict bench_allreduce(const AllreduceBench& bench, std::span<const NamedCodec> codecs,
                        const std::function<void(const AllreduceRow&)>& take) {
  Bench measuring(bench);
  for (const std::uint64_t count : counts_of(bench.options)) {
    for (const NamedCodec& codec : codecs) {
      SLUICE_TRY_ASSIGN(const AllreduceRow row, measuring.codec_row(codec, count));
      take(row);
    }
    if (!bench.has_plain) continue;
    SLUICE_TRY_ASSIGN(const AllreduceRow row, measuring.plain_row(count));
    take(row);
  }
  return Nothing{};
}

}  // namespace sluice::cli
