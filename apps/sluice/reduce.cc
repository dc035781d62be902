#include "reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/bytes.h"
#include "base/limits.h"
#include "catalog/carriers.h"
#include "group/crew.h"
#include "group/group.h"
#include "table.h"
#include "terminal.h"
#include "wire_dump.h"

namespace sluice::cli {
namespace {

constexpr std::uint64_t kStepsMax = 1000000000;

Problem invalid(std::string message) { return Problem{Code::invalid_argument, std::move(message)}; }

std::string text_of(std::span<const std::uint64_t> shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
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

// A codec with a model-wide budget learns it between steps; on a first step the budget is over the
// chunk, so the file is one chunk as far as the codec's plan allows.
std::uint32_t chunk_wanted(const Traits& traits) {
  return traits.tally_count != 0 ? kLanesMax : GroupOptions{}.chunk_count;
}

// The workers of one run, their groups and what they got.
class Run {
 public:
  static Checked<std::unique_ptr<Run>> make(const NamedCodec& codec, const ReduceOptions& options,
                                            std::span<const Array> workers) {
    auto run = std::make_unique<Run>(options, workers);
    SLUICE_TRY(check_drop(options.drop, run->count()));
    SLUICE_TRY_ASSIGN(const CarrierInfo* const carrier, find_carrier(options.carrier));
    if (run->count() > carrier->workers_max) {
      return invalid(fmt::format("{} workers; carrier '{}' accepts 1 to {}", run->count(),
                                 carrier->name, carrier->workers_max));
    }
    SLUICE_TRY(run->connect(codec, *carrier));
    return run;
  }

  Run(const ReduceOptions& options, std::span<const Array> workers)
      : options_(options), workers_(workers) {
    means_.resize(workers.size());
    for (auto& mean : means_) mean.resize(workers.front().values.size());
  }

  Verdict step(std::uint64_t step) {
    SLUICE_TRY(run_step(crew_for(count()), groups_, step, [&](std::uint32_t rank) {
      return std::vector<Job>{{0, workers_[rank].values, means_[rank]}};
    }));
    if (dump_ != nullptr) SLUICE_TRY(dump_->end_step());
    return agree();
  }
  Verdict finish() { return dump_ == nullptr ? Verdict(Nothing{}) : dump_->finish(); }

  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(workers_.size()); }
  [[nodiscard]] std::span<const float> mean() const { return means_.front(); }
  [[nodiscard]] double combine_seconds() const { return world_->combine_seconds(); }
  [[nodiscard]] Stats stats() const {
    Stats stats = groups_.front()->stats();
    stats.encode_seconds = 0;
    stats.decode_seconds = 0;
    for (const auto& group : groups_) {
      stats.encode_seconds += group->stats().encode_seconds / count();
      stats.decode_seconds += group->stats().decode_seconds / count();
    }
    return stats;
  }

 private:
  Verdict connect(const NamedCodec& codec, const CarrierInfo& carrier) {
    const Tensor tensor = tensor_of(workers_.front());
    GroupOptions group;
    group.workers = count();
    group.seed = options_.seed;
    group.chunk_count = chunk_wanted(codec.codec->traits(count()));
    SLUICE_TRY_ASSIGN(group.feedback, parse_feedback(options_.feedback));
    const std::uint32_t chunk = fit_chunk(codec.codec->plan(tensor, count()), group.chunk_count);
    // Thousands of workers in one process hold their chunks in memory at once: one at a time then.
    // A window beyond the chunks there are would only take memory.
    const std::uint64_t chunks =
        std::max<std::uint64_t>(1, divide_up(tensor.count(), std::uint64_t{chunk}));
    group.window = crew_for(count()) == Crew::threads
                       ? static_cast<std::uint32_t>(std::min<std::uint64_t>(4, chunks))
                       : 1;
    WorldOptions world;
    world.workers = count();
    world.window = group.window;
    if (!options_.drop.empty()) {
      world.lost = [drop = options_.drop](const Arrival& arrival) {
        return std::find(drop.begin(), drop.end(), arrival.rank) != drop.end();
      };
    }
    SLUICE_TRY_ASSIGN(world_, carrier.make_world(world));
    if (options_.dump_wire) plan_dump(codec, tensor, chunk);
    for (group.rank = 0; group.rank < count(); ++group.rank) {
      SLUICE_TRY_ASSIGN(auto made, Group::make(group, codec.spec, *codec.codec, port(group.rank),
                                               std::span(&tensor, 1)));
      groups_.push_back(std::move(made));
    }
    return dump_ == nullptr ? Verdict(Nothing{}) : dump_->open();
  }

  // The exchanges of a step are the chunks of the one tensor, in order, as the group cuts it.
  void plan_dump(const NamedCodec& codec, const Tensor& tensor, std::uint32_t chunk) {
    WireDumpOptions dump;
    dump.folder = *options_.dump_wire;
    dump.codec = &codec;
    dump.seed = options_.seed;
    dump.step = options_.step;
    dump.steps = options_.steps;
    dump.workers = count();
    dump.shape = workers_.front().shape;
    dump.feedback = options_.feedback;
    for (std::uint64_t at = 0; at < tensor.count(); at += chunk) {
      const std::uint64_t left = tensor.count() - at;
      const auto size = static_cast<std::uint32_t>(std::min<std::uint64_t>(chunk, left));
      dump.pieces.push_back({tensor, at, size, 0, count()});
    }
    dump_ = std::make_unique<WireDump>(std::move(dump));
  }

  Carrier& port(std::uint32_t rank) {
    if (dump_ == nullptr) return world_->port(rank);
    taps_.push_back(dump_->tap(world_->port(rank), rank));
    return *taps_.back();
  }

  Verdict agree() const {
    for (std::uint32_t rank = 1; rank < count(); ++rank) {
      if (std::memcmp(means_[rank].data(), means_[0].data(), means_[0].size() * sizeof(float)) !=
          0) {
        return Problem{Code::mismatch,
                       fmt::format("worker {} decoded another mean than worker 0", rank)};
      }
    }
    return Nothing{};
  }

  const ReduceOptions& options_;
  std::span<const Array> workers_;
  std::unique_ptr<World> world_;
  std::unique_ptr<WireDump> dump_;  // if asked for
  std::vector<std::unique_ptr<Carrier>> taps_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<std::vector<float>> means_;
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
  if (files.empty()) return invalid("no files; accepted: one .npy per worker, 1 to 4096 of them");
  if (files.size() > kWorkersMax) {
    return invalid(fmt::format("{} files; accepted: one .npy per worker, 1 to {} of them",
                               files.size(), kWorkersMax));
  }
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

Checked<Reduced> reduce(const NamedCodec& codec, const ReduceOptions& options,
                        std::span<const Array> workers) {
  if (options.steps < 1 || options.steps > kStepsMax) {
    return invalid(fmt::format("--steps {}; accepted: 1 to {}", options.steps, kStepsMax));
  }
  SLUICE_TRY_ASSIGN(const auto run, Run::make(codec, options, workers));
  Reduced reduced;
  reduced.codec = codec.spec;
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
  reduced.reduce_seconds = run->combine_seconds();
  reduced.contributors = run->count() - static_cast<std::uint32_t>(options.drop.size());
  if (reduced.stats.rounds != 0) reduced.contributors = reduced.stats.contributors_min;
  reduced.accuracy = accuracy_of(reduced, workers);
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
  json["carrier"] = reduced.options.carrier;
  json["feedback"] = reduced.options.feedback;
  json["seed"] = reduced.options.seed;
  json["step"] = reduced.options.step;
  json["steps"] = reduced.options.steps;
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
