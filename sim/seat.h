// A seat of a process in one of its jobs: a worker of src/protocol, and where it is in its plan.
// One thread. What goes wrong is kept as violation(), and the seat goes on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "protocol/worker.h"
#include "sim/workload.h"

namespace sluice::sim {

struct SeatOptions {
  std::string name;  // for a person
  protocol::LinkOptions link;
  std::uint32_t aggregators = 1;
  // Between the sequence numbers of exchanges. As many as aggregators: the first piece of each
  // goes to the same one. Other than 1 only with one channel.
  std::uint32_t stride = 1;
};

class Seat {
 public:
  // The plan outlives this.
  Seat(const SeatOptions& options, std::span<const PlannedExchange> plan);

  // So many more exchanges of the plan may begin.
  void allow(std::uint64_t exchanges);
  // Begins and ends whatever can. Once the worker has joined, which is asserted.
  void go_on();
  // All that may begin are over.
  [[nodiscard]] bool is_idle() const { return base_ == limit_; }
  [[nodiscard]] bool is_done() const { return base_ == plan_.size(); }

  [[nodiscard]] protocol::Worker& worker() { return worker_; }
  [[nodiscard]] const protocol::Worker& worker() const { return worker_; }
  [[nodiscard]] const protocol::LinkOptions& link() const { return options_.link; }
  [[nodiscard]] std::uint32_t aggregators() const { return options_.aggregators; }
  [[nodiscard]] const std::string& name() const { return options_.name; }
  // Where it is and what it waits for.
  [[nodiscard]] std::string text() const;
  // The first thing that went wrong, or empty.
  [[nodiscard]] const std::string& violation() const { return violation_; }
  [[nodiscard]] std::uint64_t results() const { return results_; }  // legs compared

 private:
  struct Flight {
    bool busy = false;
    std::size_t step = 0;
    std::vector<Round> rounds;
    std::vector<std::vector<std::byte>> downs;
    std::vector<std::uint64_t> only;
  };

  [[nodiscard]] Flight& flight_of(std::uint64_t exchange);
  [[nodiscard]] Ticket ticket_of(std::uint64_t exchange) const;
  void post(std::uint64_t exchange);
  bool take(std::uint64_t exchange);
  void compare(std::uint64_t exchange, std::span<const Answer> answers);
  void check_counted(std::uint64_t exchange, const PlannedRound& round, const Answer& answer);
  void fail(const std::string& what);

  SeatOptions options_;
  std::span<const PlannedExchange> plan_;
  protocol::Worker worker_;
  std::uint64_t base_ = 0;   // the oldest exchange that is not over
  std::uint64_t next_ = 0;   // the next to begin
  std::uint64_t limit_ = 0;  // the first that may not begin yet
  std::vector<Flight> flights_;
  std::uint64_t results_ = 0;
  std::string violation_;
};

}  // namespace sluice::sim
