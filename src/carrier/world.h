// A world: the workers of a job that live in this process, each with its end of the carrier. It is
// what tests, the command line and embedders start. On `local` all workers of the job are here; on
// a carrier between processes just one is.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "round/carrier.h"

namespace sluice {

struct WorldOptions {
  std::uint32_t workers = 1;
  std::uint32_t window = 4;  // exchanges a worker has in flight, at most
  // The longest that the workers wait for each other, while the world is made and in each meeting.
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);
};

// What a world has counted since it was made; nothing where its carrier has no such thing.
struct WorldCounters {
  std::optional<std::uint64_t> retransmits;  // contributions that the workers here sent again
  // Of the aggregators in this process. It may lag behind by the batch that is being served.
  std::optional<double> aggregator_cpu_seconds;
};

// Ports belong to their workers' threads; all else is for one thread. A world outlives its workers.
class World {
 public:
  virtual ~World() = default;
  // The end of a rank that is here, which is asserted. Lives as long as the world.
  virtual Carrier& port(std::uint32_t rank) = 0;
  // Ranks of the workers in this process, ascending; never empty.
  [[nodiscard]] virtual std::span<const std::uint32_t> here() const = 0;
  // Seconds spent combining contributions, over all rounds so far.
  [[nodiscard]] virtual double combine_seconds() const = 0;
  // While no worker here is inside its port.
  [[nodiscard]] virtual WorldCounters counters() const { return {}; }
  // All processes meet, and this blocks until they do: each value becomes the largest of any
  // process. All bring as many values. Code::timeout names who did not come in time; nobody meets
  // in this world again.
  virtual Verdict meet(std::span<double> values) = 0;
  // The carrier's own float32 all-reduce, to compare with: values become the sums over processes.
  // Code::unavailable where there is none.
  virtual Verdict plain_sum(std::span<float> values) = 0;
};

// As CarrierInfo::make_world, or with what a carrier offers beyond that.
using WorldMaker = std::function<Checked<std::unique_ptr<World>>(const WorldOptions&)>;

// A carrier's row in the catalogue.
struct CarrierInfo {
  std::string_view name;
  std::string_view summary;
  std::uint32_t workers_max = 0;
  // How many workers the launcher started, 0 where the caller chooses (all are in one process).
  // Null where it is always the caller.
  Checked<std::uint32_t> (*launched)() = nullptr;
  // Blocks until the workers of other processes are there. Code::invalid_argument names an option
  // that this carrier does not accept. Never null.
  Checked<std::unique_ptr<World>> (*make_world)(const WorldOptions& options) = nullptr;
};

}  // namespace sluice
