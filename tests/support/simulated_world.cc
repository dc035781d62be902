#include "tests/support/simulated_world.h"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/assert.h"
#include "protocol/aggregator.h"
#include "protocol/worker.h"
#include "sim/network.h"

namespace sluice::support {
namespace {

using protocol::Time;

// Until an answer comes, or another worker has its turn: it may be the one that is waited for.
constexpr int kEventsMax = 5000;

sim::Scenario scenario_of(std::uint32_t aggregators, double loss) {
  sim::Scenario scenario;
  scenario.seed = 11 + aggregators;
  scenario.aggregators = aggregators;
  scenario.weather = {.loss = loss,
                      .duplicate = loss,
                      .reorder = loss,
                      .delay = std::chrono::microseconds(100),
                      .jitter = std::chrono::milliseconds(5)};
  return scenario;
}

// The virtual cluster under all ports of a world.
class Cluster final : public protocol::Outbox {
 public:
  Cluster(const WorldOptions& options, std::uint32_t aggregators, double loss)
      : scenario_(scenario_of(aggregators, loss)),
        network_(scenario_, options.workers),
        posted_(options.workers, 0) {
    for (std::uint32_t i = 0; i < aggregators; ++i) {
      aggregators_.push_back(
          std::make_unique<protocol::Aggregator>(protocol::AggregatorOptions{.secret = {i, 1}}));
    }
    for (std::uint32_t rank = 0; rank < options.workers; ++rank) {
      workers_.push_back(std::make_unique<protocol::Worker>(
          protocol::WorkerOptions{.link = {.rank = rank,
                                           .workers = options.workers,
                                           .job = 1,
                                           .life = rank,
                                           .terms = "simulated",
                                           .channels = options.window,
                                           .slots = 8 * options.window},
                                  .aggregators = aggregators}));
    }
  }

  protocol::Worker& worker(std::uint32_t rank) { return *workers_[rank]; }
  void count_post(std::uint32_t rank) { ++posted_[rank]; }
  [[nodiscard]] bool have_all_posted(std::uint32_t rank) const {
    return *std::min_element(posted_.begin(), posted_.end()) >= posted_[rank];
  }

  void join() {
    while (!std::ranges::all_of(workers_, [](const auto& one) { return one->has_joined(); })) {
      advance();
    }
  }

  // One thing happens: a datagram arrives, or a worker's time has come.
  void advance() {
    Time next = network_.next();
    for (const auto& worker : workers_) next = std::min(next, std::max(now_, worker->wake()));
    if (next == protocol::kNever) return;
    now_ = next;
    if (network_.next() <= now_) receive(network_.take());
    for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
      if (workers_[rank]->wake() <= now_) flush(rank);
    }
  }

  void send(std::span<const protocol::Address> to,
            std::span<const std::byte, wire::kHeaderSize> header,
            std::span<const std::byte> payload) override {
    for (const protocol::Address& address : to) {
      network_.send({static_cast<std::uint32_t>(address.low), speaking_, false,
                     sim::joined(header, payload)},
                    now_);
    }
  }

 private:
  void receive(const sim::Datagram& datagram) {
    if (!datagram.up) {
      workers_[datagram.worker]->receive(datagram.aggregator, datagram.bytes, now_);
      return;
    }
    speaking_ = datagram.aggregator;
    aggregators_[speaking_]->receive({.low = datagram.worker}, datagram.bytes, now_, *this);
  }

  void flush(std::uint32_t rank) {
    std::array<protocol::Outgoing, 32> out;
    for (std::uint32_t i = 0; i < aggregators_.size(); ++i) {
      const std::size_t count = workers_[rank]->send(i, now_, out);
      for (std::size_t k = 0; k < count; ++k) {
        network_.send({rank, i, true, sim::joined(out[k].header, out[k].payload)}, now_);
      }
    }
  }

  sim::Scenario scenario_;
  Time now_{};
  sim::Network network_;
  std::vector<std::unique_ptr<protocol::Aggregator>> aggregators_;
  std::vector<std::unique_ptr<protocol::Worker>> workers_;
  std::uint32_t speaking_ = 0;
  std::vector<std::uint64_t> posted_;  // legs, by rank
};

class Port final : public Carrier {
 public:
  Port(Cluster& cluster, std::uint32_t rank)
      : cluster_(cluster), rank_(rank), worker_(cluster.worker(rank)) {}

  Status post(const Ticket& ticket, const Place&, std::span<const Round> leg) override {
    cluster_.count_post(rank_);
    return worker_.post(ticket, leg);
  }
  // Time goes on only when others have posted as much: the thread that would is this one.
  Result<std::span<const Answer>> take(const Ticket& ticket) override {
    for (int i = 0; i < kEventsMax && cluster_.have_all_posted(rank_); ++i) {
      auto answers = worker_.take(ticket);
      if (answers || answers.error().code != Code::pending) return answers;
      cluster_.advance();
    }
    return worker_.take(ticket);
  }
  Status wait(std::chrono::nanoseconds) override {
    cluster_.advance();
    return ok();
  }
  void abandon() override { worker_.abandon(); }
  std::string explain(const Ticket&) override { return worker_.explain(); }

 private:
  Cluster& cluster_;
  std::uint32_t rank_;
  protocol::Worker& worker_;
};

class SimulatedWorld final : public World {
 public:
  SimulatedWorld(const WorldOptions& options, std::uint32_t aggregators, double loss)
      : cluster_(options, aggregators, loss) {
    for (std::uint32_t rank = 0; rank < options.workers; ++rank) {
      ports_.emplace_back(cluster_, rank);
      here_.push_back(rank);
    }
    cluster_.join();
  }
  Carrier& port(std::uint32_t rank) override { return ports_[rank]; }
  [[nodiscard]] std::span<const std::uint32_t> here() const override { return here_; }
  [[nodiscard]] double combine_seconds() const override { return 0; }
  Verdict meet(std::span<double>) override { return Nothing{}; }
  Verdict plain_sum(std::span<float>) override {
    return Problem{Code::unavailable, "simulated has no all-reduce"};
  }

 private:
  Cluster cluster_;
  std::vector<Port> ports_;
  std::vector<std::uint32_t> here_;
};

template <std::uint32_t kAggregators, int kLossPercent>
Checked<std::unique_ptr<World>> make(const WorldOptions& options) {
  return std::unique_ptr<World>(
      std::make_unique<SimulatedWorld>(options, kAggregators, kLossPercent / 100.0));
}

template <std::uint32_t kAggregators, int kLossPercent>
constexpr CarrierInfo row(std::string_view name) {
  return {.name = name,
          .summary = "",
          .workers_max = 64,
          .make_world = &make<kAggregators, kLossPercent>};
}

}  // namespace

const std::array<CarrierInfo, 5> kSimulated{
    row<1, 0>("1 aggregator"), row<1, 20>("1 aggregator, 20 % loss"),
    row<2, 1>("2 aggregators, 1 % loss"), row<3, 0>("3 aggregators"),
    row<3, 20>("3 aggregators, 20 % loss")};

}  // namespace sluice::support
