// One job at an aggregator: who joins it, when it starts, who leaves. Sums are made in its slots
// (job_slots.h) and rings (job_rings.h), which answer through its members (job_members.h).
//
// A job forms, runs from start() on, and has ended when all workers have left. If a member joins
// again with a later attempt, the job forms anew: sums are lost, and all members join again. A job
// may be refused at any time: then nothing goes on, and whoever speaks is told why.
//
// Belongs to the aggregator's thread. No I/O, no clock. The Outbox has the answers when a function
// returns.
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
  // The first join decides how many workers there are and what the terms are. It still has to
  // join(). Counters outlive the job.
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
  // Whether another life has the rank. While the job runs every rank is taken by its members; while
  // it forms, by a member that was heard of lately.
  [[nodiscard]] bool is_taken(std::uint32_t worker, std::uint64_t token, Time now) const;
  // True: the wish was entered, and the caller starts the job or welcomes the worker. False: it was
  // refused, and the sender is told why; or it is of an earlier attempt and was ignored. While the
  // job forms, a wish that contradicts others refuses the whole job.
  bool join(const wire::Header& header, const wire::Join& wish, const Address& from, Time now,
            Outbox& out);
  // All are here, and it does not run yet.
  [[nodiscard]] bool is_ready() const;
  // What a job asks for.
  struct Demand {
    std::uint32_t slots = 0;    // the least that any worker wants
    std::size_t slot_size = 0;  // bytes of a slot and of a ring
    bool is_bound = false;      // the job has run before: it needs exactly these slots
  };
  // Once it is_ready().
  [[nodiscard]] Demand demand() const;
  // Once it is_ready(): begins an epoch, which is not 0, with 1 to 65535 slots, and welcomes
  // everybody. Takes all memory. Where the system gives none, all are refused instead.
  void start(std::uint32_t epoch, std::uint32_t slots, Outbox& out);
  // To one whose join() was entered; as many bytes as its join had, if frames may be so large.
  void welcome(std::uint32_t worker, std::size_t size, Outbox& out);
  // The job cannot go on; all are told, now and whenever they speak.
  void refuse_all(std::string_view why, Outbox& out) { members_.refuse_all(why, out); }

  // --- frames from outside, parsed, of this job and epoch ---
  //
  // Each counts its frame once (Counters), whatever the frame says. What makes no sense for the job
  // is counted as malformed and dropped.

  // Whether the frame is a member's, from its address. If not, none of what follows may be called.
  bool hear(std::uint32_t worker, const Address& from, Time now);
  void contribute(const wire::Frame& frame, Time now, Outbox& out);
  void ask(const wire::Frame& frame, Time now, Outbox& out);
  void restore(const wire::Frame& frame, Time now, Outbox& out);
  void table(const wire::Frame& frame, Outbox& out);
  // The last to leave ends the job and gives back its memory.
  void leave(const wire::Header& header, Outbox& out);

  [[nodiscard]] std::uint64_t id() const { return terms_.id; }
  // 0 while it forms.
  [[nodiscard]] std::uint32_t epoch() const { return members_.epoch(); }
  [[nodiscard]] bool is_running() const { return epoch() != 0 && !has_ended_; }
  // All have left: it holds nothing any more, and is remembered for those who did not hear it.
  [[nodiscard]] bool has_ended() const { return has_ended_; }
  // Forms or runs, and was not refused.
  [[nodiscard]] bool is_alive() const { return !has_ended_ && members_.refusal().empty(); }
  // Nobody was heard of for three seconds: whoever was there is not any more.
  [[nodiscard]] bool is_silent(Time now) const;
  // When a member was heard of last.
  [[nodiscard]] Time heard() const { return heard_; }
  // Whether nobody will need it any more: nobody was heard of for the lease, or for less where it
  // forms, was refused or has ended.
  [[nodiscard]] bool is_over(Time now, Time lease) const;
  // What it holds while it runs: memory of its slots and of all rings that it may use.
  [[nodiscard]] Share share() const;
  [[nodiscard]] const Host& host() const { return terms_.host; }
  // For a person. Allocates; looks at all slots and rings.
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
