// The network of a simulation: datagrams that are on their way. One thread. Fate follows from the
// scenario's seed and the order of sends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <span>
#include <vector>

#include "sim/dice.h"
#include "sim/scenario.h"

namespace sluice::sim {

// Workers are numbered through. A process has one for each of its jobs; they follow each other.
struct Datagram {
  std::uint32_t worker = 0;
  std::uint32_t aggregator = 0;
  bool up = true;
  std::vector<std::byte> bytes;
};

// Header and payload in one.
std::vector<std::byte> joined(std::span<const std::byte> header,
                              std::span<const std::byte> payload);

// How many seats a process has: one in each of its jobs.
std::uint32_t seats_of(const Scenario& scenario);

class Network {
 public:
  // The scenario outlives it.
  Network(const Scenario& scenario, std::uint32_t processes);

  // The datagram arrives, once or twice, or is lost. Worker and aggregator are of the scenario;
  // times never go backwards.
  void send(Datagram datagram, Time now);
  // When the next datagram arrives; kNever: nothing is on its way.
  [[nodiscard]] Time next() const;
  // The datagram that arrives next. There is one.
  Datagram take();

  // Datagrams so far; copies do not count.

  [[nodiscard]] std::uint64_t sent() const { return sent_; }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  struct Flying {
    Time at{};
    std::uint64_t number = 0;  // first sent, first there, where times are equal
    Datagram datagram;
    friend bool operator>(const Flying& a, const Flying& b) {
      return a.at != b.at ? a.at > b.at : a.number > b.number;
    }
  };

  [[nodiscard]] bool is_cut(std::uint32_t process, Time now) const;
  [[nodiscard]] bool is_too_large(const Datagram& datagram) const;
  // When the link at one end has sent it, or nothing where its queue is full.
  std::optional<Time> through(Time& free_at, std::size_t size, std::size_t queue, Time now) const;

  const Scenario& scenario_;
  Dice dice_;
  std::vector<Time> process_links_;  // when each is free: up, down, up, …
  std::vector<Time> aggregator_links_;
  std::priority_queue<Flying, std::vector<Flying>, std::greater<>> flying_;
  std::uint64_t sent_ = 0;
  std::uint64_t lost_ = 0;
};

}  // namespace sluice::sim
