// One job at an aggregator: its members, its slots, and the sums in them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/pages.h"
#include "protocol/admission.h"
#include "protocol/counters.h"
#include "protocol/job_report.h"
#include "protocol/outbox.h"
#include "protocol/ring_rule.h"
#include "protocol/slot_rule.h"
#include "protocol/time.h"
#include "round/combine.h"
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

  // --- joining: from proven addresses ---

  // Whether this life of the rank is a member, or was before it left.
  [[nodiscard]] bool has(std::uint32_t worker, std::uint64_t token) const;
  // Whether this life of any rank is.
  [[nodiscard]] bool has_life(std::uint64_t token) const;
  // Whether the wish is for the same number of workers and the same terms.
  [[nodiscard]] bool wants(const wire::Join& wish) const {
    return wish.workers == workers_ && wish.terms == wish_;
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
  void refuse_all(std::string_view why, Outbox& out);

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
  [[nodiscard]] std::uint32_t epoch() const { return epoch_; }
  [[nodiscard]] bool is_running() const { return epoch_ != 0 && !has_ended_; }
  // All have left: it holds nothing any more, and is remembered for those who did not hear it.
  [[nodiscard]] bool has_ended() const { return has_ended_; }
  // Forms or runs, and was not refused.
  [[nodiscard]] bool is_alive() const { return !has_ended_ && refusal_.empty(); }
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
  struct Member {
    bool is_here = false;
    std::uint64_t token = 0;
    std::uint32_t slots = 0;  // that it wants
    std::uint32_t fits = 0;   // the largest frame that passes; 0: it is still finding out
    bool is_bound = false;
    Time heard{};
    std::uint32_t watches = 0;  // since it said anything else
    Time watched{};
  };
  // What a version of a slot holds beside its Version, or a place of a ring.
  struct Content {
    bool is_complete = false;
    std::uint8_t flags = 0;
    std::uint64_t digest = 0;
    std::uint64_t only = 0;
    std::uint32_t table = 0;
    Reduction what;
    std::uint32_t counted = 0;      // contributions
    std::uint32_t result_size = 0;  // when complete
    Time since{};
  };
  struct Slot {
    Version versions[2];
    Content contents[2];
  };
  // Made when its first frame comes: few jobs sum blocks.
  struct RingSlot {
    Ring ring;
    std::array<Content, kRingDepth> contents;  // by place
    std::vector<bool> present;                 // blocks of the open chunk
    std::span<std::byte> memory;               // the results, then the open chunk's integers
  };

  [[nodiscard]] std::uint64_t everyone() const;
  bool is_late();
  void send(wire::Header header, std::span<const std::byte> payload, std::span<const Address> to,
            Outbox& out) const;
  [[nodiscard]] std::span<const Address> address_of(std::uint32_t worker) const;
  [[nodiscard]] std::span<const Address> all_addresses() const;
  void refuse(std::uint32_t worker, std::string_view why, Outbox& out);
  void refuse_stranger(std::uint32_t worker, std::uint64_t token, const Address& to,
                       std::string_view why, Outbox& out);
  bool enter(const wire::Header& header, const wire::Join& wish, const Address& from, Time now,
             Outbox& out);
  void form_anew();
  void release();
  void count_joined();
  [[nodiscard]] std::string conflict(const wire::Header& header, const wire::Join& wish) const;
  [[nodiscard]] std::uint64_t who_needs_nobody() const;
  bool is_watch(const wire::Header& header, Time now, Outbox& out);
  [[nodiscard]] bool is_possible(const wire::Frame& frame, const Reduction& what) const;
  [[nodiscard]] std::size_t down_size_max_of(const wire::Frame& frame, const Reduction& what) const;
  [[nodiscard]] const std::vector<std::uint16_t>* find_table(std::uint32_t name) const;
  bool find_reduction(const wire::Frame& frame, Reduction& what, Outbox& out);
  static bool agrees(const wire::Frame& frame, const Content& content);
  void tell_mismatch(const wire::Frame& frame, const Content& content, std::uint64_t seen,
                     Outbox& out);
  void tell_left(std::uint32_t worker, std::uint64_t seen, Outbox& out);
  void take_in(const wire::Frame& frame, std::uint32_t side);
  void complete(std::uint32_t slot, std::uint32_t side, Outbox& out);
  void answer(const wire::Header& header, Outbox& out);
  void tell_wait(const wire::Header& header, std::uint64_t seen, Outbox& out);
  // As the answer to a question, where it has a stamp.
  void send_again(std::uint32_t worker, std::uint32_t slot, std::uint32_t side, std::uint32_t stamp,
                  Outbox& out);
  void send_content(std::span<const Address> to, std::uint32_t slot, std::uint32_t chunk,
                    const Content& content, std::span<const std::byte> payload, std::uint32_t stamp,
                    Outbox& out);
  void tell_restored(const wire::Header& header, Outbox& out);

  [[nodiscard]] bool is_ring(std::uint32_t slot) const;
  [[nodiscard]] RingSlot* find_ring(std::uint32_t slot) const;
  RingSlot& make_ring(std::uint32_t slot);
  [[nodiscard]] std::span<std::byte> ring_room(RingSlot& slot, std::uint32_t chunk) const;
  [[nodiscard]] std::span<std::byte> integers_of(RingSlot& slot) const;
  void contribute_to_ring(const wire::Frame& frame, const Reduction& what, Time now, Outbox& out);
  void begin_in_ring(const wire::Frame& frame, const Reduction& what, RingSlot& slot, Time now);
  void add_to_ring(const wire::Frame& frame, RingSlot& slot);
  void complete_in_ring(std::uint32_t number, RingSlot& slot, Outbox& out);
  void ask_ring(const wire::Header& header, Outbox& out);
  void answer_from_ring(const wire::Header& header, RingSlot& slot, Outbox& out);
  void restore_to_ring(const wire::Frame& frame, const Reduction& what, Time now, Outbox& out);

  [[nodiscard]] std::size_t room_size() const;  // of a frame's payload
  [[nodiscard]] std::size_t slot_size() const;
  [[nodiscard]] std::size_t ring_size() const;
  [[nodiscard]] std::span<std::byte> room(std::uint32_t slot, std::uint32_t side,
                                          std::uint32_t index);

  JobTerms terms_;
  Counters& counters_;
  std::uint32_t workers_;
  std::string wish_;               // the workers' terms
  std::uint16_t slots_count_ = 0;  // that are leased
  std::uint32_t frame_size_;
  std::uint32_t epoch_ = 0;
  bool has_ended_ = false;
  std::string refusal_;       // why the job cannot go on, if it cannot
  std::uint64_t here_ = 0;    // who wants to join, or has
  std::uint64_t joined_ = 0;  // who has
  std::uint64_t left_ = 0;
  Time heard_{};
  std::array<Member, wire::kWorkersMax> members_{};
  std::array<Address, wire::kWorkersMax> addresses_{};  // of members
  std::map<std::uint32_t, std::vector<std::uint16_t>> tables_;
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<RingSlot>> rings_;  // as many as slots, numbered behind them
  Pages memory_;                                  // of slots
  Pages ring_memory_;
  // Of contributions, in the order they were counted, for each version of each slot.
  std::vector<std::array<std::uint8_t, wire::kWorkersMax>> ranks_;
  std::vector<std::array<std::uint32_t, wire::kWorkersMax>> sizes_;
  AlignedBuffer scratch_;
  std::vector<Contribution> contributions_;
  std::string body_;
};

}  // namespace sluice::protocol
