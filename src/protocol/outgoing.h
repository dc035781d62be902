// Frames that a link sends in one go.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "protocol/link_counters.h"
#include "wire/frame.h"

namespace sluice::protocol {

// One datagram: header, then payload.
struct Outgoing {
  std::array<std::byte, wire::kHeaderSize> header{};
  std::span<const std::byte> payload;  // stays put until the next call into the link
};

// Fills a caller's frames one after the other. Adds worker, job and epoch to each, and counts it.
// Lives for one call: frames and counters are the caller's. Never allocates.
class OutgoingFrames {
 public:
  struct Sender {
    std::uint32_t rank = 0;
    std::uint64_t job = 0;
    std::uint32_t epoch = 0;
  };

  OutgoingFrames(const Sender& sender, std::span<Outgoing> frames, LinkCounters& counters)
      : sender_(sender), frames_(frames), counters_(counters) {}

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t room() const { return frames_.size() - count_; }
  [[nodiscard]] bool is_full() const { return room() == 0; }
  // Asserts !is_full(). The payload is not copied. Joins have no epoch.
  void add(wire::Header header, std::span<const std::byte> payload) {
    SLUICE_ASSERT(!is_full());
    Outgoing& out = frames_[count_++];
    header.worker = static_cast<std::uint16_t>(sender_.rank);
    header.job = sender_.job;
    if (header.kind != wire::Kind::join) header.epoch = sender_.epoch;
    wire::write_header(header, payload, out.header);
    out.payload = payload;
    ++counters_.sent;
    counters_.sent_bytes += wire::kHeaderSize + payload.size();
  }

 private:
  Sender sender_;
  std::span<Outgoing> frames_;
  LinkCounters& counters_;
  std::size_t count_ = 0;
};

}  // namespace sluice::protocol
