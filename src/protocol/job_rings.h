// The rings of one job at an aggregator: sums of blocks to which not everybody contributes
// (ring_rule.h). The last results of each are kept.
//
// The job has checked frames before: they are from members, of the epoch, about a ring that has()
// knows. Their reductions are block sums that are possible among the workers, and payloads fit into
// a frame. Every frame is counted, and answered through the members. Belongs to the aggregator's
// thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/pages.h"
#include "protocol/counters.h"
#include "protocol/job_members.h"
#include "protocol/job_report.h"
#include "protocol/outbox.h"
#include "protocol/ring_rule.h"
#include "protocol/time.h"
#include "protocol/use_content.h"
#include "wire/frame.h"

namespace sluice::protocol {

class JobRings {
 public:
  // Members and counters outlive this.
  JobRings(RingRule rule, JobMembers& members, Counters& counters);

  // Bytes that one ring takes.
  [[nodiscard]] static std::size_t size_of_one(std::uint32_t frame_size);
  // How many rings there are beside 1 to 65535 slots: as many, where numbers of 16 bits suffice.
  [[nodiscard]] static std::uint32_t count_beside(std::uint32_t slots);
  // Rings are numbered behind the slots. `memory` has exactly size_of_one() bytes for each.
  void open(std::uint32_t slots, std::uint32_t frame_size, Pages memory);
  // Gives back all memory: there are no rings.
  void release();
  [[nodiscard]] std::size_t memory_size() const { return memory_.size(); }
  [[nodiscard]] bool has(std::uint32_t slot) const {
    return slot >= first_ && slot - first_ < rings_.size();
  }

  // The payload has passed check_up(), or is empty: the worker has nothing for the use. What
  // completes the use sends the sum to all. What disagrees with the use ends the job. The first
  // frame of a ring allocates.
  void contribute(const wire::Frame& frame, const Reduction& what, Time now, Outbox& out);
  // Answers with the result, or with who is there.
  void ask(const wire::Header& header, Outbox& out);
  // A result that a memory before this one made. The payload is at most as long as `what` allows.
  void restore(const wire::Frame& frame, const Reduction& what, Time now, Outbox& out);
  // Adds the uses that wait. Looks at all rings.
  void report(JobReport& report) const;

 private:
  // Made when its first frame comes: few jobs sum blocks.
  struct Place {
    Ring ring;
    std::array<UseContent, kRingDepth> contents;  // by use modulo depth
    std::vector<bool> present;                    // blocks of the open use
    std::span<std::byte> memory;                  // the results, then the open use's integers
  };

  [[nodiscard]] Place* find(std::uint32_t slot) const;
  Place& make(std::uint32_t slot);
  [[nodiscard]] std::span<std::byte> room(Place& place, std::uint32_t use) const;
  [[nodiscard]] std::span<std::byte> integers_of(Place& place) const;
  void begin(const wire::Frame& frame, const Reduction& what, Place& place, Time now);
  void add(const wire::Frame& frame, Place& place);
  void complete(std::uint32_t slot, Place& place, Outbox& out);
  void answer(const wire::Header& header, Place& place, Outbox& out);

  RingRule rule_;
  JobMembers& members_;
  Counters& counters_;
  std::uint32_t first_ = 0;    // the number of the first ring
  std::size_t room_size_ = 0;  // of a frame's payload
  std::vector<std::unique_ptr<Place>> rings_;
  Pages memory_;
};

}  // namespace sluice::protocol
