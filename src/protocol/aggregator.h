// The aggregator's side: jobs by name, slots leased to them.
//
// No I/O, no clock, no thread: datagrams come in with the time, and answers go to an Outbox. One
// thread at a time. Times never go backwards from call to call.
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

// Rules are not null; others than ours are for tests.
struct AggregatorOptions {
  Limits limits = {};
  std::uint32_t frame_size = 9000;        // the largest datagram of a job: 1104 to 65507 bytes
  std::size_t receive_buffer = 4u << 20;  // of the socket: what workers may have on their way
  SipKey secret = {};                     // of cookies and epochs: random, another at every start
  SlotRule rule = &slot_rule;
  RingRule ring_rule = &protocol::ring_rule;
};

// Stays where it was made: its jobs refer to its counters.
class Aggregator {
 public:
  // Asserts that the options are in range.
  explicit Aggregator(const AggregatorOptions& options);

  // A datagram from outside. Whatever it holds, the worst it does is to be counted and dropped. Who
  // has not proven its address gets back at most as many bytes as it sent. The datagram is not
  // looked at afterwards. Takes memory while jobs form and start. Where the system gives none for a
  // job's slots the job is refused; other allocations may throw bad_alloc.
  void receive(const Address& from, std::span<const std::byte> datagram, Time now, Outbox& out);

  // Takes no new jobs from here on, for good. Jobs that are here go on. A worker that is in one of
  // them may still bring another job.
  void drain() { is_draining_ = true; }

  // Jobs that are here keep what they have.
  void set_limits(const Limits& limits);

  // Forgets jobs that are over, with their memory. Call it now and then. Looks at all jobs, as the
  // functions below do.
  void expire(Time now);

  [[nodiscard]] const Counters& counters() const { return counters_; }
  // How many form or run, and were not refused.
  [[nodiscard]] std::size_t jobs() const;
  // What jobs that run hold.
  [[nodiscard]] Share taken() const;
  // Of the same jobs as jobs(), by their names, for a person. Allocates.
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
