// The all-reduce way of a fused leg: lanes unpacked to int32, and lanes that show disagreement.
#include <algorithm>

#include "base/assert.h"
#include "base/bytes.h"
#include "carrier/fusion.h"
#include "kernels/lanes/lanes.h"

namespace sluice {
namespace {

constexpr std::uint32_t kSign = 0x80000000u;  // flipped, signed order is unsigned order

// The same bits as unsigned; signed and unsigned of one width may alias.
std::span<std::uint32_t> bits_of(std::span<std::int32_t> lanes) {
  return {reinterpret_cast<std::uint32_t*>(lanes.data()), lanes.size()};
}
std::span<const std::uint32_t> bits_of(std::span<const std::int32_t> lanes) {
  return {reinterpret_cast<const std::uint32_t*>(lanes.data()), lanes.size()};
}

}  // namespace

Fusion::Native Fusion::choose_native() const {
  const auto all_are = [&](auto is_one) {
    return std::all_of(rounds_.begin(), rounds_.end(), [&](const Round& round) {
      const bool everyone = round.only.unrestricted() || round.only == Workers{everyone_};
      return everyone && is_one(round.what);
    });
  };
  if (rounds_.empty()) return Native::none;
  if (all_are([](const Reduction& what) { return what.op == Op::max; })) return Native::max;
  if (all_are([](const Reduction& w) { return w.op == Op::wrap_sum && w.bits == 32; })) {
    return Native::sum;
  }
  return Native::none;
}

Fusion::Native Fusion::native() const { return native_; }

std::size_t Fusion::native_count() const {
  std::size_t count = kOwnLanes;
  for (const Round& round : rounds_) count += round.what.count;
  return count;
}

void Fusion::pack_native(std::span<std::int32_t> lanes) const {
  SLUICE_ASSERT(phase_ == Phase::sealed && native_ != Native::none);
  SLUICE_ASSERT(lanes.size() >= native_count());
  auto into = bits_of(lanes);
  for (const Round& round : rounds_) {
    const auto now = into.first(round.what.count);
    lanes::unpack(round.up, round.what.bits, now);
    if (native_ == Native::max && round.what.bits == 32) {
      for (std::uint32_t& lane : now) lane ^= kSign;
    }
    into = into.subspan(now.size());
  }
  const auto checks = check_lanes();
  std::copy(checks.begin(), checks.end(), into.begin());
  lanes[lanes.size() - into.size() + kCheckLanes] = ready_lane();
}

// The largest of these is of the rank that has least ready, as a distance from the leg's bucket,
// which all share. A sum would tell nothing.
std::int32_t Fusion::ready_lane() const {
  constexpr std::uint64_t kFar = std::uint64_t{1} << 30;
  if (native_ != Native::max || ready_ < claim_.bucket) return 0;
  return -static_cast<std::int32_t>(std::min(kFar, ready_ - claim_.bucket));
}

Status Fusion::spread_native(std::span<const std::int32_t> lanes) {
  SLUICE_TRY(expect(Phase::sealed));
  const std::size_t count = native_count();
  if (native_ == Native::none || lanes.size() != count) {
    return fail({Code::invalid_argument, 0, "fusion: native_count() lanes expected"});
  }
  auto from = bits_of(lanes);
  lanes_said_ = compare_lanes(from.last(kOwnLanes).first(kCheckLanes));
  if (!lanes_said_.empty()) {
    return fail({Code::mismatch, -1, "workers disagree on what they reduce"});
  }
  if (native_ == Native::max) {
    const std::int64_t behind = lanes.back();
    least_ready_ = claim_.bucket + static_cast<std::uint64_t>(behind < 0 ? -behind : 0);
  }
  for (std::size_t i = 0; i < rounds_.size(); ++i) {
    const Reduction& what = rounds_[i].what;
    const auto now = from.first(what.count);
    const auto down = rounds_[i].down.first(down_size_max(what, workers_));
    if (native_ == Native::max && what.bits == 32) {
      for (std::size_t lane = 0; lane < now.size(); ++lane) {
        store_le(down, lane * sizeof(std::uint32_t), now[lane] ^ kSign);
      }
    } else {
      lanes::pack(now, what.bits, down);
    }
    filled_[i] = down.size();
    from = from.subspan(now.size());
  }
  finish_answers();
  return ok();
}

}  // namespace sluice
