#include "codec/lossless/exceptions.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/exact_sum.h"
#include "round/lists.h"

namespace sluice::lossless {
namespace {

constexpr std::uint32_t kWindow = 64;
constexpr std::size_t kEntry = 5;  // place in the window u8, value f32
constexpr std::size_t kListMax = kEntry * kWindow;
constexpr std::size_t kRoom = std::size_t{1}
                              << 20;  // for the lists of a step, unless one needs more

Error malformed(const char* what) { return Error{Code::malformed, 0, what}; }

// As many as memory bounds, and no more than there are windows.
std::uint32_t lists_of_step(const Extent& extent) {
  const std::size_t fit = kRoom / (extent.workers * (kMessageHeader + kListMax));
  return std::min({static_cast<std::uint32_t>(std::max<std::size_t>(fit, 1)),
                   std::uint32_t{kLegRoundsMax}, divide_up(extent.count, kWindow)});
}

// Calls each(place, value) for this worker's exceptions in a window.
template <class Each>
void each_exception(const Own& own, const Values& values, std::uint32_t window, std::size_t next,
                    Each each) {
  const auto format = values.format(values.block_of(window * kWindow));
  for (std::uint64_t left = own.marks()[window]; left != 0; left &= left - 1) {
    const float value = own.values()[next++];
    if (!fixedpoint::fits(value, format)) {
      each(static_cast<std::uint32_t>(std::countr_zero(left)), value);
    }
  }
}

}  // namespace

Exceptions::Exceptions(const Extent& extent, Arena& arena)
    : extent_(extent),
      lists_max_(lists_of_step(extent)),
      counts_up_(arena.place<std::byte>(windows())),
      counts_down_(arena.place<std::byte>(windows())),
      before_(arena.host<std::uint32_t>(windows())),
      up_(arena.place<std::byte>(lists_max_ * kListMax)),
      down_(arena.place<std::byte>(std::size_t{lists_max_} * extent.workers *
                                   (kMessageHeader + kListMax))),
      asked_(arena.host<std::uint32_t>(lists_max_)),
      rounds_(arena.host<Round>(lists_max_)),
      touched_(arena.host<std::uint64_t>(windows())),
      means_(arena.host<float>(extent.count)) {}

std::uint32_t Exceptions::windows() const { return divide_up(extent_.count, kWindow); }

Round Exceptions::ask_windows(const Own& own, const Values& values, Workers only) {
  std::uint32_t before = 0;
  for (std::uint32_t window = 0; window < windows(); ++window) {
    std::uint8_t count = 0;
    before_[window] = before;
    each_exception(own, values, window, before, [&](std::uint32_t, float) { ++count; });
    counts_up_[window] = static_cast<std::byte>(count);
    before += static_cast<std::uint32_t>(std::popcount(own.marks()[window]));
  }
  std::fill(touched_.begin(), touched_.end(), 0u);
  next_ = 0;
  return {{.op = Op::max, .bits = 8, .count = windows()}, counts_up_, counts_down_, only};
}

Status Exceptions::take_windows(const Answer& answer, bool counted) {
  for (std::uint32_t window = 0; window < windows(); ++window) {
    const auto agreed = std::to_integer<std::uint32_t>(answer.down[window]);
    if (agreed > kWindow) return malformed("lossless: more exceptions than a window has room for");
    if (counted && agreed < std::to_integer<std::uint32_t>(counts_up_[window])) {
      return malformed("lossless: fewer exceptions agreed on than I have");
    }
  }
  return ok();
}

std::size_t Exceptions::write_list(const Own& own, const Values& values, std::uint32_t window,
                                   std::span<std::byte> to) const {
  std::size_t size = 0;
  each_exception(own, values, window, before_[window], [&](std::uint32_t place, float value) {
    to[size] = static_cast<std::byte>(place);
    store_le(to, size + 1, value);
    size += kEntry;
  });
  return size;
}

std::span<const Round> Exceptions::ask_lists(const Own& own, const Values& values, Workers only) {
  used_ = 0;
  std::size_t at = 0;
  for (; next_ < windows() && used_ < lists_max_; ++next_) {
    const auto agreed = std::to_integer<std::uint32_t>(counts_down_[next_]);
    if (agreed == 0) continue;
    const Reduction what{
        .op = Op::gather, .bits = 8, .count = agreed * static_cast<std::uint32_t>(kEntry)};
    const auto up = up_.subspan(used_ * kListMax, kListMax);
    const std::size_t size = write_list(own, values, next_, up);
    const std::size_t room = down_size_max(what, extent_.workers);
    rounds_[used_] = {what, up.first(size), down_.subspan(at, room), only};
    asked_[used_++] = next_;
    at += room;
  }
  return rounds_.first(used_);
}

Status Exceptions::take_lists(std::span<const Answer> answers, const Values& values,
                              bitmaps::Words marks, std::uint32_t divisor) {
  for (std::size_t i = 0; i < used_; ++i) {
    SLUICE_TRY(join(answers[i], rounds_[i], asked_[i], values, marks, divisor));
  }
  return ok();
}

Status Exceptions::join(const Answer& answer, const Round& round, std::uint32_t window,
                        const Values& values, bitmaps::Words marks, std::uint32_t divisor) {
  std::array<ExactSum, kWindow> sums;
  std::uint64_t touched = 0;
  MessageReader reader(round.what, answer);
  for (;;) {
    SLUICE_TRY_ASSIGN(const auto message, reader.next());
    if (!message) break;
    if (message->bytes.size() % kEntry != 0) return malformed("lossless: an exception cut off");
    int last = -1;
    for (std::size_t at = 0; at < message->bytes.size(); at += kEntry) {
      const int place = std::to_integer<int>(message->bytes[at]);
      if (place <= last || place >= int{kWindow} || (marks[window] >> place & 1) == 0) {
        return malformed("lossless: an exception out of order or where no value is");
      }
      sums[static_cast<std::size_t>(place)].add(load_le<float>(message->bytes, at + 1));
      touched |= std::uint64_t{1} << place;
      last = place;
    }
  }
  const std::uint32_t block = values.block_of(window * kWindow);
  const std::uint32_t first = values.first_of(block) / kWindow;
  const auto before =
      static_cast<std::uint32_t>(bitmaps::count(marks.subspan(first, window - first)));
  for (std::uint64_t left = touched; left != 0; left &= left - 1) {
    const auto place = static_cast<std::uint32_t>(std::countr_zero(left));
    const std::uint64_t in_front = marks[window] & ((std::uint64_t{1} << place) - 1);
    const std::uint32_t rank = before + static_cast<std::uint32_t>(std::popcount(in_front));
    sums[place].add(values.sum_at(block, rank), values.format(block).quantum);
    means_[window * kWindow + place] = sums[place].mean(divisor);
  }
  touched_[window] = touched;
  return ok();
}

void Exceptions::overwrite(std::span<float> mean) const {
  for (std::uint32_t window = 0; window < windows(); ++window) {
    for (std::uint64_t left = touched_[window]; left != 0; left &= left - 1) {
      const std::uint32_t i = window * kWindow + static_cast<std::uint32_t>(std::countr_zero(left));
      mean[i] = means_[i];
    }
  }
}

}  // namespace sluice::lossless
