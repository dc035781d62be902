#include "carrier/mpi/mpi.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/assert.h"
#include "carrier/mpi/launch.h"
#include "carrier/mpi/library.h"
#include "carrier/mpi/mailbox.h"
#include "carrier/mpi/slot.h"

namespace sluice::mpi {
namespace {

constexpr std::uint32_t kWindowMax = 1024;    // two tags each for twice as many slots
constexpr int kMeetingTag = 4 * kWindowMax;   // and the next one: past those of all slots
constexpr std::size_t kReduceMax = 1u << 30;  // lanes of one MPI_Allreduce, counted in int

class Port final : public Carrier {
 public:
  Port(const Library& library, Comm comm, std::uint32_t rank, std::uint32_t workers,
       std::uint32_t window)
      : mpi_(library) {
    // Twice the window: a worker whose window starts after mine may be a whole window ahead.
    for (std::uint32_t i = 0; i < 2 * window; ++i) {
      slots_.push_back(
          std::make_unique<Slot>(library, comm, rank, workers, static_cast<int>(2 * i)));
    }
  }

  Status post(const Ticket& ticket, const Place& place, std::span<const Round> leg) override {
    SLUICE_TRY(check());
    return slot(ticket).post(ticket, place, leg);
  }

  Result<std::span<const Answer>> take(const Ticket& ticket) override {
    SLUICE_TRY(check());
    return slot(ticket).take(ticket);
  }

  // Polls: MPI moves bytes only while it is called.
  Status wait(std::chrono::nanoseconds timeout) override {
    SLUICE_TRY(check());
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (true) {
      for (const auto& slot : slots_) {
        if (!slot->is_busy()) continue;
        slot->advance();
        if (slot->is_ready()) return ok();
      }
      if (std::chrono::steady_clock::now() >= deadline) {
        return Error{Code::timeout, 0, "no answer in time"};
      }
      sched_yield();
    }
  }

  void abandon() override {
    for (auto& slot : slots_) {
      seconds_ += slot->combine_seconds();
      if (slot->is_settled()) continue;
      Slot::abandon(std::move(slot));
      give_up();
    }
    slots_.clear();
  }

  std::string explain(const Ticket& ticket) override {
    if (slots_.empty()) return "this end was abandoned";
    return may_call(mpi_) ? slot(ticket).explain(ticket) : "";
  }

  [[nodiscard]] double combine_seconds() const {
    double sum = seconds_;
    for (const auto& slot : slots_) sum += slot->combine_seconds();
    return sum;
  }

 private:
  [[nodiscard]] Status check() const {
    if (slots_.empty()) return Error{Code::unavailable, 0, "mpi: this end was abandoned"};
    return may_call(mpi_);
  }

  Slot& slot(const Ticket& ticket) { return *slots_[ticket.sequence % slots_.size()]; }

  const Library& mpi_;
  std::vector<std::unique_ptr<Slot>> slots_;  // empty: abandoned
  double seconds_ = 0;                        // of slots that are gone
};

Problem problem_of(const Library& library, const Error& error) {
  std::string message = error.what;
  if (error.detail != 0) message += ": " + error_text(library, error.detail);
  return {error.code, std::move(message)};
}

// Everybody tells everybody its values. After an error there is no next meeting: MPI may still have
// messages of this one in hand.
class Meeting {
 public:
  Meeting(const Library& library, Comm comm, std::uint32_t rank, std::uint32_t workers)
      : mpi_(library), rank_(rank), workers_(workers), mail_(library, comm, rank, workers) {}

  Verdict meet(std::span<double> values, std::chrono::nanoseconds timeout) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    if (const Status begun = begin(values); !begun) return problem_of(mpi_, begun.error());
    while (true) {
      const Result<bool> over = is_over();
      if (!over) return problem_of(mpi_, over.error());
      if (*over) return take_largest(values);
      if (std::chrono::steady_clock::now() >= deadline) {
        return Problem{Code::timeout, "mpi: meeting: " + mail_.missing()};
      }
      sched_yield();
    }
  }

 private:
  Status begin(std::span<const double> values) {
    // Two tags in turn: who has met everybody may be in the next meeting already, but not past it.
    mail_.open(kMeetingTag + static_cast<int>(count_++ % 2));
    sent_.assign(values.begin(), values.end());
    for (std::uint32_t i = 0; i < workers_; ++i) {
      SLUICE_TRY(mail_.send((rank_ + i) % workers_, std::as_bytes(std::span(sent_))));
    }
    return ok();
  }

  // Others wait for what this rank sends, and it leaves only while this rank is here.
  Result<bool> is_over() {
    SLUICE_TRY(mail_.receive());
    if (!mail_.all_here()) return false;
    return mail_.sends_are_done();
  }

  // In the order of ranks and as MPI_MAX compares, so that all get the same of NaN too.
  Verdict take_largest(std::span<double> values) const {
    for (std::uint32_t rank = 0; rank < workers_; ++rank) {
      const auto bytes = mail_.messages()[rank];
      if (bytes.size() != values.size_bytes()) {
        return Problem{Code::mismatch,
                       fmt::format("mpi: meeting: {} values, but worker {} has {}", values.size(),
                                   rank, bytes.size() / sizeof(double))};
      }
      for (std::size_t i = 0; i < values.size(); ++i) {
        double value = 0;
        std::memcpy(&value, bytes.data() + i * sizeof(value), sizeof(value));
        values[i] = rank != 0 && values[i] > value ? values[i] : value;
      }
    }
    return Nothing{};
  }

  const Library& mpi_;
  std::uint32_t rank_;
  std::uint32_t workers_;
  Mailbox mail_;
  std::uint64_t count_ = 0;
  std::vector<double> sent_;
};

class MpiWorld final : public World {
 public:
  MpiWorld(const Library& library, Comm comm, std::uint32_t rank, const WorldOptions& options)
      : mpi_(library),
        comm_(comm),
        here_{rank},
        port_(library, comm, rank, options.workers, options.window),
        timeout_(options.timeout),
        meeting_(std::make_unique<Meeting>(library, comm, rank, options.workers)) {}
  ~MpiWorld() override {
    port_.abandon();
    if (!has_given_up() && may_call(mpi_)) mpi_.comm_free(&comm_);
  }

  Carrier& port(std::uint32_t rank) override {
    SLUICE_ASSERT(rank == here_[0]);
    return port_;
  }
  [[nodiscard]] std::span<const std::uint32_t> here() const override { return here_; }
  [[nodiscard]] double combine_seconds() const override { return port_.combine_seconds(); }

  Verdict meet(std::span<double> values) override {
    if (const Status allowed = may_call(mpi_); !allowed) return problem_of(mpi_, allowed.error());
    if (meeting_ == nullptr) return failure_;
    Verdict met = meeting_->meet(values, timeout_);
    if (met) return met;
    failure_ = met.error();
    keep(std::move(meeting_));
    give_up();
    return met;
  }
  // MPI's own sum waits for everybody without end, so the first one begins when everybody is there;
  // the others do not, since benchmarks time them.
  Verdict plain_sum(std::span<float> values) override {
    if (const Status allowed = may_call(mpi_); !allowed) return problem_of(mpi_, allowed.error());
    if (!has_summed_) SLUICE_TRY(meet({}));
    has_summed_ = true;
    while (!values.empty()) {
      const std::size_t count = std::min(values.size(), kReduceMax);
      const int code = mpi_.allreduce(mpi_.in_place, values.data(), static_cast<int>(count),
                                      mpi_.float32, mpi_.sum, comm_);
      if (code != 0) return Problem{Code::io, "mpi: MPI_Allreduce: " + error_text(mpi_, code)};
      values = values.subspan(count);
    }
    return Nothing{};
  }

 private:
  const Library& mpi_;
  Comm comm_;
  std::array<std::uint32_t, 1> here_;
  Port port_;
  std::chrono::nanoseconds timeout_;
  std::unique_ptr<Meeting> meeting_;  // none: the last one failed
  Problem failure_;                   // of that
  bool has_summed_ = false;
};

Problem refused(std::string message) { return {Code::invalid_argument, std::move(message)}; }

Verdict check_options(const WorldOptions& options) {
  if (options.window < 1 || options.window > kWindowMax) {
    return refused(fmt::format("window {}; mpi accepts 1 to {}", options.window, kWindowMax));
  }
  return Nothing{};
}

Checked<std::uint32_t> size_of(const Library& library) {
  int size = 0;
  if (const int code = library.comm_size(library.world, &size); code != 0) {
    return Problem{Code::io, "mpi: MPI_Comm_size: " + error_text(library, code)};
  }
  const auto workers = static_cast<std::uint32_t>(size);
  if (workers > kWorkersMax) {
    return refused(
        fmt::format("mpirun started {} workers; mpi accepts 1 to {}", workers, kWorkersMax));
  }
  SLUICE_TRY(check_claim(&std::getenv, workers));
  return workers;
}

// A communicator of a new world. A meeting comes first, because it names those who stay away.
Checked<Comm> comm_of_world(const Library& library, std::uint32_t rank, std::uint32_t workers,
                            std::chrono::nanoseconds timeout) {
  // One world after the other: all meet under the same tag.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  auto meeting = std::make_unique<Meeting>(library, library.own, rank, workers);
  if (const Verdict met = meeting->meet({}, timeout); !met) {
    keep(std::move(meeting));
    close(met.error());
    return met.error();
  }
  auto comm = duplicate(library, library.own, timeout);
  if (!comm) close(comm.error());
  return comm;
}

}  // namespace

Checked<std::uint32_t> launched() {
  SLUICE_TRY_ASSIGN(const Library* library, start());
  return size_of(*library);
}

Checked<std::unique_ptr<World>> make_world(const WorldOptions& options) {
  SLUICE_TRY(check_options(options));
  SLUICE_TRY_ASSIGN(const Library* library, start_together(options.timeout));
  SLUICE_TRY_ASSIGN(const std::uint32_t workers, size_of(*library));
  if (options.workers != workers) {
    return refused(fmt::format("{} workers, but mpirun started {}", options.workers, workers));
  }
  int number = 0;
  if (const int code = library->comm_rank(library->own, &number); code != 0) {
    return Problem{Code::io, "mpi: MPI_Comm_rank: " + error_text(*library, code)};
  }
  const auto rank = static_cast<std::uint32_t>(number);
  SLUICE_TRY_ASSIGN(Comm comm, comm_of_world(*library, rank, workers, options.timeout));
  return std::unique_ptr<World>(std::make_unique<MpiWorld>(*library, comm, rank, options));
}

}  // namespace sluice::mpi
