#include "protocol/kept_results.h"

#include <algorithm>

#include "base/assert.h"

namespace sluice::protocol {
namespace {

constexpr unsigned kInVain = 3;  // times that count from the start: there is no hurry

}  // namespace

KeptResults::KeptResults(std::uint32_t depth) : depth_(depth) { SLUICE_ASSERT(depth >= 1); }

void KeptResults::make_places(std::size_t places, std::size_t payload_max) {
  SLUICE_ASSERT(payload_max >= 1 && to_restore_ == 0);
  payload_max_ = payload_max;
  kept_.resize(places * depth_);
}

void KeptResults::make_memory() {
  const std::size_t size = kept_.size() * payload_max_;
  if (memory_.size() < size) memory_ = AlignedBuffer(size);
}

std::size_t KeptResults::index_of(std::uint32_t place, std::uint32_t use) const {
  const std::size_t index = std::size_t{place} * depth_ + use % depth_;
  SLUICE_ASSERT(index < kept_.size());
  return index;
}

std::span<std::byte> KeptResults::room(std::size_t index) {
  return memory_.bytes().subspan(index * payload_max_, payload_max_);
}

void KeptResults::keep(std::uint32_t place, const wire::Frame& frame) {
  const std::size_t index = index_of(place, frame.header.use);
  Kept& kept = kept_[index];
  kept.has = frame.payload.size() <= payload_max_;
  if (!kept.has) return;
  kept.header = frame.header;
  kept.header.flags &= static_cast<std::uint8_t>(~wire::kRepeated);
  kept.size = static_cast<std::uint32_t>(frame.payload.size());
  SLUICE_ASSERT(memory_.size() >= kept_.size() * payload_max_);
  std::copy(frame.payload.begin(), frame.payload.end(), room(index).begin());
  stop_restoring(kept);
}

void KeptResults::restore() {
  to_restore_ = 0;
  for (Kept& kept : kept_) {
    kept.to_restore = kept.has;
    kept.sent = -kNever;
    to_restore_ += kept.to_restore ? 1 : 0;
  }
}

void KeptResults::restored(std::uint32_t place, std::uint32_t use) {
  Kept& kept = kept_[index_of(place, use)];
  if (kept.header.use == use) stop_restoring(kept);
}

void KeptResults::stop_restoring(Kept& kept) {
  if (!kept.to_restore) return;
  SLUICE_DASSERT(to_restore_ > 0);
  kept.to_restore = false;
  --to_restore_;
}

void KeptResults::send(Time now, const Trips& trips, OutgoingFrames& out) {
  if (to_restore_ == 0) return;
  for (std::size_t i = 0; i < kept_.size() && !out.is_full(); ++i) {
    Kept& kept = kept_[i];
    if (!kept.to_restore || now < kept.sent + trips.timeout(kInVain)) continue;
    wire::Header header = kept.header;
    header.kind = wire::Kind::restore;
    SLUICE_DASSERT(kept.size <= payload_max_);
    out.add(header, room(i).first(kept.size));
    kept.sent = now;
  }
}

Time KeptResults::wake(const Trips& trips) const {
  Time wake = kNever;
  if (to_restore_ == 0) return wake;
  for (const Kept& kept : kept_) {
    if (kept.to_restore) wake = std::min(wake, kept.sent + trips.timeout(kInVain));
  }
  return wake;
}

}  // namespace sluice::protocol
