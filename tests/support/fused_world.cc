#include "tests/support/fused_world.h"

#include <algorithm>
#include <vector>

#include "base/assert.h"
#include "base/limits.h"
#include "carrier/fused_port.h"
#include "tests/support/hall.h"

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

// One worker's ports: exchanges take them in turn, each travels by itself.
class Apart final : public Carrier {
 public:
  Apart(std::span<const std::unique_ptr<Hall>> halls, std::uint32_t rank, std::uint32_t workers) {
    for (const auto& hall : halls) {
      ports_.push_back(std::make_unique<FusedPort>(rank, workers, hall->of(rank)));
    }
  }

  Status post(const Ticket& ticket, const Place& place, std::span<const Round> leg) override {
    SLUICE_TRY(port(ticket).post(ticket, place, leg));
    SLUICE_TRY(port(ticket).flush());
    last_ = std::max(last_, ticket.sequence + 1);
    return ok();
  }
  Result<std::span<const Answer>> take(const Ticket& ticket) override {
    return port(ticket).take(ticket);
  }
  Result<bool> flush() override {
    bool moved = false;
    for (const auto& one : ports_) {
      if (!one->is_sending()) continue;
      SLUICE_TRY_ASSIGN(const bool went, one->flush());
      moved = moved || went;
    }
    return moved;
  }
  // For the oldest: all ranks come to it.
  Status wait(std::chrono::nanoseconds timeout) override {
    const std::uint64_t first = last_ < ports_.size() ? 0 : last_ - ports_.size();
    for (std::uint64_t sequence = first; sequence < last_; ++sequence) {
      FusedPort& one = *ports_[sequence % ports_.size()];
      if (one.is_sending()) return one.wait(timeout);
    }
    return Error{Code::invalid_argument, 0, "nothing is sent"};
  }
  void abandon() override {
    for (const auto& one : ports_) one->abandon();
  }
  std::string explain(const Ticket& ticket) override { return port(ticket).explain(ticket); }

 private:
  FusedPort& port(const Ticket& ticket) { return *ports_[ticket.sequence % ports_.size()]; }

  std::vector<std::unique_ptr<FusedPort>> ports_;
  std::uint64_t last_ = 0;  // behind the last exchange that was posted
};

class FusedWorld final : public World {
 public:
  FusedWorld(std::uint32_t workers, std::size_t halls) {
    for (std::size_t i = 0; i < halls; ++i) halls_.push_back(std::make_unique<Hall>(workers));
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      if (halls == 1) {
        ports_.push_back(std::make_unique<FusedPort>(rank, workers, halls_[0]->of(rank)));
      } else {
        ports_.push_back(std::make_unique<Apart>(halls_, rank, workers));
      }
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
  std::vector<std::unique_ptr<Hall>> halls_;
  std::vector<std::unique_ptr<Carrier>> ports_;
  std::vector<std::uint32_t> here_;
};

Checked<std::unique_ptr<World>> make(const WorldOptions& options, std::size_t halls) {
  return std::unique_ptr<World>(std::make_unique<FusedWorld>(options.workers, halls));
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
