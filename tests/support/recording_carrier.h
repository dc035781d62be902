// A carrier that passes everything on, checks what a codec promised of its rounds, and remembers a
// digest of all bytes that went up.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "round/carrier.h"

namespace sluice::support {

class RecordingCarrier final : public Carrier {
 public:
  RecordingCarrier(Carrier& inner, std::uint32_t workers) : inner_(inner), workers_(workers) {}

  Status post(const Ticket& ticket, const Place& place, std::span<const Round> leg) override;
  Result<std::span<const Answer>> take(const Ticket& ticket) override;
  Result<bool> flush() override { return inner_.flush(); }
  Status wait(std::chrono::nanoseconds timeout) override { return inner_.wait(timeout); }
  void abandon() override { inner_.abandon(); }
  std::string explain(const Ticket& ticket) override { return inner_.explain(ticket); }

  // The first promise that was broken; empty: none.
  [[nodiscard]] const std::string& complaint() const { return complaint_; }
  // Of every byte sent, with its exchange, leg and round; independent of what was posted first.
  [[nodiscard]] std::uint64_t wire() const { return wire_; }
  [[nodiscard]] std::uint64_t bytes_up() const { return bytes_up_; }
  [[nodiscard]] std::uint64_t rounds() const { return rounds_; }

  // The first round that was posted; without its table.
  [[nodiscard]] const Reduction& first() const { return first_; }

  // Sizes of the answers to one exchange, by leg and round.
  [[nodiscard]] const std::vector<std::vector<std::size_t>>& down_sizes(std::uint64_t sequence) {
    return exchanges_[sequence].down_sizes;
  }

 private:
  struct Seen {
    std::uint32_t legs = 0;
    std::vector<std::vector<std::size_t>> down_sizes;
  };
  void complain(const Ticket& ticket, std::string what);
  void check_round(const Ticket& ticket, const Round& round);

  Carrier& inner_;
  std::uint32_t workers_;
  std::unordered_map<std::uint64_t, Seen> exchanges_;
  std::string complaint_;
  Reduction first_;
  std::uint64_t wire_ = 0;
  std::uint64_t bytes_up_ = 0;
  std::uint64_t rounds_ = 0;
};

}  // namespace sluice::support
