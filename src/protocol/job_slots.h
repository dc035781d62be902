// The slots of one job at an aggregator. Contributions meet in a slot and are summed when all are
// there. The last result of each slot is kept (slot_rule.h).
//
// The job has checked frames before: they are from members, of the epoch, about a slot that has()
// knows. Their reductions are possible among the workers, and payloads fit into a frame. Every
// frame is counted, and answered through the members. Belongs to the aggregator's thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/pages.h"
#include "protocol/counters.h"
#include "protocol/job_members.h"
#include "protocol/job_report.h"
#include "protocol/outbox.h"
#include "protocol/slot_rule.h"
#include "protocol/time.h"
#include "protocol/use_content.h"
#include "round/combine.h"
#include "wire/frame.h"

namespace sluice::protocol {

class JobSlots {
 public:
  // Members and counters outlive this.
  JobSlots(SlotRule rule, JobMembers& members, Counters& counters);

  // Bytes that one slot takes.
  [[nodiscard]] static std::size_t size_of_one(std::uint32_t workers, std::uint32_t frame_size);
  // 1 to 65535 slots, none of them in use. `memory` has exactly size_of_one() bytes for each.
  void open(std::uint32_t count, std::uint32_t frame_size, Pages memory);
  // Gives back all memory: there are no slots.
  void release();
  [[nodiscard]] std::uint16_t count() const { return static_cast<std::uint16_t>(slots_.size()); }
  [[nodiscard]] std::size_t memory_size() const { return memory_.size(); }
  [[nodiscard]] bool has(std::uint32_t slot) const { return slot < slots_.size(); }

  // `what` is the frame's reduction with its table, which stays put until release(). The payload
  // has passed check_up(). The last contribution to a use makes the sum and sends it to all. One
  // that disagrees with those before it ends the job.
  void contribute(const wire::Frame& frame, const Reduction& what, Time now, Outbox& out);
  // Answers with the result, or with who is there.
  void ask(const wire::Header& header, Outbox& out);
  // A result that a memory before this one made. The payload has a size that `what` can have.
  void restore(const wire::Frame& frame, const Reduction& what, Time now, Outbox& out);
  // Adds the uses that wait. Looks at all slots.
  void report(JobReport& report) const;

 private:
  struct Slot {
    Version versions[2];
    UseContent contents[2];
  };

  void take_in(const wire::Frame& frame, std::uint32_t side);
  void complete(std::uint32_t slot, std::uint32_t side, Outbox& out);
  void answer(const wire::Header& header, Outbox& out);
  void send_again(std::uint32_t worker, std::uint32_t slot, std::uint32_t side, std::uint32_t stamp,
                  Outbox& out);
  [[nodiscard]] std::span<std::byte> room(std::uint32_t slot, std::uint32_t side,
                                          std::uint32_t index);

  SlotRule rule_;
  JobMembers& members_;
  Counters& counters_;
  std::size_t room_size_ = 0;  // of a frame's payload
  std::vector<Slot> slots_;
  Pages memory_;
  // Of contributions, in the order they were counted, for each version of each slot.
  std::vector<std::array<std::uint8_t, wire::kWorkersMax>> ranks_;
  std::vector<std::array<std::uint32_t, wire::kWorkersMax>> sizes_;
  AlignedBuffer scratch_;
  std::vector<Contribution> contributions_;
};

}  // namespace sluice::protocol
