#include "tests/support/fused_world.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "base/assert.h"
#include "base/limits.h"

namespace sluice::support {
namespace {

using Bytes = std::vector<std::byte>;
using Ranks = std::span<const std::unique_ptr<Fusion>>;

bool all_native(Ranks ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [&](const auto& fusion) {
    return fusion->native() != Fusion::Native::none && fusion->native() == ranks[0]->native() &&
           fusion->native_count() == ranks[0]->native_count();
  });
}

void all_reduce(Ranks ranks) {
  std::vector<std::int32_t> total(ranks[0]->native_count());
  std::vector<std::int32_t> one(total.size());
  ranks[0]->pack_native(total);
  for (const auto& fusion : ranks.subspan(1)) {
    fusion->pack_native(one);
    for (std::size_t i = 0; i < total.size(); ++i) {
      const auto sum = static_cast<std::uint32_t>(total[i]) + static_cast<std::uint32_t>(one[i]);
      total[i] = fusion->native() == Fusion::Native::max ? std::max(total[i], one[i])
                                                         : static_cast<std::int32_t>(sum);
    }
  }
  for (const auto& fusion : ranks) static_cast<void>(fusion->spread_native(total));
}

// What goes from each rank to `target`, back to back.
Bytes received_by(std::size_t target, Ranks ranks, std::span<const Bytes> sent,
                  std::vector<std::uint64_t>& sizes) {
  Bytes received;
  sizes.clear();
  for (std::size_t source = 0; source < ranks.size(); ++source) {
    const auto all = ranks[source]->send_sizes();
    std::uint64_t at = 0;
    for (std::size_t rank = 0; rank < target; ++rank) at += all[rank];
    const auto message = std::span(sent[source]).subspan(at, all[target]);
    received.insert(received.end(), message.begin(), message.end());
    sizes.push_back(message.size());
  }
  return received;
}

// n fusions that meet once per step.
class Assembly {
 public:
  Assembly(std::uint32_t workers, bool native) : native_(native), arrived_(workers, false) {
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      ranks_.push_back(std::make_unique<Fusion>(rank, workers));
    }
  }
  Fusion& of(std::uint32_t rank) { return *ranks_[rank]; }
  [[nodiscard]] bool arrived(std::uint32_t rank) const { return arrived_[rank]; }

  // Seals a rank's step; true when it was the last and the step is done.
  bool arrive(std::uint32_t rank) {
    if (!ranks_[rank]->seal()) return false;
    arrived_[rank] = true;
    if (!std::all_of(arrived_.begin(), arrived_.end(), [](bool is) { return is; })) return false;
    run_collectives(ranks_, native_);
    arrived_.assign(arrived_.size(), false);
    return true;
  }
  void abandon(std::uint32_t rank) {
    ranks_[rank]->abandon();
    arrived_[rank] = false;
  }

 private:
  bool native_;
  std::vector<std::unique_ptr<Fusion>> ranks_;
  std::vector<bool> arrived_;
};

// What all ports share.
struct Hall {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t steps = 0;  // done so far
  std::vector<std::unique_ptr<Assembly>> assemblies;

  void arrive(Assembly& assembly, std::uint32_t rank) {
    if (!assembly.arrive(rank)) return;
    ++steps;
    changed.notify_all();
  }
};

class Port final : public Carrier {
 public:
  Port(Hall& hall, std::uint32_t rank) : hall_(hall), rank_(rank) {}

  Status post(const Ticket& ticket, const Place& place, std::span<const Round> step) override {
    const std::lock_guard lock(hall_.mutex);
    asked_.reset();
    SLUICE_TRY(assembly(ticket).of(rank_).post(ticket, place, step));
    if (!together()) hall_.arrive(assembly(ticket), rank_);
    return ok();
  }

  Result<std::span<const Answer>> take(const Ticket& ticket) override {
    const std::lock_guard lock(hall_.mutex);
    Assembly& mine = assembly(ticket);
    auto answers = mine.of(rank_).take(ticket);
    if (answers || answers.error().code != Code::pending) {
      asked_.reset();
      return answers;
    }
    // Asked twice for the same, nothing done in between: all that can be posted is.
    if (!together() || mine.arrived(rank_)) return answers;
    if (asked_ != ticket.sequence) {
      if (!asked_) asked_ = ticket.sequence;
      return answers;
    }
    asked_.reset();
    hall_.arrive(mine, rank_);
    return mine.of(rank_).take(ticket);
  }

  Status wait(std::chrono::nanoseconds timeout) override {
    std::unique_lock lock(hall_.mutex);
    if (together() && !hall_.assemblies[0]->arrived(rank_)) return ok();
    const bool woken =
        hall_.changed.wait_for(lock, timeout, [this] { return seen_ < hall_.steps; });
    seen_ = hall_.steps;
    if (woken) return ok();
    return Error{Code::timeout, 0, "no answer in time"};
  }

  void abandon() override {
    const std::lock_guard lock(hall_.mutex);
    for (const auto& one : hall_.assemblies) one->abandon(rank_);
  }

  std::string explain(const Ticket& ticket) override {
    const std::lock_guard lock(hall_.mutex);
    return assembly(ticket).of(rank_).explain(ticket);
  }

 private:
  [[nodiscard]] bool together() const { return hall_.assemblies.size() == 1; }
  Assembly& assembly(const Ticket& ticket) {
    return *hall_.assemblies[ticket.sequence % hall_.assemblies.size()];
  }

  Hall& hall_;
  std::uint32_t rank_;
  std::uint64_t seen_ = 0;
  std::optional<std::uint64_t> asked_;  // the first exchange that got nothing since the last change
};

class FusedWorld final : public World {
 public:
  FusedWorld(std::uint32_t workers, std::size_t assemblies) {
    for (std::size_t i = 0; i < assemblies; ++i) {
      hall_.assemblies.push_back(std::make_unique<Assembly>(workers, assemblies == 1));
    }
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      ports_.push_back(std::make_unique<Port>(hall_, rank));
      here_.push_back(rank);
    }
  }
  Carrier& port(std::uint32_t rank) override { return *ports_.at(rank); }
  [[nodiscard]] std::span<const std::uint32_t> here() const override { return here_; }
  [[nodiscard]] double combine_seconds() const override { return 0; }
  Verdict meet(std::span<double> /*values*/) override { return Nothing{}; }
  Verdict plain_sum(std::span<float> /*values*/) override {
    return Problem{Code::unavailable, "fused: all workers share one process"};
  }

 private:
  Hall hall_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<std::uint32_t> here_;
};

Checked<std::unique_ptr<World>> make(const WorldOptions& options, std::size_t assemblies) {
  if (options.lost != nullptr) {
    return Problem{Code::invalid_argument, "fused: every worker is counted"};
  }
  return std::unique_ptr<World>(std::make_unique<FusedWorld>(options.workers, assemblies));
}

Checked<std::unique_ptr<World>> make_alone(const WorldOptions& options) {
  return make(options, std::size_t{2} * options.window);
}

Checked<std::unique_ptr<World>> make_together(const WorldOptions& options) {
  return make(options, 1);
}

}  // namespace

void run_collectives(Ranks ranks, bool native) {
  if (native && all_native(ranks)) return all_reduce(ranks);
  std::vector<Bytes> sent;
  for (const auto& fusion : ranks) {
    std::uint64_t size = 0;
    for (const std::uint64_t one : fusion->send_sizes()) size += one;
    fusion->pack(sent.emplace_back(size));
  }
  std::vector<std::uint64_t> sizes;
  bool good = true;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Bytes received = received_by(rank, ranks, sent, sizes);
    good = ranks[rank]->combine(received, sizes) && good;
  }
  if (!good) return;
  std::uint64_t stride = 0;
  for (const auto& fusion : ranks)
    stride = std::max<std::uint64_t>(stride, fusion->answer().size());
  Bytes gathered(stride * ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto answer = ranks[rank]->answer();
    std::copy(answer.begin(), answer.end(),
              gathered.begin() + static_cast<std::ptrdiff_t>(stride * rank));
    sizes[rank] = answer.size();
  }
  for (const auto& fusion : ranks) static_cast<void>(fusion->spread(gathered, stride, sizes));
}

const CarrierInfo kFusedAlone{
    .name = "fused_alone",
    .summary = "for tests",
    .workers_max = kWorkersMax,
    .make_world = &make_alone,
};

const CarrierInfo kFusedTogether{
    .name = "fused_together",
    .summary = "for tests",
    .workers_max = kWorkersMax,
    .make_world = &make_together,
};

}  // namespace sluice::support
