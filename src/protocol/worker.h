// The worker's side: exchanges in, frames out; frames in, answers out. No I/O, no clock, no thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "protocol/assembly.h"
#include "protocol/link.h"
#include "protocol/time.h"
#include "round/carrier.h"

namespace sluice::protocol {

struct WorkerOptions {
  LinkOptions link;  // alike for all aggregators; its channels are the exchanges in flight
  std::uint32_t aggregators = 1;
};

// Pieces of a step go to the aggregators in turn. Belongs to one thread.
class Worker {
 public:
  explicit Worker(const WorkerOptions& options);

  // --- for the network ---

  void receive(std::uint32_t aggregator, std::span<const std::byte> datagram, Time now);
  // Frames to one aggregator that are due, at most out.size(); they stay put until the next call.
  std::size_t send(std::uint32_t aggregator, Time now, std::span<Outgoing> out);
  // When send() has something for any aggregator, if nothing is received before.
  [[nodiscard]] Time wake() const;

  // --- for the carrier ---

  // All aggregators have all workers; exchanges may begin. False again never, as far as post() is
  // concerned: what is lost later is joined again meanwhile.
  [[nodiscard]] bool has_joined() const;
  [[nodiscard]] bool was_answered(std::uint32_t aggregator) const {
    return links_[aggregator].was_answered();
  }
  // As Carrier says. Code::lost: the job cannot go on, explain() says why.
  Status post(const Ticket& ticket, std::span<const Round> step);
  Result<std::span<const Answer>> take(const Ticket& ticket);
  // take() of some exchange has something.
  [[nodiscard]] bool is_any_ready() const { return ready_ != 0; }
  void abandon();
  // Nothing goes on: whoever waits gets the error now, who posts gets the first one. For the
  // protocol, and for whom an exception leaves it half done. Never allocates.
  void fail(const Error& error);
  // The first error; Code::ok while the job goes on.
  [[nodiscard]] const Error& failure() const { return failure_; }
  // Ends this end, and tells the aggregators. Goes on receiving and sending until has_left(): until
  // nobody needs what this worker has, for some seconds at most; at once where something is in
  // flight or has failed.
  void leave();
  [[nodiscard]] bool has_left() const;
  // Why the job cannot go on; empty while it can.
  [[nodiscard]] const std::string& refusal() const;
  [[nodiscard]] std::string explain() const;
  [[nodiscard]] LinkCounters counters() const;

 private:
  struct Channel {
    Channel(std::uint32_t workers, std::uint32_t rank) : assembly(workers, rank) {}
    Assembly assembly;
    bool busy = false;
    bool ready = false;
    Ticket ticket;
    std::uint32_t step = 0;  // of the exchange
    Error error;
  };

  void distribute(std::uint32_t channel);
  void finish(Channel& channel, const Error& error);
  void go_on(std::uint32_t number);

  WorkerOptions options_;
  std::vector<Link> links_;
  std::vector<Channel> channels_;
  std::size_t payload_max_ = 0;  // of all aggregators' frames; known when all have joined
  std::uint32_t ready_ = 0;
  std::uint32_t busy_ = 0;  // exchanges that are not ready
  Error failure_;           // after which nothing goes on
  bool abandoned_ = false;
};

}  // namespace sluice::protocol
