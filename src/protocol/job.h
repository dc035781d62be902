// One job at an aggregator: who joins it, when it starts, who leaves. Sums are made in its slots
// (job_slots.h) and rings (job_rings.h), which answer through its members (job_members.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/admission.h"
#include "protocol/counters.h"
#include "protocol/job_members.h"
#include "protocol/job_report.h"
#include "protocol/job_rings.h"
#include "protocol/job_slots.h"
#include "protocol/outbox.h"
#include "protocol/ring_rule.h"
#include "protocol/slot_rule.h"
#include "protocol/time.h"
#include "wire/bodies.h"
#include "wire/frame.h"

namespace sluice::protocol {

// What of an aggregator a job is made with.
struct JobTerms {
  std::uint64_t id = 0;
  Host host = {};                // whom it is charged to
  std::uint32_t frame_size = 0;  // the aggregator's largest
  std::size_t receive_buffer = 0;
  SlotRule rule = &slot_rule;
  RingRule ring_rule = &protocol::ring_rule;
};

class Job {
 public:
  // The first join decides how many workers there are and what the terms are.
  Job(const JobTerms& terms, const wire::Join& first, Counters& counters);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // --- joining: from proven addresses ---

  // Whether this life of the rank is a member, or was before it left.
  [[nodiscard]] bool has(std::uint32_t worker, std::uint64_t token) const;
  // Whether this life of any rank is.
  [[nodiscard]] bool has_life(std::uint64_t token) const;
  // Whether the wish is for the same number of workers and the same terms.
  [[nodiscard]] bool wants(const wire::Join& wish) const {
    return wish.workers == members_.count() && wish.terms == wanted_terms_;
  }
  // Whether another life has the rank: for good while the job runs, else while it is heard of.
  [[nodiscard]] bool is_taken(std::uint32_t worker, std::uint64_t token, Time now) const;
  // Enters a wish, or refuses it. Whether it was entered: then it is to be welcomed.
  bool join(const wire::Header& header, const wire::Join& wish, const Address& from, Time now,
            Outbox& out);
  // All are here, and it does not run yet.
  [[nodiscard]] bool is_ready() const;
  // What it asks for when it is ready: a single slot's memory, with a ring, and how many of them.
  // Bound: not fewer.
  struct Demand {
    std::uint32_t slots = 0;
    std::size_t slot_size = 0;
    bool is_bound = false;
  };
  [[nodiscard]] Demand demand() const;
  // Begins an epoch, which is not 0, and welcomes everybody.
  void start(std::uint32_t epoch, std::uint32_t slots, Outbox& out);
  // To one who has joined, or wants to; as many bytes as its join had.
  void welcome(std::uint32_t worker, std::size_t size, Outbox& out);
  // The job cannot go on; all are told, now and whenever they speak.
  void refuse_all(std::string_view why, Outbox& out) { members_.refuse_all(why, out); }

  // --- frames from outside, parsed, of this job and epoch ---

  // Whether it is a member's, from its address. Before all that follows.
  bool hear(std::uint32_t worker, const Address& from, Time now);
  void contribute(const wire::Frame& frame, Time now, Outbox& out);
  void ask(const wire::Frame& frame, Time now, Outbox& out);
  void restore(const wire::Frame& frame, Time now, Outbox& out);
  void table(const wire::Frame& frame, Outbox& out);
  void leave(const wire::Header& header, Outbox& out);

  [[nodiscard]] std::uint64_t id() const { return terms_.id; }
  // 0 while it forms.
  [[nodiscard]] std::uint32_t epoch() const { return members_.epoch(); }
  [[nodiscard]] bool is_running() const { return epoch() != 0 && !has_ended_; }
  // All have left: it holds nothing any more, and is remembered for those who did not hear it.
  [[nodiscard]] bool has_ended() const { return has_ended_; }
  // Forms or runs, and was not refused.
  [[nodiscard]] bool is_alive() const { return !has_ended_ && members_.refusal().empty(); }
  // Nobody was heard of for so long that whoever was there is not any more.
  [[nodiscard]] bool is_silent(Time now) const;
  [[nodiscard]] Time heard() const { return heard_; }
  // Nobody will need it any more: all left, or nobody was heard of for the lease.
  [[nodiscard]] bool is_over(Time now, Time lease) const;
  // What it holds: memory of its slots and of all rings that it may use.
  [[nodiscard]] Share share() const;
  [[nodiscard]] const Host& host() const { return terms_.host; }
  [[nodiscard]] JobReport report() const;

 private:
  // What a member that is here wants, and when it spoke.
  struct Wish {
    std::uint32_t slots = 0;
    std::uint32_t fits = 0;  // the largest frame that passes; 0: it is still finding out
    bool is_bound = false;
    Time heard{};
    std::uint32_t watches = 0;  // since it said anything else
    Time watched{};
  };

  bool enter(const wire::Header& header, const wire::Join& wish, const Address& from, Time now,
             Outbox& out);
  void form_anew();
  void release();
  void count_joined();
  [[nodiscard]] std::string conflict(const wire::Header& header, const wire::Join& wish) const;
  [[nodiscard]] std::uint64_t who_needs_nobody() const;
  bool is_late();
  bool is_watch(const wire::Header& header, Time now, Outbox& out);
  [[nodiscard]] bool is_possible(const wire::Frame& frame, const Reduction& what) const;
  bool find_reduction(const wire::Frame& frame, Reduction& what, Outbox& out);

  JobTerms terms_;
  Counters& counters_;
  std::string wanted_terms_;  // of all workers
  std::uint32_t frame_size_;
  bool has_ended_ = false;
  std::uint64_t joined_ = 0;  // of those who are here
  Time heard_{};
  std::array<Wish, wire::kWorkersMax> wishes_{};
  std::map<std::uint32_t, std::vector<std::uint16_t>> tables_;
  JobMembers members_;
  JobSlots slots_;
  JobRings rings_;
};

}  // namespace sluice::protocol
