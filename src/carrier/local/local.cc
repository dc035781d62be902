#include "carrier/local/local.h"

#include <fmt/format.h>
#include <semaphore.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/float_environment.h"
#include "carrier/local/meeting.h"

namespace sluice::local {
namespace {

// Wakes a port's thread. POSIX rather than std::counting_semaphore, whose timed wait could sleep
// forever in the standard library of GCC 12.2.
class Bell {
 public:
  Bell() { SLUICE_ASSERT(sem_init(&semaphore_, 0, 0) == 0); }
  ~Bell() { sem_destroy(&semaphore_); }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  void ring() { sem_post(&semaphore_); }
  bool wait(std::chrono::nanoseconds timeout) {
    timespec until{};
    clock_gettime(CLOCK_MONOTONIC, &until);
    const std::int64_t nanoseconds = until.tv_nsec + timeout.count() % 1000000000;
    until.tv_sec += timeout.count() / 1000000000 + nanoseconds / 1000000000;
    until.tv_nsec = nanoseconds % 1000000000;
    int code = 0;
    do {
      code = sem_clockwait(&semaphore_, CLOCK_MONOTONIC, &until);
    } while (code != 0 && errno == EINTR);
    return code == 0;
  }

 private:
  sem_t semaphore_{};
};

// An exchange's place. Two meetings alternate: a worker a leg ahead meets the others in the next
// one and cannot get two ahead, since that needs everybody's answer to this leg.
struct Slot {
  explicit Slot(std::uint32_t workers) : meetings{Meeting(workers), Meeting(workers)} {}
  Meeting& of(std::uint64_t generation) { return meetings[generation % 2]; }

  std::array<Meeting, 2> meetings;
};

class LocalWorld;

class Port final : public Carrier {
 public:
  Port(LocalWorld& world, std::uint32_t rank, std::size_t slots) : world_(world), rank_(rank) {
    visits_.resize(slots);
    for (Visit& visit : visits_) visit.answers.reserve(kLegRoundsMax);
  }

  Status post(const Ticket& ticket, const Place& place, std::span<const Round> leg) override;
  Result<std::span<const Answer>> take(const Ticket& ticket) override;
  Status wait(std::chrono::nanoseconds timeout) override {
    if (bell.wait(timeout)) return ok();
    return Error{Code::timeout, 0, "no answer in time"};
  }
  void abandon() override;
  std::string explain(const Ticket& ticket) override;

  Bell bell;

 private:
  // What this worker knows of a slot.
  struct Visit {
    std::uint64_t generation = 0;
    std::uint64_t sequence = ~std::uint64_t{0};
    std::uint32_t leg = 0;
    bool open = false;  // posted, not taken
    std::span<const Round> rounds;
    std::vector<Answer> answers;
  };
  Visit& visit(const Ticket& ticket) { return visits_[ticket.sequence % visits_.size()]; }

  LocalWorld& world_;
  std::uint32_t rank_;
  std::vector<Visit> visits_;
  bool abandoned_ = false;
};

class LocalWorld final : public World {
 public:
  LocalWorld(const WorldOptions& options, Arrangement arrangement)
      : arrangement_(std::move(arrangement)) {
    // Twice the window: a worker whose window starts after mine may be a whole window ahead.
    const std::size_t count = std::size_t{2} * options.window;
    for (std::size_t i = 0; i < count; ++i)
      slots_.push_back(std::make_unique<Slot>(options.workers));
    for (std::uint32_t rank = 0; rank < options.workers; ++rank) {
      ports_.push_back(std::make_unique<Port>(*this, rank, count));
      here_.push_back(rank);
    }
  }

  Carrier& port(std::uint32_t rank) override { return *ports_.at(rank); }
  [[nodiscard]] std::span<const std::uint32_t> here() const override { return here_; }
  [[nodiscard]] double combine_seconds() const override {
    return static_cast<double>(combine_nanoseconds_.load()) * 1e-9;
  }
  Verdict meet(std::span<double> /*values*/) override { return Nothing{}; }
  Verdict plain_sum(std::span<float> /*values*/) override {
    return Problem{Code::unavailable,
                   "local: there is no all-reduce to compare with: all workers share one process"};
  }

  Slot& slot(std::uint64_t sequence) { return *slots_[sequence % slots_.size()]; }
  void close(Meeting& meeting, std::uint32_t leg) {
    const FloatEnvironment environment;
    const auto start = std::chrono::steady_clock::now();
    meeting.close(arrangement_, leg);
    combine_nanoseconds_ += (std::chrono::steady_clock::now() - start).count();
    for (const auto& port : ports_) port->bell.ring();
  }

 private:
  Arrangement arrangement_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<std::uint32_t> here_;
  std::atomic<std::int64_t> combine_nanoseconds_{0};
};

Status Port::post(const Ticket& ticket, const Place& place, std::span<const Round> leg) {
  if (place.on_device()) return Error{Code::unavailable, 0, "local: bytes on a device"};
  if (leg.empty() || leg.size() > kLegRoundsMax) {
    return Error{Code::invalid_argument, 0, "local: a leg has 1 to 32 rounds"};
  }
  if (abandoned_) return Error{Code::unavailable, 0, "local: this end was abandoned"};
  Visit& mine = visit(ticket);
  if (mine.open) return Error{Code::exhausted, 0, "local: more exchanges in flight than slots"};
  mine.leg = mine.sequence == ticket.sequence ? mine.leg + 1 : 0;
  mine.sequence = ticket.sequence;
  mine.rounds = leg;
  mine.open = true;
  ++mine.generation;
  Meeting& meeting = world_.slot(ticket.sequence).of(mine.generation);
  if (meeting.post(rank_, mine.generation, ticket, leg)) world_.close(meeting, mine.leg);
  return ok();
}

Result<std::span<const Answer>> Port::take(const Ticket& ticket) {
  Visit& mine = visit(ticket);
  if (!mine.open || mine.sequence != ticket.sequence) {
    return Error{Code::invalid_argument, 0, "local: nothing posted under this ticket"};
  }
  const Meeting& meeting = world_.slot(ticket.sequence).of(mine.generation);
  if (!meeting.is_closed(mine.generation)) return Error{Code::pending, 0, "not all have posted"};
  mine.open = false;
  if (meeting.error().code != Code::ok) return meeting.error();
  mine.answers.clear();
  for (std::size_t i = 0; i < mine.rounds.size(); ++i) {
    const auto from = meeting.down(i);
    const auto into = mine.rounds[i].down.first(from.size());
    std::copy(from.begin(), from.end(), into.begin());
    mine.answers.push_back({into, meeting.parts(i)});
  }
  return std::span<const Answer>(mine.answers);
}

void Port::abandon() {
  abandoned_ = true;
  for (Visit& mine : visits_) {
    if (!mine.open) continue;
    world_.slot(mine.sequence).of(mine.generation).withdraw(rank_, mine.generation);
    mine.open = false;
  }
}

std::string Port::explain(const Ticket& ticket) {
  const Visit& mine = visit(ticket);
  const Meeting& meeting = world_.slot(ticket.sequence).of(mine.generation);
  if (!meeting.is_closed(mine.generation)) return meeting.missing(mine.generation);
  return meeting.complaint();
}

// Of workers times window. Each takes about 3 KB, in extents too small for any of them to be
// refused.
constexpr std::uint64_t kPlacesMax = std::uint64_t{1} << 17;

Verdict check_options(const WorldOptions& options) {
  if (options.workers < 1 || options.workers > kWorkersMax) {
    return Problem{Code::invalid_argument,
                   fmt::format("{} workers; local accepts 1 to {}", options.workers, kWorkersMax)};
  }
  if (options.window < 1 || options.window > 1024) {
    return Problem{Code::invalid_argument,
                   fmt::format("window {}; local accepts 1 to 1024", options.window)};
  }
  if (std::uint64_t{options.workers} * options.window > kPlacesMax) {
    return Problem{
        Code::invalid_argument,
        fmt::format("{} workers with a window of {}; local accepts {} of both together, "
                    "which is a window of {} for so many workers",
                    options.workers, options.window, kPlacesMax, kPlacesMax / options.workers)};
  }
  return Nothing{};
}

Verdict check_order(std::vector<std::uint32_t> order, std::uint32_t workers) {
  if (order.empty()) return Nothing{};
  std::sort(order.begin(), order.end());
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    if (order.size() != workers || order[rank] != rank) {
      return Problem{
          Code::invalid_argument,
          fmt::format("the order of arrival must name each of the {} workers once", workers)};
    }
  }
  return Nothing{};
}

}  // namespace

Checked<std::unique_ptr<World>> make_world(const WorldOptions& options) {
  return make_world(options, {});
}

Checked<std::unique_ptr<World>> make_world(const WorldOptions& options, Arrangement arrangement) {
  SLUICE_TRY(check_options(options));
  SLUICE_TRY(check_order(arrangement.order, options.workers));
  return std::unique_ptr<World>(std::make_unique<LocalWorld>(options, std::move(arrangement)));
}

WorldMaker arranged(Arrangement arrangement) {
  return [arrangement = std::move(arrangement)](const WorldOptions& options) {
    return make_world(options, arrangement);
  };
}

}  // namespace sluice::local
