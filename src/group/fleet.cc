#include "group/fleet.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <optional>
#include <thread>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/limits.h"

namespace sluice {
namespace {

Problem problem_of(const Group& group, const Error& error) {
  const std::string cause = group.explain();
  return Problem{error.code, cause.empty() ? std::string(error.what) : cause};
}

using JobsOf = std::function<std::vector<BucketEntry>(std::uint32_t)>;

// One worker's step, and what became of it: no exception ends a thread. All that is thrown here is
// for want of memory.
Error run_one(Group& group, std::uint64_t step, const JobsOf& entries, std::uint32_t place,
              const std::atomic<bool>& stop) {
  try {
    const std::vector<BucketEntry> mine = entries(place);
    const Status started = group.start(step, mine);
    const Status finished = started ? group.finish(&stop) : started;
    return finished ? Error{} : finished.error();
  } catch (const std::exception&) {
    group.give_up();
    return {Code::out_of_memory, 0, "a worker ran out of memory"};
  }
}

// While it lives the calling thread is not cancelled: it has to join the others, and their memory
// is its own. A cancellation that comes meanwhile is seen afterwards.
class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = 0;
};

Problem no_thread(std::size_t place, std::size_t workers, Code code) {
  return {code,
          fmt::format("no thread for worker {} of {}: {}", place, workers,
                      code == Code::out_of_memory ? "out of memory" : "the system gives no more")};
}

Verdict run_threads(std::span<const std::unique_ptr<Group>> groups, std::uint64_t step,
                    const JobsOf& entries) {
  const NoCancellation no_cancellation;
  std::vector<Error> errors(groups.size());
  std::atomic<bool> stop = false;  // Nobody waits for a worker that has failed.
  const auto run = [&](std::size_t place) noexcept {
    errors[place] = run_one(*groups[place], step, entries, static_cast<std::uint32_t>(place), stop);
    if (errors[place].code != Code::ok) stop = true;
  };
  // The first worker is the caller's own: a carrier between processes has one worker here, and some
  // of their libraries must not be called from other threads.
  std::vector<std::thread> threads;
  threads.reserve(groups.size());
  Code refused = Code::unavailable;
  // Whatever is thrown: the threads that are there must be joined.
  try {
    for (std::size_t place = 1; place < groups.size(); ++place) threads.emplace_back(run, place);
  } catch (const std::bad_alloc&) {
    stop = true;
    refused = Code::out_of_memory;
  } catch (const std::exception&) {
    stop = true;
  }
  if (!groups.empty()) run(0);
  for (std::thread& thread : threads) thread.join();
  if (threads.size() + 1 < groups.size()) {
    return no_thread(threads.size() + 1, groups.size(), refused);
  }
  std::optional<Problem> elsewhere;
  for (std::size_t place = 0; place < groups.size(); ++place) {
    if (errors[place].code == Code::ok) continue;
    Problem problem = problem_of(*groups[place], errors[place]);
    if (!(errors[place] == Driver::kElsewhere)) return problem;
    if (!elsewhere) elsewhere = std::move(problem);
  }
  if (elsewhere) return *std::move(elsewhere);
  return Nothing{};
}

Verdict run_stepped(std::span<const std::unique_ptr<Group>> groups, std::uint64_t step,
                    const JobsOf& entries) {
  for (std::size_t place = 0; place < groups.size(); ++place) {
    const std::vector<BucketEntry> mine = entries(static_cast<std::uint32_t>(place));
    if (const Status started = groups[place]->start(step, mine); !started) {
      return problem_of(*groups[place], started.error());
    }
  }
  // Nothing else can happen while this thread is the only one, so some idle rounds are a hang. A
  // step may be several collectives, of which groups notice the last.
  constexpr std::uint64_t kIdleMax = 8;
  for (std::uint64_t idle = 0; idle < kIdleMax; ++idle) {
    bool all_finished = true;
    for (const auto& group : groups) {
      const std::uint64_t before = group->stats().rounds + group->stats().chunks;
      const Result<bool> finished = group->advance();
      if (!finished) return problem_of(*group, finished.error());
      all_finished = all_finished && *finished;
      if (group->stats().rounds + group->stats().chunks != before) idle = 0;
    }
    if (all_finished) return Nothing{};
  }
  return Problem{Code::timeout, "the workers wait for each other and none can go on"};
}

// A window beyond the chunks there are would only take memory. What world and group are about to
// refuse is left as it is.
std::uint32_t window_of(const GroupOptions& options, const Codec& codec,
                        std::span<const Tensor> tensors) {
  if (options.workers < 1 || options.workers > kWorkersMax) return options.window;
  if (!codec.accepts(tensors, options.workers)) return options.window;
  std::uint64_t chunks = 0;
  for (const Tensor& tensor : tensors) {
    const std::uint32_t chunk = fit_chunk(codec.plan(tensor, options.workers), options.chunk_count);
    chunks += divide_up(tensor.count(), std::uint64_t{chunk});
  }
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(options.window, std::max<std::uint64_t>(1, chunks)));
}

}  // namespace

Staffing staffing_for(std::uint32_t workers) {
  return workers <= kWorkerThreadsMax ? Staffing::threads : Staffing::stepped;
}

Verdict run_step(Staffing staffing, std::span<const std::unique_ptr<Group>> groups,
                 std::uint64_t step,
                 const std::function<std::vector<BucketEntry>(std::uint32_t place)>& entries) {
  return staffing == Staffing::threads ? run_threads(groups, step, entries)
                                       : run_stepped(groups, step, entries);
}

Checked<std::unique_ptr<Fleet>> Fleet::make(const FleetOptions& options, const NamedCodec& codec,
                                            std::span<const Tensor> tensors) {
  SLUICE_ASSERT(options.make_world != nullptr);
  auto fleet = std::make_unique<Fleet>(Token{});
  GroupOptions group = options.group;
  group.window = window_of(group, *codec.codec, tensors);
  SLUICE_TRY_ASSIGN(fleet->world_, options.make_world({.workers = group.workers,
                                                       .window = group.window,
                                                       .timeout = group.timeout}));
  const auto here = fleet->here();
  fleet->staffing_ =
      options.staffing.value_or(staffing_for(static_cast<std::uint32_t>(here.size())));
  if (fleet->staffing_ == Staffing::stepped) group.window = 1;
  for (const std::uint32_t rank : here) {
    group.rank = rank;
    Carrier* port = &fleet->world_->port(rank);
    if (options.wrap) {
      fleet->wraps_.push_back(options.wrap(*port, rank));
      port = fleet->wraps_.back().get();
    }
    SLUICE_TRY_ASSIGN(auto made, Group::make(group, codec.spec, *codec.codec, *port, tensors));
    fleet->groups_.push_back(std::move(made));
  }
  return fleet;
}

Verdict Fleet::step(std::uint64_t step,
                    const std::function<std::vector<BucketEntry>(std::uint32_t rank)>& entries) {
  return run_step(staffing_, groups_, step,
                  [&](std::uint32_t place) { return entries(here()[place]); });
}

}  // namespace sluice
