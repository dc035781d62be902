// The aggregator's side: jobs by name, slots leased to them. No I/O, no clock, no thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/sip_hash.h"
#include "protocol/admission.h"
#include "protocol/counters.h"
#include "protocol/job.h"
#include "protocol/outbox.h"
#include "protocol/ring_rule.h"
#include "protocol/slot_rule.h"
#include "protocol/time.h"
#include "wire/frame.h"

namespace sluice::protocol {

struct AggregatorOptions {
  Limits limits = {};
  std::uint32_t frame_size = 9000;        // the largest datagram that is taken
  std::size_t receive_buffer = 4u << 20;  // of the socket: what workers may have on their way
  SipKey secret = {};                     // of cookies and epochs: another one at every start
  SlotRule rule = &slot_rule;
  RingRule ring_rule = &protocol::ring_rule;
};

class Aggregator {
 public:
  explicit Aggregator(const AggregatorOptions& options);

  // A datagram from outside: whatever it holds, the worst it does is to be counted and dropped. Who
  // has not proven its address gets back at most as many bytes as it sent.
  void receive(const Address& from, std::span<const std::byte> datagram, Time now, Outbox& out);

  // Takes no new jobs from here on; those that are here go on, and so do others of their workers.
  void drain() { is_draining_ = true; }

  // Jobs that are here keep what they have.
  void set_limits(const Limits& limits);

  // Forgets jobs that are over. Call it now and then.
  void expire(Time now);

  [[nodiscard]] const Counters& counters() const { return counters_; }
  // That form or run.
  [[nodiscard]] std::size_t jobs() const;
  // By jobs that run.
  [[nodiscard]] Share taken() const;
  // For a person.
  [[nodiscard]] std::vector<JobReport> reports() const;

 private:
  // A job, and the one that would take its place: of other lives of its workers.
  struct Place {
    std::unique_ptr<Job> job;
    std::unique_ptr<Job> next;
    Time challenged{};  // since when there is a next one
  };

  void join(const wire::Frame& frame, const Address& from, Time now, Outbox& out);
  void join_next(Place& place, const wire::Frame& frame, const wire::Join& wish,
                 const Address& from, Time now, Outbox& out);
  void enter(Job& job, const wire::Frame& frame, const wire::Join& wish, const Address& from,
             Time now, bool may_start, Outbox& out);
  void admit(Job& job, Outbox& out);
  [[nodiscard]] std::unique_ptr<Job> make_job(const wire::Header& header, const wire::Join& wish,
                                              const Address& from);
  // What runs, of everybody and of one host; but for one job.
  struct Taken {
    Share all;
    Share same_host;
  };
  [[nodiscard]] Taken taken_beside(std::uint64_t job, const Host& host) const;
  [[nodiscard]] std::string why_not_new(std::uint64_t job, const wire::Join& wish,
                                        const Address& from, Time now);
  [[nodiscard]] std::uint64_t cookie_of(const Address& address) const;
  [[nodiscard]] std::uint32_t next_epoch(std::uint64_t job);
  void tell_gone(const wire::Header& header, const Address& from, Outbox& out);
  void tell_to_prove(const wire::Header& header, std::uint64_t token, const Address& from,
                     Outbox& out);
  void refuse(const wire::Header& header, std::uint64_t token, const Address& from,
              const std::string& why, Outbox& out);

  AggregatorOptions options_;
  Counters counters_;
  std::uint64_t epochs_ = 0;  // made so far
  bool is_draining_ = false;
  std::map<std::uint64_t, Place> places_;
};

}  // namespace sluice::protocol
