// The worker's side: exchanges in, frames out; frames in, answers out.
//
//   network side   send() what is due, receive() what came, until wake()
//   carrier side   once has_joined(): post() a leg, take() its answers; at the end leave()
//
// No I/O, no clock, no thread. Belongs to one thread at a time, and times never go backwards. A
// worker has a link to every aggregator (link.h). The pieces of a leg go to the links in turn.
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
  LinkOptions link;               // the same for all aggregators; a channel per exchange in flight
  std::uint32_t aggregators = 1;  // at least 1; the same ones in the same order on all workers
};

class Worker {
 public:
  // Asserts that the options are in range.
  explicit Worker(const WorkerOptions& options);

  // --- for the network ---

  // An `aggregator` is below their number.
  //
  // A datagram from the aggregator's address, any bytes. One that ends the job, or that answers
  // wrongly, makes failure(). May throw bad_alloc; then call fail().
  void receive(std::uint32_t aggregator, std::span<const std::byte> datagram, Time now);
  // Writes frames to one aggregator that are due and says how many, at most out.size(). They stay
  // put until the next call. `out` has room for six frames at least (Link::send).
  std::size_t send(std::uint32_t aggregator, Time now, std::span<Outgoing> out);
  // When send() has something for any aggregator, if nothing is received before. May be in the
  // past; kNever: only a datagram or a call changes anything.
  [[nodiscard]] Time wake() const;

  // --- for the carrier ---

  // Whether all workers have joined at all aggregators, so that exchanges may begin. Once true it
  // stays true: links join again by themselves.
  [[nodiscard]] bool has_joined() const;
  // Whether the aggregator has ever answered.
  [[nodiscard]] bool was_answered(std::uint32_t aggregator) const {
    return links_[aggregator].was_answered();
  }
  // As Carrier says, once has_joined(). Code::lost: the job cannot go on, explain() says why.
  // Code::malformed: an aggregator answered wrongly, and the job cannot go on either. Answers live
  // until the next post() whose sequence has the same remainder by the number of channels. post()
  // may throw bad_alloc.
  Status post(const Ticket& ticket, std::span<const Round> leg);
  Result<std::span<const Answer>> take(const Ticket& ticket);
  // Whether take() of some exchange has answers or an error.
  [[nodiscard]] bool is_any_ready() const { return ready_ != 0; }
  // As Carrier says: from here on post() and take() give Code::unavailable.
  void abandon();
  // Nothing goes on: take() gives this error to whoever waits, post() gives the first error. For
  // the protocol, and for callers that an exception leaves half done. Never allocates.
  void fail(const Error& error);
  // The first error; Code::ok while the job goes on.
  [[nodiscard]] const Error& failure() const { return failure_; }
  // Abandons, and tells the aggregators. The caller goes on receiving and sending until has_left():
  // others may need what this worker has, for some seconds at most. Where something is in flight or
  // has failed, the next send() is the last.
  void leave();
  [[nodiscard]] bool has_left() const;
  // Why an aggregator says that the job cannot go on; empty while it can. Valid until receive().
  [[nodiscard]] const std::string& refusal() const;
  // What the links wait for, for a person; never empty. Allocates.
  [[nodiscard]] std::string explain() const;
  // Summed over all links.
  [[nodiscard]] LinkCounters counters() const;

 private:
  struct Channel {
    Channel(std::uint32_t workers, std::uint32_t rank) : assembly(workers, rank) {}
    Assembly assembly;
    bool busy = false;
    bool ready = false;
    Ticket ticket;
    std::uint32_t leg = 0;  // of the exchange
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
