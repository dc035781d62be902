#include "apps/sluice/reduce/reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/sluice/files/wire_dump.h"
#include "apps/sluice/process/table.h"
#include "apps/sluice/process/terminal.h"
#include "apps/sluice/reduce/agreement.h"
#include "base/limits.h"
#include "carrier/local/local.h"
#include "group/fleet.h"
#include "group/group.h"

namespace sluice::cli {
namespace {

constexpr std::uint64_t kStepsMax = 1000000000;

Problem invalid(std::string message) { return Problem{Code::invalid_argument, std::move(message)}; }

std::string text_of(std::span<const std::uint64_t> shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

Verdict check_files(std::size_t files) {
  if (files == 0) return invalid("no files; accepted: one .npy per worker, 1 to 4096 of them");
  if (files <= kWorkersMax) return Nothing{};
  return invalid(
      fmt::format("{} files; accepted: one .npy per worker, 1 to {} of them", files, kWorkersMax));
}

// What takes all workers in one process.
Verdict check_alone(const Process& process, const ReduceOptions& options) {
  if (!options.drop.empty()) {
    return invalid(fmt::format("--drop {} on carrier '{}'; accepted: --drop on carrier 'local'",
                               options.drop.front(), process.carrier->name));
  }
  if (options.dump_wire) {
    return invalid(
        fmt::format("--dump-wire {} on carrier '{}'; accepted: --dump-wire on carrier 'local', "
                    "which has the same bytes",
                    *options.dump_wire, process.carrier->name));
  }
  return Nothing{};
}

Verdict check_drop(std::span<const std::uint32_t> drop, std::uint32_t workers) {
  for (const std::uint32_t rank : drop) {
    if (rank >= workers) {
      return invalid(
          fmt::format("--drop {} of {} workers; accepted: 0 to {}", rank, workers, workers - 1));
    }
    if (std::count(drop.begin(), drop.end(), rank) != 1) {
      return invalid(fmt::format("--drop {} is given twice", rank));
    }
  }
  if (drop.size() == workers) {
    return invalid(fmt::format("--drop {} leaves none of {} workers; accepted: at most {} of them",
                               fmt::join(drop, " --drop "), workers, workers - 1));
  }
  return Nothing{};
}

Tensor tensor_of(const Array& array) {
  const std::uint64_t rows = array.shape.size() < 2 ? 1 : array.shape.front();
  const std::uint64_t count = array.values.size();
  return {.id = 0, .rows = count == 0 ? 0 : rows, .cols = count == 0 ? 0 : count / rows};
}

// The workers of one run that are here, and what they got.
class Run {
 public:
  static Checked<std::unique_ptr<Run>> make(const Process& process, const NamedCodec& codec,
                                            const ReduceOptions& options,
                                            std::span<const Array> workers) {
    auto run = std::make_unique<Run>(options, workers);
    SLUICE_TRY(run->connect(*process.carrier, codec));
    return run;
  }

  Run(const ReduceOptions& options, std::span<const Array> workers)
      : options_(options), workers_(workers), means_(workers.size()) {}

  Verdict step(std::uint64_t step) {
    SLUICE_TRY(by_carrier(fleet_->step(step, [&](std::uint32_t rank) {
      return std::vector<BucketEntry>{{0, workers_[rank].values, means_[rank]}};
    })));
    if (dump_ != nullptr) SLUICE_TRY(dump_->end_step());
    return by_carrier(check_agreement(fleet_->world(), means_));
  }
  Verdict finish() { return dump_ == nullptr ? Verdict(Nothing{}) : dump_->finish(); }

  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(workers_.size()); }
  [[nodiscard]] std::span<const float> mean() const { return means_[fleet_->here().front()]; }
  [[nodiscard]] double combine_seconds() const { return fleet_->world().combine_seconds(); }
  [[nodiscard]] std::span<const std::uint64_t> counts() const {
    return fleet_->groups().front()->counts();
  }
  [[nodiscard]] Stats stats() const {
    const auto groups = fleet_->groups();
    Stats stats = groups.front()->stats();
    stats.encode_seconds = 0;
    stats.decode_seconds = 0;
    for (const auto& group : groups) {
      stats.encode_seconds += group->stats().encode_seconds / static_cast<double>(groups.size());
      stats.decode_seconds += group->stats().decode_seconds / static_cast<double>(groups.size());
    }
    return stats;
  }

 private:
  Verdict connect(const CarrierInfo& carrier, const NamedCodec& codec) {
    SLUICE_TRY_ASSIGN(const NamedFeedback feedback, make_feedback(options_.feedback));
    const Tensor tensor = tensor_of(workers_.front());
    FleetOptions fleet;
    SLUICE_TRY_ASSIGN(fleet.make_world, world_maker(carrier));
    fleet.group.workers = count();
    fleet.group.seed = options_.seed;
    fleet.group.chunk_count = chunk_count_of_one_call(codec.codec->traits(count()));
    fleet.group.timeout = std::chrono::seconds(options_.timeout_seconds);
    fleet.group.feedback = feedback.spec;
    if (options_.dump_wire) {
      // A decoder is told what the options mean with this feedback.
      settled_.info = codec.info;
      SLUICE_TRY_ASSIGN(settled_.spec, settle_spec(codec.spec, feedback.kind != nullptr));
      plan_dump(codec, tensor, fleet.group.chunk_count);
      fleet.wrap = [this](Carrier& port, std::uint32_t rank) { return dump_->tap(port, rank); };
    }
    SLUICE_TRY_ASSIGN(fleet_, by_carrier(Fleet::make(fleet, codec, std::span(&tensor, 1))));
    for (const std::uint32_t rank : fleet_->here()) means_[rank].resize(tensor.count());
    return dump_ == nullptr ? Verdict(Nothing{}) : dump_->open();
  }

  [[nodiscard]] Checked<WorldMaker> world_maker(const CarrierInfo& carrier) const {
    if (options_.drop.empty()) return WorldMaker(carrier.make_world);
    if (carrier.name != local::kInfo.name) {
      return invalid(fmt::format(
          "{} counts every worker: losing contributions (--drop) is for carrier 'local'",
          carrier.name));
    }
    return local::arranged({.lost = [drop = options_.drop](const local::Arrival& arrival) {
      return std::find(drop.begin(), drop.end(), arrival.rank) != drop.end();
    }});
  }

  // The exchanges of a step are the chunks of the one tensor, in order, as the group cuts it.
  void plan_dump(const NamedCodec& codec, const Tensor& tensor, std::uint32_t wanted) {
    const std::uint32_t chunk = fit_chunk(codec.codec->plan(tensor, count()), wanted);
    WireDumpOptions dump;
    dump.folder = *options_.dump_wire;
    dump.codec = &settled_;
    dump.seed = options_.seed;
    dump.step = options_.step;
    dump.steps = options_.steps;
    dump.workers = count();
    dump.shape = workers_.front().shape;
    dump.feedback = options_.feedback;
    for (std::uint64_t at = 0; at < tensor.count(); at += chunk) {
      const std::uint64_t left = tensor.count() - at;
      const auto size = static_cast<std::uint32_t>(std::min<std::uint64_t>(chunk, left));
      dump.extents.push_back({tensor, at, size, 0, count()});
    }
    dump_ = std::make_unique<WireDump>(std::move(dump));
  }

  const ReduceOptions& options_;
  std::span<const Array> workers_;
  std::vector<std::vector<float>> means_;  // by rank; empty where the worker is elsewhere
  NamedCodec settled_;                     // name and options, for the dump
  std::unique_ptr<WireDump> dump_;         // if asked for; outlives the taps of the fleet
  std::unique_ptr<Fleet> fleet_;
};

Accuracy accuracy_of(const Reduced& reduced, std::span<const Array> workers) {
  std::vector<std::span<const float>> counted;
  const auto& drop = reduced.options.drop;
  for (std::uint32_t rank = 0; rank < workers.size(); ++rank) {
    if (std::find(drop.begin(), drop.end(), rank) == drop.end()) {
      counted.emplace_back(workers[rank].values);
    }
  }
  return measure_accuracy(counted, reduced.average);
}

double bits_per_coordinate(const Reduced& reduced, std::uint64_t bytes) {
  const auto coordinates = static_cast<double>(reduced.count * reduced.options.steps);
  return coordinates == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / coordinates;
}

}  // namespace

Checked<std::vector<Array>> read_workers(const std::vector<std::string>& files) {
  std::vector<Array> workers;
  Progress progress("reading");
  for (const std::string& file : files) {
    progress.update(workers.size(), files.size());
    SLUICE_TRY_ASSIGN(Array array, read_npy(file));
    if (!workers.empty() && array.shape != workers.front().shape) {
      return invalid(fmt::format("{}: shape {} but {} has {}; accepted: the same shape for all",
                                 file, text_of(array.shape), files.front(),
                                 text_of(workers.front().shape)));
    }
    workers.push_back(std::move(array));
  }
  return workers;
}

Verdict check_reduce(const Process& process, const ReduceOptions& options, std::size_t files) {
  if (options.steps < 1 || options.steps > kStepsMax) {
    return invalid(fmt::format("--steps {}; accepted: 1 to {}", options.steps, kStepsMax));
  }
  SLUICE_TRY(check_timeout(options.timeout_seconds));
  SLUICE_TRY(make_feedback(options.feedback));
  SLUICE_TRY(check_files(files));
  SLUICE_TRY(check_launched(process, files, files == 1 ? "file" : "files"));
  if (files > process.carrier->workers_max) {
    return invalid(fmt::format("{} workers; carrier '{}' accepts 1 to {}", files,
                               process.carrier->name, process.carrier->workers_max));
  }
  if (process.launched != 0) return check_alone(process, options);
  return check_drop(options.drop, static_cast<std::uint32_t>(files));
}

Checked<Reduced> reduce(const Process& process, const NamedCodec& codec,
                        const ReduceOptions& options, std::span<const Array> workers) {
  SLUICE_TRY_ASSIGN(const auto run, Run::make(process, codec, options, workers));
  Reduced reduced;
  reduced.codec = codec.spec;
  reduced.carrier = process.carrier->name;
  reduced.options = options;
  reduced.workers = run->count();
  reduced.count = run->mean().size();
  reduced.average.assign(run->mean().size(), 0.0);
  Progress progress(fmt::format("reducing with {}: step", codec.spec));
  for (std::uint64_t t = 0; t < options.steps; ++t) {
    progress.update(t, options.steps);
    SLUICE_TRY(run->step(options.step + t));
    for (std::size_t i = 0; i < reduced.average.size(); ++i) reduced.average[i] += run->mean()[i];
  }
  SLUICE_TRY(run->finish());
  for (double& value : reduced.average) value /= static_cast<double>(options.steps);
  reduced.mean.assign(reduced.average.begin(), reduced.average.end());
  if (options.steps == 1) reduced.mean.assign(run->mean().begin(), run->mean().end());
  reduced.stats = run->stats();
  reduced.counts = named_counts(*codec.info, run->counts());
  reduced.reduce_seconds = run->combine_seconds();
  reduced.contributors = run->count() - static_cast<std::uint32_t>(options.drop.size());
  if (reduced.stats.rounds != 0) reduced.contributors = reduced.stats.contributors_min;
  if (process.speaks()) reduced.accuracy = accuracy_of(reduced, workers);
  return reduced;
}

Json to_json(const Reduced& reduced) {
  Json json;
  json["codec"] = reduced.codec;
  json["workers"] = reduced.workers;
  json["contributors"] = reduced.contributors;
  json["count"] = reduced.count;
  json["rounds"] = reduced.stats.rounds;
  json["wire_bytes_up"] = reduced.stats.bytes_up;
  json["wire_bytes_down"] = reduced.stats.bytes_down;
  json["bits_up"] = bits_per_coordinate(reduced, reduced.stats.bytes_up);
  json["bits_down"] = bits_per_coordinate(reduced, reduced.stats.bytes_down);
  json["nmse"] = number_or_null(reduced.accuracy.nmse);
  json["vnmse"] = number_or_null(reduced.accuracy.vnmse);
  json["max_abs_error"] = number_or_null(reduced.accuracy.max_abs_error);
  json["exact"] = reduced.accuracy.exact;
  json["encode_seconds"] = reduced.stats.encode_seconds;
  json["reduce_seconds"] = reduced.reduce_seconds;
  json["decode_seconds"] = reduced.stats.decode_seconds;
  json["not_finite"] = reduced.accuracy.not_finite;
  json["carrier"] = reduced.carrier;
  json["feedback"] = reduced.options.feedback;
  json["seed"] = reduced.options.seed;
  json["step"] = reduced.options.step;
  json["steps"] = reduced.options.steps;
  for (const auto& [name, count] : reduced.counts) json[std::string(name)] = count;
  if (const std::string mode = mode_of(reduced.counts); !mode.empty()) json["mode"] = mode;
  return json;
}

std::string to_text(std::span<const Reduced> rows) {
  if (rows.size() == 1) {
    std::vector<std::pair<std::string, std::string>> pairs;
    const Json json = to_json(rows.front());
    for (const auto& [key, value] : json.items()) {
      pairs.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
    }
    return format_pairs(pairs);
  }
  std::vector<std::vector<std::string>> cells;
  for (const Reduced& row : rows) {
    cells.push_back({row.codec, fmt::format("{:.2f}", bits_per_coordinate(row, row.stats.bytes_up)),
                     fmt::format("{:.2f}", bits_per_coordinate(row, row.stats.bytes_down)),
                     fmt::format("{}", row.stats.rounds), format_figure(row.accuracy.nmse),
                     format_figure(row.accuracy.vnmse), format_figure(row.accuracy.max_abs_error),
                     row.accuracy.exact ? "yes" : "no",
                     fmt::format("{:.1f}", row.stats.encode_seconds * 1e3),
                     fmt::format("{:.1f}", row.reduce_seconds * 1e3),
                     fmt::format("{:.1f}", row.stats.decode_seconds * 1e3)});
  }
  return format_table({"codec", "bits up", "bits down", "rounds", "nmse", "vnmse", "max error",
                       "exact", "encode ms", "reduce ms", "decode ms"},
                      cells);
}

}  // namespace sluice::cli
