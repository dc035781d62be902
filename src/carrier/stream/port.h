// One worker's end of carrier `stream`: the protocol's worker on sockets of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "carrier/stream/socket.h"
#include "protocol/worker.h"
#include "round/carrier.h"

namespace sluice::stream {

class Port final : public Carrier {
  struct Path;
  struct Token {};  // open() makes ports

 public:
  // Opens a socket to every aggregator. The frame size of the options is the wanted most. The bell
  // is the caller's descriptor and outlives the port, -1: none. Once it is readable, whoever waits
  // here gets Code::unavailable: so another thread ends a wait.
  static Checked<std::unique_ptr<Port>> open(const protocol::LinkOptions& options,
                                             std::span<const SocketAddress> aggregators,
                                             int bell = -1);
  Port(Token, const protocol::LinkOptions& options, std::vector<std::unique_ptr<Path>> paths,
       int bell);
  ~Port() override;

  // Until all workers have joined at all aggregators. Code::timeout says who is missing, and names
  // an aggregator that does not answer within seconds. Code::unavailable after the bell says who is
  // missing too.
  Verdict join(std::chrono::nanoseconds timeout);
  // As far as it goes without waiting: for those who join many ports on one thread.
  Checked<bool> try_join();

  Status post(const Ticket& ticket, const Place& place, std::span<const Round> step) override;
  Result<std::span<const Answer>> take(const Ticket& ticket) override;
  Status wait(std::chrono::nanoseconds timeout) override;
  void abandon() override;
  std::string explain(const Ticket& ticket) override;

  [[nodiscard]] protocol::LinkCounters counters() const { return worker_.counters(); }
  [[nodiscard]] const std::string& refusal() const { return worker_.refusal(); }

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

  // Receives and sends what is there and due.
  Status pump();
  void send_due();
  // An error once an aggregator has not answered for too long.
  Verdict check_answers(protocol::Time waited, bool is_last_look) const;

  protocol::Worker worker_;
  std::vector<std::unique_ptr<Path>> paths_;
  std::vector<protocol::Outgoing> outgoing_;
  int bell_;
};

}  // namespace sluice::stream
