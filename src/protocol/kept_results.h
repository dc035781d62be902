// The last results that a worker got, for an aggregator that loses its memory: other workers may
// not have them yet, and nobody else can make them again.
//
// Places are counted from 0. Each keeps the results of its last uses, `depth` of them. Belongs to
// its link's thread. After make_memory() nothing allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "protocol/outgoing.h"
#include "protocol/time.h"
#include "protocol/trips.h"
#include "wire/frame.h"

namespace sluice::protocol {

class KeptResults {
 public:
  // At least 1.
  explicit KeptResults(std::uint32_t depth);

  // Before everything else. `payload_max`: bytes of the largest result. May throw bad_alloc.
  void make_places(std::size_t places, std::size_t payload_max);
  // Before the first result is kept; again it does nothing. May throw bad_alloc.
  void make_memory();

  // Copies a result into the place of the one that is `depth` uses older. One that is larger than
  // payload_max, as only an aggregator that is wrong sends it, is not kept.
  void keep(std::uint32_t place, const wire::Frame& frame);

  // The aggregator has lost its memory: all that is kept goes back to it, by send().
  void restore();
  // How many results it is not known to have.
  [[nodiscard]] std::size_t to_restore() const { return to_restore_; }
  // It has the result of this use, any use.
  void restored(std::uint32_t place, std::uint32_t use);
  // Results that are to go back and were not sent for a time-out, while `out` has room. Payloads
  // stay put until the next keep(). Looks at all that is kept.
  void send(Time now, const Trips& trips, OutgoingFrames& out);
  // When send() has something; kNever: nothing is to go back. Looks at all that is kept.
  [[nodiscard]] Time wake(const Trips& trips) const;

 private:
  struct Kept {
    bool has = false;
    wire::Header header;
    std::uint32_t size = 0;
    bool to_restore = false;
    Time sent{};
  };

  [[nodiscard]] std::size_t index_of(std::uint32_t place, std::uint32_t use) const;
  [[nodiscard]] std::span<std::byte> room(std::size_t index);
  void stop_restoring(Kept& kept);

  std::uint32_t depth_;
  std::size_t payload_max_ = 0;
  std::vector<Kept> kept_;  // of each place, by use modulo depth
  AlignedBuffer memory_;
  std::size_t to_restore_ = 0;
};

}  // namespace sluice::protocol
