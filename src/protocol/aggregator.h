// The aggregator's side: jobs by name, slots leased to them. No I/O, no clock, no thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "protocol/counters.h"
#include "protocol/job.h"
#include "protocol/outbox.h"
#include "protocol/ring_rule.h"
#include "protocol/slot_rule.h"
#include "protocol/time.h"
#include "wire/frame.h"

namespace sluice::protocol {

struct AggregatorOptions {
  std::uint32_t jobs_max = 64;
  std::uint32_t slots_max = 8192;             // of all jobs together
  std::size_t memory_max = std::size_t{1} << 30;  // of all slots of all jobs
  std::uint32_t frame_size = 9000;            // the largest datagram that is taken
  std::size_t receive_buffer = 4u << 20;      // of the socket: what workers may have on their way
  // A job of which nothing was heard for so long is forgotten. Its workers join again when they
  // come back, and bring what they need.
  Time lease = std::chrono::seconds(60);
  std::uint64_t seed = 0;  // of epochs: another one at every start
  SlotRule rule = &slot_rule;
  RingRule ring_rule = &protocol::ring_rule;
};

// What can change while jobs run: those that are here keep what they have.
struct AggregatorLimits {
  std::uint32_t jobs_max;
  std::uint32_t slots_max;
  std::size_t memory_max;
  Time lease;
};

class Aggregator {
 public:
  explicit Aggregator(const AggregatorOptions& options);

  // A datagram from outside: whatever it holds, the worst it does is to be counted and dropped.
  void receive(const Address& from, std::span<const std::byte> datagram, Time now, Outbox& out);

  // Takes no new jobs from here on; those that are here go on.
  void drain() { is_draining_ = true; }

  void set_limits(const AggregatorLimits& limits);

  // Forgets jobs that are over. Call it now and then.
  void expire(Time now);

  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] std::size_t jobs() const { return jobs_.size(); }
  [[nodiscard]] std::uint32_t slots_leased() const;
  // For a person.
  [[nodiscard]] std::vector<JobReport> reports() const;

 private:
  void join(const wire::Frame& frame, const Address& from, Time now, Outbox& out);
  [[nodiscard]] std::size_t memory_size() const;
  void tell_gone(const wire::Header& header, const Address& from, Outbox& out);
  void refuse(const wire::Header& header, const Address& from, const std::string& why,
              Outbox& out);

  AggregatorOptions options_;
  Counters counters_;
  std::uint64_t epochs_ = 0;  // made so far
  bool is_draining_ = false;
  std::map<std::uint64_t, std::unique_ptr<Job>> jobs_;
};

}  // namespace sluice::protocol
