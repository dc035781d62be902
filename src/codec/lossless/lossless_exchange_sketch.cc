// Index and values in one step: what an exchange does when it begins with a sketch.
#include <algorithm>
#include <bit>

#include "base/bytes.h"
#include "codec/lossless/lossless_exchange.h"

namespace sluice::lossless {
namespace {

constexpr int kTopMargin = 1;  // binary places that the largest values may grow from step to step
constexpr int kLowMargin = 2;  // … and the smallest may shrink

// An eighth more keys than the last time.
std::uint32_t assumed_keys(std::uint32_t last, std::uint32_t most) {
  return std::min(last + last / 8 + 16, most);
}

}  // namespace

// A format with the margins, whose last bits are not left unused.
fixedpoint::Format LosslessExchange::assumed_format() const {
  if (remembered_.range.top == 0 || remembered_.range.top > fixedpoint::kTopMax ||
      remembered_.range.low > fixedpoint::kLowMax) {
    return {};
  }
  const fixedpoint::Range wider{static_cast<std::uint16_t>(std::min<int>(
                                    remembered_.range.top + kTopMargin, fixedpoint::kTopMax)),
                                static_cast<std::uint16_t>(std::min<int>(
                                    remembered_.range.low + kLowMargin, fixedpoint::kLowMax))};
  const unsigned bits = fixedpoint::format_for(wider, chunk_.extent.workers).bits;
  return fixedpoint::format_of(wider.top, bits, chunk_.extent.workers);
}

// Scattered or side by side: full units would ask for a few more, without which some of their keys
// may be stuck; that is less than to send all of them again.
std::uint32_t LosslessExchange::assumed_rows() const {
  const std::uint32_t keys = assumed_keys(remembered_.keys - 1, sketched_.keys_max());
  return sketched_.rows_for(keys, divide_up(keys, 4u));
}

bool LosslessExchange::sketch_pays() const {
  const fixedpoint::Format format = assumed_format();
  if (remembered_.keys <= 1 || format.bits == 0 || settings_.sum == Sum::floats) return false;
  if (settings_.index != IndexKind::automatic && settings_.index != IndexKind::bitmap &&
      settings_.index != IndexKind::bloom) {
    return false;
  }
  const double keys = remembered_.keys - 1;
  if (keys > sketched_.keys_max()) return false;
  const Outlook outlook{.count = chunk_.extent.count,
                        .workers = chunk_.extent.workers,
                        .keys = keys,
                        .keys_min = keys,
                        .keys_max = keys,
                        .total = keys};
  const double bitmap = chunk_.extent.count / 8.0;
  const double buckets = assumed_rows() * sketch::kUnit;
  const double together = bitmap + buckets * format.bits / 8 + settings_.leg_bytes;
  const std::uint32_t granule = first_granule(outlook, settings_.leg_bytes);
  const double apart = tiers_cost(outlook, granule, -1, settings_.leg_bytes) +
                       keys * format.bits / 8 + 2.0 * settings_.leg_bytes;
  return together < apart;
}

Result<Leg> LosslessExchange::ask_together() {
  count(Count::chunks_sketch, 1);
  values_.cut(std::max(kBlockMin, std::bit_ceil(chunk_.extent.count)));
  const fixedpoint::Format format = assumed_format();
  const std::uint32_t last = remembered_.keys == 0 ? 0 : remembered_.keys - 1;
  IndexPlan plan;
  if (settings_.index == IndexKind::bloom && last != 0) {
    plan.kind = IndexKind::bloom;
    plan.bloom =
        bloom_shape(chunk_.extent.count, last + last / 8.0 + 16, std::max(format.bits, 8u) * 5 / 4);
  }
  index_.begin(plan, {.count = chunk_.extent.count}, own_.marks());
  rounds_[0] = index_.ask(chunk_.only);
  rounds_[1] = values_.ask_ranges(own_, chunk_.only);
  count(Count::index_bytes, rounds_[0].up.size());
  count(Count::header_bytes, rounds_[1].up.size());
  at_ = At::together;
  asked_ = std::span(rounds_).first(2);
  with_sketch_ = format.bits != 0 && last != 0 && last <= sketched_.keys_max();
  if (!with_sketch_) return ask(asked_);

  const bool fits = own_.count() <= sketched_.keys_max();
  const std::uint32_t rows = assumed_rows();
  values_.assume(format);
  values_.lay_out(own_.marks());
  const std::size_t misfits = values_.encode(own_);
  // Few misfits are exceptions; many, or one that is too large, and the format is no good.
  const bool unfit = !fits || misfits > own_.count() / 64 + 1 ||
                     values_.own_range().top > remembered_.range.top + kTopMargin;
  rounds_[2] = sketched_.ask(fits ? own_.marks() : bitmaps::Words{},
                             fits ? values_.encoded() : std::span<const std::byte>{}, format.bits,
                             rows, chunk_.only);
  rounds_[3] = ask_misfits(misfits, unfit, chunk_.only);
  count(Count::value_bytes, rounds_[2].up.size() + rounds_[3].up.size());
  asked_ = std::span(rounds_).first(4);
  return ask(asked_);
}

bool LosslessExchange::sketch_fits(std::span<const Answer> answers) const {
  const auto keys = static_cast<std::uint32_t>(bitmaps::count(index_.marks()));
  const bool unfit = load_le<std::uint32_t>(answers[3].down, 4) != 0;
  return !unfit && keys <= assumed_keys(remembered_.keys - 1, sketched_.keys_max());
}

Result<Leg> LosslessExchange::after_together(std::span<const Answer> answers) {
  const Workers counted = answers[0].parts[0].from;
  bool alike = true;
  for (const Answer& answer : answers.subspan(1)) {
    for (const Part& part : answer.parts) alike = alike && part.from == counted;
  }
  count_in(counted);
  SLUICE_TRY(index_.take(answers[0], counted_));
  if (alike) SLUICE_TRY(values_.take_ranges(answers[1], counted_));
  const bool was_with = with_sketch_;
  if (was_with && alike && sketch_fits(answers)) {
    values_.assume(assumed_format());
    values_.lay_out(index_.marks());
    count(Count::union_keys, values_.keys());
    count(Count::exceptions, values_.encode(own_));
    return take_sketch();
  }
  if (was_with) count(Count::sketches_again, 1);
  // The places are known: packed values are fewer than buckets, unless a sketch was asked for.
  as_sketch_ = settings_.mode == Mode::sketch;
  return alike ? ask_values() : ask_ranges();
}

Result<Leg> LosslessExchange::take_sketch() {
  SLUICE_TRY_ASSIGN(const std::uint32_t stuck, sketched_.take(index_.marks(), values_.encoded()));
  if (stuck == 0) {
    sketched_.write(values_.sums());
    return after_values(misfits_down_);
  }
  count(Count::stuck_keys, stuck);
  rounds_[0] = sketched_.ask_stuck(only_);
  return ask_these(At::stuck, 1, Count::value_bytes);
}

}  // namespace sluice::lossless
