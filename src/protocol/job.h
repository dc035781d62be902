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
  std::uint32_t epoch = 0;        // for when all have joined; odd
  std::uint16_t slots_max = 0;    // that can be leased
  std::uint32_t frame_size = 0;   // the aggregator's largest
  std::size_t receive_buffer = 0;
  std::size_t memory_max = 0;     // for the job's slots
  SlotRule rule = &slot_rule;
  RingRule ring_rule = &protocol::ring_rule;
};

class Job {
 public:
  // The first join decides how many workers there are and what the terms are.
  Job(const JobTerms& terms, const wire::Join& first, Counters& counters);

  // Frames from outside, parsed, of this job. Those with an epoch have this job's.
  void join(const wire::Header& header, const wire::Join& wish, const Address& from, Time now,
            Outbox& out);
  void contribute(const wire::Frame& frame, const Address& from, Time now, Outbox& out);
  void ask(const wire::Frame& frame, const Address& from, Time now, Outbox& out);
  void restore(const wire::Frame& frame, const Address& from, Time now, Outbox& out);
  void table(const wire::Frame& frame, const Address& from, Time now);
  void leave(const wire::Header& header, const Address& from, Time now);

  [[nodiscard]] std::uint32_t epoch() const { return is_running_ ? terms_.epoch : 0; }
  [[nodiscard]] std::uint32_t slots() const { return slots_count_; }
  // Nobody will need it any more: all left, or nobody was heard of for the lease.
  [[nodiscard]] bool is_over(Time now, Time lease) const;
  // Whether a worker comes back with a new life and nobody of the old job was heard for a while:
  // nothing of it can go on then.
  [[nodiscard]] bool is_replaced_by(const wire::Header& header, const wire::Join& wish,
                                    Time now) const;
  // Of its slots and of all rings that it may use.
  [[nodiscard]] std::size_t memory_size() const;
  [[nodiscard]] JobReport report() const;

 private:
  struct Member {
    bool joined = false;
    std::uint64_t token = 0;
    std::uint32_t frame_size = 0;  // the largest that arrived
    Time heard{};
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
    AlignedBuffer memory;                      // the results, then the open chunk's integers
  };

  [[nodiscard]] std::uint64_t everyone() const;
  bool is_member(std::uint32_t worker, const Address& from, Time now);
  void send(wire::Header header, std::span<const std::byte> payload, std::span<const Address> to,
            Outbox& out) const;
  [[nodiscard]] std::span<const Address> address_of(std::uint32_t worker) const;
  [[nodiscard]] std::span<const Address> all_addresses() const;
  void refuse(std::uint32_t worker, const Address& to, std::string_view why, Outbox& out);
  void refuse_all(std::string_view why, Outbox& out);
  void form_anew();
  void start();
  void welcome(std::span<const Address> to, Outbox& out);
  [[nodiscard]] std::string conflict(const wire::Header& header, const wire::Join& wish) const;
  [[nodiscard]] bool is_possible(const wire::Frame& frame, const Reduction& what) const;
  [[nodiscard]] std::size_t down_size_max_of(const wire::Frame& frame,
                                             const Reduction& what) const;
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
  void send_result(std::span<const Address> to, std::uint32_t slot, std::uint32_t side,
                   std::uint8_t flags, Outbox& out);
  void send_content(std::span<const Address> to, std::uint32_t slot, std::uint32_t chunk,
                    const Content& content, std::span<const std::byte> payload, Outbox& out);
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

  [[nodiscard]] std::size_t room_size() const;
  [[nodiscard]] std::size_t slot_size() const;
  [[nodiscard]] std::size_t ring_size() const;
  [[nodiscard]] std::span<std::byte> room(std::uint32_t slot, std::uint32_t side,
                                          std::uint32_t index);

  JobTerms terms_;
  Counters& counters_;
  std::uint32_t workers_;
  std::string wish_;  // the workers' terms
  std::uint16_t slots_count_;
  std::uint32_t frame_size_;
  bool is_running_ = false;
  std::string refusal_;  // why the job cannot go on, if it cannot
  std::uint64_t joined_ = 0;
  std::uint64_t left_ = 0;
  Time heard_{};
  std::array<Member, wire::kWorkersMax> members_{};
  std::array<Address, wire::kWorkersMax> addresses_{};  // of members
  std::map<std::uint32_t, std::vector<std::uint16_t>> tables_;
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<RingSlot>> rings_;  // as many as slots, numbered behind them
  AlignedBuffer memory_;
  // Of contributions, in the order they were counted, for each version of each slot.
  std::vector<std::array<std::uint8_t, wire::kWorkersMax>> ranks_;
  std::vector<std::array<std::uint32_t, wire::kWorkersMax>> sizes_;
  AlignedBuffer scratch_;
  std::vector<Contribution> contributions_;
  std::string body_;
};

}  // namespace sluice::protocol
