// The slots of one job at an aggregator: contributions meet there, are summed when all are there,
// and the last result of each is kept (slot_rule.h).
//
// Frames have been checked before: they are from members, of the epoch, and about reductions that
// the workers of the job can do.
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
  JobSlots(SlotRule rule, JobMembers& members, Counters& counters);

  // Bytes that one slot takes.
  [[nodiscard]] static std::size_t size_of_one(std::uint32_t workers, std::uint32_t frame_size);
  // `memory` has size_of_one() bytes for each.
  void open(std::uint32_t count, std::uint32_t frame_size, Pages memory);
  // Gives back all memory: there are no slots.
  void release();
  [[nodiscard]] std::uint16_t count() const { return static_cast<std::uint16_t>(slots_.size()); }
  [[nodiscard]] std::size_t memory_size() const { return memory_.size(); }
  [[nodiscard]] bool has(std::uint32_t slot) const { return slot < slots_.size(); }

  void contribute(const wire::Frame& frame, const Reduction& what, Time now, Outbox& out);
  void ask(const wire::Header& header, Outbox& out);
  void restore(const wire::Frame& frame, const Reduction& what, Time now, Outbox& out);
  // The uses that wait.
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
