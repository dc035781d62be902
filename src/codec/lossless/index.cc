#include "codec/lossless/index.h"

#include <algorithm>

#include "base/assert.h"
#include "base/bytes.h"
#include "codec/lossless/bloom.h"
#include "codec/lossless/elias_fano.h"
#include "round/lists.h"

namespace sluice::lossless {
namespace {

// Fewer positions, or fewer places, never take more bytes than this beyond those of more.
constexpr std::size_t kListSlack = 8;

Error malformed(const char* what) { return Error{Code::malformed, 0, what}; }

std::size_t list_room(const Extent& extent, bool lists) {
  const std::size_t bitmap = bitmaps::words_for(extent.count) + 2;
  if (!lists) return bitmap;
  // list_size_max() of any number of positions.
  const std::size_t list_max = elias_fano_size(extent.count, extent.count) + 2 * kListSlack;
  const std::size_t each = kMessageHeader + list_max;
  return std::max(bitmap, divide_up(each * extent.workers, sizeof(std::uint64_t)) + 1);
}

}  // namespace

Index::Index(const Extent& extent, std::uint64_t key, Arena& arena, bool lists)
    : extent_(extent),
      key_(key),
      words_(bitmaps::words_for(extent.count)),
      known_(arena.place<std::uint64_t>(words_ + 1)),
      mask_(arena.place<std::uint64_t>(words_ + 1)),
      up_(arena.place<std::uint64_t>(std::max(
          words_ + 2, elias_fano_size(extent.count, extent.count) / sizeof(std::uint64_t) + 2))),
      down_(arena.place<std::uint64_t>(list_room(extent, lists))),
      scratch_(arena.place<std::uint64_t>(words_ + 1)) {}

void Index::begin_with_all() {
  plan_ = {};
  bitmaps::fill(extent_.count, known_);
  complete_ = true;
}

void Index::begin(const IndexPlan& plan, const Outlook& outlook, bitmaps::Words own) {
  plan_ = plan;
  outlook_ = outlook;
  own_ = own;
  granule_ = 0;
  as_lists_ = plan.kind == IndexKind::gather;
  complete_ = false;
}

Round Index::ask(Workers only) {
  SLUICE_ASSERT(!complete_);
  if (as_lists_) return ask_lists(only);
  switch (plan_.kind) {
    case IndexKind::bloom: ask_bloom(); break;
    case IndexKind::rows: ask_rows(); break;
    default: ask_granules();
  }
  const std::size_t size = bytes_for_bits(asked_bits_);
  return {{.op = Op::max, .bits = 1, .count = asked_bits_},
          std::as_bytes(up_).first(size),
          std::as_writable_bytes(down_).first(size),
          only};
}

void Index::ask_granules() {
  if (granule_ == 0) {
    asked_granule_ = plan_.kind == IndexKind::tiers ? plan_.granule : 1;
    asked_bits_ = granules(asked_granule_);
    return fold_own(asked_granule_, up_);
  }
  const auto marked = static_cast<double>(bitmaps::count(known_));
  asked_granule_ = next_granule(outlook_, granule_, marked, plan_.leg_bytes);
  widen_known(granule_, asked_granule_, mask_);
  fold_own(asked_granule_, scratch_);
  const std::size_t words = bitmaps::words_for(granules(asked_granule_));
  asked_bits_ =
      static_cast<std::uint32_t>(bitmaps::extract(mask_.first(words), scratch_.first(words), up_));
}

void Index::ask_rows() {
  const auto row = static_cast<std::uint32_t>(extent_.tensor.cols);
  if (granule_ == 0) {
    asked_granule_ = row;
    asked_bits_ = divide_up(extent_.count + phase(), row);
    return bitmaps::fold(own_, extent_.count, row, phase(), up_);
  }
  bitmaps::widen(known_, extent_.count, row, phase(), mask_.first(words_));
  asked_granule_ = 1;
  asked_bits_ =
      static_cast<std::uint32_t>(bitmaps::extract(mask_.first(words_), own_.first(words_), up_));
}

void Index::ask_bloom() {
  asked_granule_ = 1;
  asked_bits_ = plan_.bloom.bits;
  std::fill(up_.begin(), up_.end(), 0u);
  fill_bloom(key_, plan_.bloom, own_.first(words_), up_);
}

Round Index::ask_lists(Workers only) {
  if (granule_ == 0) {
    bitmaps::fill(extent_.count, mask_);
  } else {
    widen_known(granule_, 1, mask_);
    bitmaps::trim(extent_.count, mask_);
  }
  asked_bits_ = static_cast<std::uint32_t>(
      bitmaps::extract(mask_.first(words_), own_.first(words_), scratch_));
  const std::size_t words = bitmaps::words_for(asked_bits_);
  const std::size_t size =
      write_elias_fano(scratch_.first(words), asked_bits_, std::as_writable_bytes(up_));
  const std::size_t each = list_size_max(asked_bits_);
  const Reduction what{.op = Op::gather, .bits = 8, .count = static_cast<std::uint32_t>(each)};
  return {what, std::as_bytes(up_).first(size),
          std::as_writable_bytes(down_).first(down_size_max(what, extent_.workers)), only};
}

Status Index::take(const Answer& answer, bool counted) {
  SLUICE_TRY(as_lists_ ? take_lists(answer) : take_bits(counted));
  if (granule_ == 1 && !complete_) {
    complete_ = true;
    if (counted && !bitmaps::is_subset(own_.first(words_), known_)) {
      return malformed("lossless: an agreed index without my own values");
    }
  }
  if (!complete_) after_tier();
  return ok();
}

Status Index::take_bits(bool counted) {
  bitmaps::trim(asked_bits_, down_.first(bitmaps::words_for(asked_bits_) + 1));
  if (plan_.kind == IndexKind::bloom) {
    test_bloom(key_, plan_.bloom, down_, extent_.count, known_.first(words_));
    granule_ = 1;
    return ok();
  }
  if (counted &&
      !bitmaps::is_subset(std::span(up_).first(bitmaps::words_for(asked_bits_)), down_)) {
    return malformed("lossless: an agreed tier without my own values");
  }
  const bool rows = plan_.kind == IndexKind::rows && granule_ == 0;
  const std::size_t words = bitmaps::words_for(rows ? asked_bits_ : granules(asked_granule_));
  if (granule_ == 0) {
    std::copy_n(down_.begin(), words, known_.begin());
  } else {
    bitmaps::deposit(mask_.first(words), down_, known_.first(words));
  }
  std::fill(known_.begin() + static_cast<std::ptrdiff_t>(words), known_.end(), 0u);
  granule_ = asked_granule_;
  return ok();
}

Status Index::take_lists(const Answer& answer) {
  std::fill(scratch_.begin(), scratch_.end(), 0u);
  MessageReader reader({.op = Op::gather,
                        .bits = 8,
                        .count = static_cast<std::uint32_t>(list_size_max(asked_bits_))},
                       answer);
  for (;;) {
    SLUICE_TRY_ASSIGN(const auto message, reader.next());
    if (!message) break;
    SLUICE_TRY(read_elias_fano(message->bytes, asked_bits_, scratch_));
  }
  bitmaps::deposit(mask_.first(words_), scratch_, known_.first(words_));
  granule_ = 1;
  return ok();
}

// What the tier says of the chunk decides how to go on.
void Index::after_tier() {
  if (plan_.kind == IndexKind::rows) {
    plan_.whole_rows = plan_.whole_rows && bitmaps::count(known_) <= plan_.whole_rows_max;
    if (!plan_.whole_rows) return;
    const auto row = static_cast<std::uint32_t>(extent_.tensor.cols);
    std::copy(known_.begin(), known_.end(), scratch_.begin());
    bitmaps::widen(scratch_, extent_.count, row, phase(), known_.first(words_));
    granule_ = 1;
    complete_ = true;
    return;
  }
  const auto marked = static_cast<double>(bitmaps::count(known_));
  outlook_.keys = keys_of_granules(outlook_, granule_, marked);
  if (marked == 0) {
    std::fill(known_.begin(), known_.end(), 0u);
    granule_ = 1;
    complete_ = true;
  } else if (plan_.lists_allowed) {
    as_lists_ = lists_pay();
  }
}

bool Index::lists_pay() const {
  const auto marked = static_cast<double>(bitmaps::count(known_));
  const auto places =
      static_cast<std::uint32_t>(std::min(marked * granule_, static_cast<double>(extent_.count)));
  const std::size_t room = down_.size() * sizeof(std::uint64_t);
  // The last granule may have fewer places than the others.
  const std::size_t list_max = list_size_max(places) + kListSlack;
  if (extent_.workers * (kMessageHeader + list_max) > room) return false;
  return gather_cost(outlook_, places) + plan_.leg_bytes <
         tiers_cost(outlook_, granule_, marked, plan_.leg_bytes);
}

void Index::fold_own(std::uint32_t granule, std::span<std::uint64_t> into) {
  const auto own = own_.first(words_);
  if (granule == 1) {
    std::copy(own.begin(), own.end(), into.begin());
    return;
  }
  bitmaps::fold4(own, into.first(bitmaps::words_for(granules(4))));
  // In place: what is written lies before what is still read.
  for (std::uint32_t at = 4; at < granule; at *= 4) {
    const std::size_t fine = bitmaps::words_for(granules(at));
    const std::size_t coarse = bitmaps::words_for(granules(4 * at));
    for (std::size_t i = 0; i < coarse; ++i) {
      std::uint64_t word = 0;
      const auto from = into.subspan(4 * i, std::min<std::size_t>(4, fine - 4 * i));
      bitmaps::fold4(from, std::span(&word, 1));
      into[i] = word;
    }
  }
}

void Index::widen_known(std::uint32_t from, std::uint32_t to, std::span<std::uint64_t> into) {
  std::copy_n(known_.begin(), bitmaps::words_for(granules(from)), into.begin());
  // In place from the end: what is written lies behind what is still read.
  for (std::uint32_t at = from; at > to; at /= 4) {
    const std::size_t fine = bitmaps::words_for(granules(at / 4));
    for (std::size_t i = bitmaps::words_for(granules(at)); i-- > 0;) {
      const std::uint64_t word = into[i];
      bitmaps::widen4(std::span(&word, 1),
                      into.subspan(4 * i, std::min<std::size_t>(4, fine - 4 * i)));
    }
    bitmaps::trim(granules(at / 4), into.first(fine));
  }
}

std::uint32_t Index::granules(std::uint32_t granule) const {
  return divide_up(extent_.count, granule);
}

std::uint32_t Index::phase() const {
  return static_cast<std::uint32_t>(extent_.offset % extent_.tensor.cols);
}

std::size_t Index::list_size_max(std::uint32_t places) const {
  return elias_fano_size(std::min(plan_.each_max, places), places) + kListSlack;
}

}  // namespace sluice::lossless
