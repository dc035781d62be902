#include "apps/sluice/bench/bench_lossless.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>

#include "apps/sluice/bench/bench_codec.h"
#include "apps/sluice/process/terminal.h"
#include "apps/sluice/reduce/agreement.h"
#include "base/exact_sum.h"
#include "base/limits.h"
#include "carrier/local/local.h"
#include "group/fleet.h"

namespace sluice::cli {
namespace {

constexpr std::uint64_t kSteps = 2;
constexpr std::uint64_t kCountMax = std::uint64_t{1} << 30;
constexpr std::string_view kName = "lossless";

Problem invalid(std::string message) { return Problem{Code::invalid_argument, std::move(message)}; }

Verdict check(const LosslessOptions& options) {
  if (options.count < 1 || options.count > kCountMax) {
    return invalid(fmt::format("--count {}; accepted: 1 to {}", options.count, kCountMax));
  }
  for (const std::uint32_t workers : options.workers) {
    if (workers >= 1 && workers <= 64) continue;
    return invalid(fmt::format("--workers {}; accepted: 1 to 64", workers));
  }
  if (options.repetitions < 7 || options.repetitions > 1001) {
    return invalid(fmt::format("--repetitions {}; accepted: 7 to 1001", options.repetitions));
  }
  if (options.chunk < 1 || options.chunk > kLanesMax) {
    return invalid(fmt::format("--chunk {}; accepted: 1 to {}", options.chunk, kLanesMax));
  }
  return Nothing{};
}

// What one worker of a codec sent, received and counted, from the first step on.
struct Totals {
  Stats stats;
  std::vector<std::uint64_t> counts;
};

std::vector<Totals> totals_of(const Fleet& fleet) {
  std::vector<Totals> totals;
  for (const auto& group : fleet.groups()) {
    totals.push_back({group->stats(), {group->counts().begin(), group->counts().end()}});
  }
  return totals;
}

// A codec's groups on `local`, and what is known of their last step.
struct Contender {
  const NamedCodec* codec = nullptr;
  std::unique_ptr<Fleet> fleet;
  std::vector<Totals> before;
  std::uint64_t wrong = 0;
};

// One point of the sweep: all codecs reduce the same gradients.
class Point {
 public:
  Point(const LosslessOptions& options, const Sparsity& sparsity, std::uint32_t workers)
      : options_(options),
        data_{BenchData::Kind::sparse, sparsity},
        workers_(workers),
        tensor_(tensor_of(data_, options.count)),
        gradients_(workers, std::vector<float>(options.count)),
        means_(workers, std::vector<float>(options.count)),
        exact_(options.count),
        by_f32_(options.count) {}

  // The rows of `codecs`, of which the last is f32 and has none.
  Checked<std::vector<LosslessRow>> run(std::span<const NamedCodec> codecs) {
    SLUICE_TRY(connect(codecs));
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      make_gradients(step);
      SLUICE_TRY(reduce(contenders_.back(), step));
      by_f32_ = means_.front();
      for (std::size_t i = 0; i + 1 < contenders_.size(); ++i) {
        SLUICE_TRY(reduce(contenders_[i], step));
        judge(contenders_[i]);
      }
    }
    std::vector<LosslessRow> rows;
    for (std::size_t i = 0; i + 1 < contenders_.size(); ++i) rows.push_back(row_of(contenders_[i]));
    SLUICE_TRY(time(codecs, rows));
    return rows;
  }

 private:
  Verdict connect(std::span<const NamedCodec> codecs) {
    FleetOptions fleet;
    fleet.make_world = local::kInfo.make_world;
    fleet.group.workers = workers_;
    fleet.group.seed = options_.seed;
    fleet.group.chunk_count = options_.chunk;
    for (const NamedCodec& codec : codecs) {
      contenders_.emplace_back();
      contenders_.back().codec = &codec;
      SLUICE_TRY_ASSIGN(contenders_.back().fleet,
                        Fleet::make(fleet, codec, std::span(&tensor_, 1)));
    }
    return Nothing{};
  }

  void make_gradients(std::uint64_t step) {
    std::vector<std::span<const float>> inputs;
    for (std::uint32_t rank = 0; rank < workers_; ++rank) {
      make_gradient(data_, {rank, workers_, options_.seed, step, options_.count}, gradients_[rank]);
      inputs.emplace_back(gradients_[rank]);
    }
    exact_mean(inputs, exact_);
    union_ = 0;
    for (std::uint64_t i = 0; i < options_.count; ++i) {
      union_ += std::any_of(inputs.begin(), inputs.end(),
                            [&](std::span<const float> input) { return input[i] != 0; });
    }
  }

  Verdict reduce(Contender& contender, std::uint64_t step) {
    contender.before = totals_of(*contender.fleet);
    SLUICE_TRY(contender.fleet->step(step, [&](std::uint32_t rank) {
      return std::vector<BucketEntry>{{0, gradients_[rank], means_[rank]}};
    }));
    return check_agreement(contender.fleet->world(), means_);
  }

  [[nodiscard]] bool judged_by_f32(const NamedCodec& codec) const {
    return !codec.codec->traits(workers_).lossless;
  }

  void judge(Contender& contender) const {
    const auto& right = judged_by_f32(*contender.codec) ? by_f32_ : exact_;
    for (std::size_t i = 0; i < right.size(); ++i) {
      contender.wrong +=
          std::bit_cast<std::uint32_t>(means_.front()[i]) != std::bit_cast<std::uint32_t>(right[i]);
    }
  }

  [[nodiscard]] LosslessRow row_of(const Contender& contender) const {
    LosslessRow row;
    row.codec = contender.codec->spec;
    row.options = options_;
    row.sparsity = data_.sparsity;
    row.workers = workers_;
    row.union_density = static_cast<double>(union_) / static_cast<double>(options_.count);
    row.wrong = contender.wrong;
    row.judged_by_f32 = judged_by_f32(*contender.codec);
    const std::vector<Totals> after = totals_of(*contender.fleet);
    row.rounds = after.front().stats.rounds - contender.before.front().stats.rounds;
    const auto mean = [&](auto get) {
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < after.size(); ++i) {
        sum += get(after[i]) - get(contender.before[i]);
      }
      return static_cast<double>(sum) / workers_;
    };
    row.bytes_up = mean([](const Totals& totals) { return totals.stats.bytes_up; });
    row.bytes_down = mean([](const Totals& totals) { return totals.stats.bytes_down; });
    for (std::size_t k = 0; k < contender.codec->info->counts.size(); ++k) {
      const std::string_view name = contender.codec->info->counts[k];
      const double all = mean([&](const Totals& totals) { return totals.counts[k]; });
      row.counts.emplace_back(name, name == "exceptions" ? all * workers_ : all);
    }
    return row;
  }

  Verdict time(std::span<const NamedCodec> codecs, std::vector<LosslessRow>& rows) const {
    BenchOptions bench;
    bench.count = options_.count;
    bench.workers = workers_;
    bench.repetitions = options_.repetitions;
    bench.chunk = options_.chunk;
    bench.data = to_text(data_.sparsity);
    bench.seed = options_.seed;
    SLUICE_TRY_ASSIGN(const std::vector<BenchRow> times, bench_codecs(codecs, bench));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].encode_seconds = times[i].encode_seconds;
      rows[i].decode_seconds = times[i].decode_seconds;
      rows[i].dense_seconds = times.back().encode_seconds + times.back().decode_seconds;
      rows[i].read_seconds = times[i].read_seconds;
      rows[i].memcpy_seconds = times[i].memcpy_seconds;
      rows[i].kernel = times[i].options.kernel;
    }
    return Nothing{};
  }

  const LosslessOptions& options_;
  BenchData data_;
  std::uint32_t workers_;
  Tensor tensor_;
  std::vector<std::vector<float>> gradients_;  // by rank, of the step
  std::vector<std::vector<float>> means_;      // by rank, of the codec at work
  std::vector<float> exact_;
  std::vector<float> by_f32_;
  std::uint64_t union_ = 0;  // coordinates that any worker has
  std::vector<Contender> contenders_;
};

double entropy(double density) {
  if (density <= 0 || density >= 1) return 0;
  return -density * std::log2(density) - (1 - density) * std::log2(1 - density);
}

bool has(std::string_view spec, std::string_view option) {
  return spec.find(option) != std::string_view::npos;
}

}  // namespace

std::vector<std::string> lossless_specs() {
  std::vector<std::string> specs{"lossless", "lossless:sum=float", "lossless:index=bitmap"};
  for (const Info& info : kCodecs) {
    if (info.name == "lhc") specs.emplace_back(info.name);
  }
  return specs;
}

Checked<std::vector<LosslessRow>> bench_lossless(std::vector<NamedCodec> codecs,
                                                 const LosslessOptions& options) {
  SLUICE_TRY(check(options));
  SLUICE_TRY_ASSIGN(NamedCodec dense, make_codec("f32"));
  codecs.push_back(std::move(dense));
  const std::size_t points =
      options.workers.size() * options.overlaps.size() * options.densities.size();
  std::vector<LosslessRow> rows;
  std::size_t done = 0;
  Progress progress("measuring: point");
  for (const std::uint32_t workers : options.workers) {
    for (const Overlap overlap : options.overlaps) {
      for (const double density : options.densities) {
        progress.update(done++, points);
        Point point(options, {density, overlap, options.pattern}, workers);
        SLUICE_TRY_ASSIGN(auto found, point.run(codecs));
        std::move(found.begin(), found.end(), std::back_inserter(rows));
      }
    }
  }
  return rows;
}

double reduction(const LosslessRow& row, double bytes) {
  return static_cast<double>(row.options.count) * sizeof(float) / bytes;
}

double reduction(const LosslessRow& row) {
  return reduction(row, std::max(row.bytes_up, row.bytes_down));
}

double Bound::at(double density, double units) const {
  const double index_bits = is_bitmap ? 1 : units * entropy(density);
  return 32 / (index_bits + buckets * 32 * density);
}

const Bound& bound_of(std::string_view spec) {
  if (spec.starts_with("lhc")) return kBitmapSketch;
  const bool is_bitmap = has(spec, "index=bitmap");
  if (has(spec, "mode=sketch")) return is_bitmap ? kBitmapSketch : kEntropySketch;
  return is_bitmap ? kBitmapPacked : kEntropyPacked;
}

double units_of(const LosslessRow& row) {
  return static_cast<double>(unit_count(row.sparsity.pattern, row.options.count)) /
         static_cast<double>(row.options.count);
}

Verdict check_exact(std::span<const LosslessRow> rows) {
  for (const LosslessRow& row : rows) {
    if (row.wrong == 0 || row.codec.substr(0, row.codec.find(':')) != kName) continue;
    return Problem{Code::mismatch, fmt::format("{} of {} coordinates are wrong: {}, {} workers, {}",
                                               row.wrong, kSteps * row.options.count, row.codec,
                                               row.workers, to_text(row.sparsity))};
  }
  return Nothing{};
}

}  // namespace sluice::cli
