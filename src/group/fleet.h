// Runs a step of every worker of a world in this process: a thread each, or all by one thread. A
// fleet belongs to one thread; it starts the others for the time of a step.
//
//   SLUICE_TRY_ASSIGN(const auto fleet, Fleet::make(options, codec, tensors));
//   SLUICE_TRY(fleet->step(step, [&](std::uint32_t rank) { return entries_of(rank); }));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "carrier/world.h"
#include "catalog/codecs.h"
#include "group/group.h"

namespace sluice {

enum class Staffing : std::uint8_t {
  threads,  // one per worker, up to kWorkerThreadsMax; a worker alone runs on the caller's
  stepped,  // the calling thread takes turns, up to kWorkersMax
};

// Threads while there may be that many.
Staffing staffing_for(std::uint32_t workers);

// Each worker reduces its entries, and this blocks until all are done. `entries` gives the entries
// of a group by its place in `groups`, which is the rank where all workers are here. With threads
// it is called on each worker's. The problem names the worker and the cause. With threads a
// worker's failure ends the others soon, and want of memory is Code::out_of_memory; stepped, it
// throws bad_alloc. After a failure the groups are of no more use.
Verdict run_step(Staffing staffing, std::span<const std::unique_ptr<Group>> groups,
                 std::uint64_t step,
                 const std::function<std::vector<BucketEntry>(std::uint32_t place)>& entries);

struct FleetOptions {
  WorldMaker make_world = nullptr;  // a carrier's
  // The same for every worker, with the number of workers in the job. The rank is set for each. The
  // window is cut to the chunks there are. Where workers are stepped it is one, since the chunks of
  // all of them are in memory at once.
  GroupOptions group = {};
  std::optional<Staffing> staffing = {};  // else as many workers as are here ask for
  // Puts something between a worker's group and its port, such as a tap that keeps what crosses.
  // The fleet owns it; the port outlives it.
  std::function<std::unique_ptr<Carrier>(Carrier& port, std::uint32_t rank)> wrap = nullptr;
};

// A world and the groups of the workers that are here.
class Fleet {
  struct Token {};  // lets make() alone call the constructor

 public:
  // The codec, and what the options point to, outlive the fleet. Takes all memory, and blocks until
  // the workers of other processes are there. Fails as make_world() and Group::make() do.
  static Checked<std::unique_ptr<Fleet>> make(const FleetOptions& options, const NamedCodec& codec,
                                              std::span<const Tensor> tensors);
  explicit Fleet(Token) {}

  // Every worker that is here reduces the entries of its rank; as run_step().
  Verdict step(std::uint64_t step,
               const std::function<std::vector<BucketEntry>(std::uint32_t rank)>& entries);

  [[nodiscard]] World& world() { return *world_; }
  // Ranks, ascending; groups() has the same order.
  [[nodiscard]] std::span<const std::uint32_t> here() const { return world_->here(); }
  [[nodiscard]] std::span<const std::unique_ptr<Group>> groups() const { return groups_; }

 private:
  Staffing staffing_ = Staffing::threads;
  std::unique_ptr<World> world_;
  std::vector<std::unique_ptr<Carrier>> wraps_;
  std::vector<std::unique_ptr<Group>> groups_;  // go first: they abandon what is in flight
};

}  // namespace sluice
