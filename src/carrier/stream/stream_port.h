// One worker's end of carrier `stream`: the protocol's worker on sockets of its own.
//
// As a Carrier it belongs to one thread; counters() may be called by any. Whatever receives may
// throw bad_alloc: then abandon() the port.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "carrier/stream/socket.h"
#include "protocol/worker.h"
#include "round/carrier.h"

namespace sluice::stream {

// Whether a port is served while nobody is in it. A worker that computes, or waits elsewhere for
// others, may be needed here by them: if the aggregator loses its memory, all have to join again.
enum class Caretaker : std::uint8_t { no, yes };

class Port final : public Carrier {
  struct Path;
  struct Token {};  // open() makes ports

 public:
  // Opens a socket to every aggregator, of at least one, and does not join yet. The frame size of
  // the options is the wanted most; Code::unavailable where the path takes too little. The bell is
  // the caller's descriptor and outlives the port, -1: none. Once it is readable, whoever waits
  // here gets Code::unavailable: so another thread ends a wait.
  static Checked<std::unique_ptr<Port>> open(const protocol::LinkOptions& options,
                                             std::span<const SocketAddress> aggregators,
                                             Caretaker caretaker, int bell = -1);
  Port(Token, const protocol::LinkOptions& options, std::vector<std::unique_ptr<Path>> paths,
       Caretaker caretaker, int bell);
  // With a caretaker it waits until nobody needs what this worker has, for some seconds at most.
  ~Port() override;

  // Before anything is posted. Blocks until all workers have joined at all aggregators.
  // Code::timeout says who is missing, and names an aggregator that does not answer within seconds.
  // Code::mismatch says why an aggregator refuses. Code::unavailable after the bell says who is
  // missing.
  Verdict join(std::chrono::nanoseconds timeout);
  // Several at once, in the time that the slowest takes. Asserts 130 sockets and bells at most.
  static Verdict join_all(std::span<Port* const> ports, std::chrono::nanoseconds timeout);
  // As far as it goes without waiting: for those who join many ports on one thread. True: all have
  // joined. Fails as join() does, but for time-out and bell.
  Checked<bool> try_join();

  Status post(const Ticket& ticket, const Place& place, std::span<const Round> leg) override;
  Result<std::span<const Answer>> take(const Ticket& ticket) override;
  Status wait(std::chrono::nanoseconds timeout) override;
  void abandon() override;
  std::string explain(const Ticket& ticket) override;

  // Summed over all aggregators. Waits for whoever is in the port, never for the network.
  [[nodiscard]] protocol::LinkCounters counters() const;

 private:
  struct Path {
    Path(Socket opened, const SocketAddress& aggregator, std::size_t frame_size)
        : socket(std::move(opened)),
          address(aggregator),
          receiver(socket, frame_size),
          sender(socket) {}
    Socket socket;
    SocketAddress address;
    bool received = false;  // anything
    Receiver receiver;
    Sender sender;
  };

  // These with the lock held.
  // Receives and sends what is there and due.
  Status pump();
  void send_due();
  [[nodiscard]] const std::string& refusal() const { return worker_.refusal(); }

  void keep();
  void leave();
  // Until something comes to any, the time is over, or a bell rings, which it says.
  static Result<bool> poll_until(std::span<Port* const> ports, protocol::Time until);
  // An error once an aggregator has not answered for too long.
  Verdict check_answers(protocol::Time waited, bool is_last_look) const;

  protocol::Worker worker_;
  std::vector<std::unique_ptr<Path>> paths_;
  std::vector<protocol::Outgoing> outgoing_;
  int bell_;
  mutable std::mutex mutex_;  // all that is above
  protocol::Time used_{};     // when somebody was here last
  Caretaker has_caretaker_;
  bool has_ended_ = false;
  std::condition_variable ended_;
  std::thread caretaker_;
};

}  // namespace sluice::stream
