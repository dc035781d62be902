// A world: all workers of a job in one process, each with its end of the carrier. It is what tests,
// the command line and embedders start; a training process holds just one end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "round/carrier.h"

namespace sluice {

// One worker's contribution to one grain of one round, about to be counted.
struct Arrival {
  std::uint32_t rank = 0;
  std::uint64_t sequence = 0;
  std::uint32_t step = 0;   // of the exchange
  std::uint32_t round = 0;  // of the step
  std::uint32_t grain = 0;
};

struct WorldOptions {
  std::uint32_t workers = 1;
  std::uint32_t window = 4;  // exchanges a worker has in flight, at most
  // Whether a contribution is lost; not asked about rounds that name exactly whom they count.
  std::function<bool(const Arrival&)> lost = nullptr;
  std::vector<std::uint32_t> order = {};  // ranks in order of arrival; empty: ascending
  std::uint32_t fan_in = 0;               // workers per leaf of a two-level tree; 0: flat
};

class World {
 public:
  virtual ~World() = default;
  virtual Carrier& port(std::uint32_t rank) = 0;
  // Seconds spent combining contributions, over all rounds so far.
  [[nodiscard]] virtual double combine_seconds() const = 0;
};

// A carrier's row in the catalogue.
struct CarrierInfo {
  std::string_view name;
  std::string_view summary;
  std::uint32_t workers_max = 0;
  Checked<std::unique_ptr<World>> (*make_world)(const WorldOptions& options) = nullptr;
};

}  // namespace sluice
