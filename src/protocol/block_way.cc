#include "protocol/block_way.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/bytes.h"
#include "round/block_sum.h"

namespace sluice::protocol {
namespace {

Error malformed(const char* what) { return Error{Code::malformed, 0, what}; }

bool has_bit(std::span<const std::byte> bits, std::uint32_t number) {
  return (std::to_integer<unsigned>(bits[number / 8]) >> number % 8 & 1) != 0;
}

std::size_t integer_size(const Reduction& what) { return what.bits / 8u; }

}  // namespace

void BlockWay::begin(const Reduction& what, std::span<const std::byte> up, bool is_counted,
                     std::size_t payload_max) {
  SLUICE_ASSERT(what.op == Op::block_sum && what.grain % 8 == 0);
  SLUICE_ASSERT(payload_max > kBlockListHeader + kBlockHeader);
  what_ = what;
  up_ = up;
  is_counted_ = is_counted;
  fused_ = static_cast<std::uint32_t>((payload_max - kBlockListHeader) / block_size_max(what));
  const std::size_t room = payload_max - kBlockListHeader - kBlockHeader;
  part_lanes_ = static_cast<std::uint32_t>(room / integer_size(what) / 8 * 8);
  SLUICE_ASSERT(part_lanes_ > 0);
  parts_ = is_cut() ? divide_up(what.grain, part_lanes_) : 1;
  pieces_ = 0;
  present_.assign(bytes_for_bits(block_count(what)), std::byte{0});
  united_.assign(present_.size(), std::byte{0});
  BlockReader blocks(what, up);
  for (auto block = blocks.next(); block && *block; block = blocks.next()) {
    const std::uint32_t number = (*block)->number;
    present_[number / 8] |= static_cast<std::byte>(1u << number % 8);
  }
}

Reduction BlockWay::presence() const {
  return {.op = Op::max, .bits = 1, .count = block_count(what_)};
}

// --- the schedule ---

Status BlockWay::plan() {
  union_.clear();
  for (std::uint32_t number = 0; number < block_count(what_); ++number) {
    if (has_bit(united_, number)) union_.push_back(number);
  }
  const auto blocks = static_cast<std::uint32_t>(union_.size());
  pieces_ = is_cut() ? blocks * parts_ : divide_up(blocks, fused_);
  ups_.assign(pieces_, {});
  downs_.assign(pieces_, {});
  used_ = 0;
  if (is_cut()) {
    grow(integers_, block_size_max(what_));
    grow(sums_, blocks * body_size(what_, BlockForm::dense, 0));
    std::ranges::fill(sums_.bytes(), std::byte{0});
  }
  if (!is_counted_) return ok();
  // The bytes of the round, with a header for each piece and for each part of a block.
  const std::size_t header = kBlockListHeader + kBlockHeader + sizeof(std::uint16_t);
  grow(memory_, up_.size() + pieces_ * header + (is_cut() ? blocks * block_size_max(what_) : 0));
  BlockReader reader(what_, up_);
  std::uint32_t place = 0;  // in the union
  while (true) {
    SLUICE_TRY_ASSIGN(const auto block, reader.next());
    if (!block) return ok();
    while (place < blocks && union_[place] < block->number) ++place;
    if (place == blocks || union_[place] != block->number) {
      return malformed("result: blocks of this worker are not in the union");
    }
    if (is_cut()) {
      add_parts(place, *block);
    } else {
      add_up(place / fused_, *block, place % fused_);
    }
  }
}

std::uint32_t BlockWay::count_of(std::uint32_t piece) const {
  return std::min(fused_, static_cast<std::uint32_t>(union_.size()) - first_of(piece));
}

Reduction BlockWay::what_of(std::uint32_t piece) const {
  SLUICE_ASSERT(piece < pieces_);
  Reduction what = what_;
  if (is_cut()) {
    what.grain = std::min(part_lanes_, what_.grain - piece % parts_ * part_lanes_);
    what.count = what.grain;
  } else {
    what.count = count_of(piece) * what_.grain;
  }
  return what;
}

std::span<const std::byte> BlockWay::up_of(std::uint32_t piece) const {
  SLUICE_ASSERT(piece < pieces_);
  return memory_.bytes().subspan(ups_[piece].at, ups_[piece].size);
}

// A block as it is, under its number in the piece. Blocks come in order.
void BlockWay::add_up(std::uint32_t piece, const Block& block, std::uint32_t number) {
  Run& run = ups_[piece];
  const std::span<std::byte> memory = memory_.bytes();
  if (run.size == 0) {
    run = {used_, kBlockListHeader};
    used_ += kBlockListHeader;
    store_le<std::uint32_t>(memory, run.at, 0);
  }
  store_le<std::uint32_t>(memory, run.at, load_le<std::uint32_t>(memory, run.at) + 1);
  store_le(memory, used_, number);
  store_le(memory, used_ + sizeof number, static_cast<std::uint8_t>(block.form));
  std::ranges::copy(block.body, memory.subspan(used_ + kBlockHeader).begin());
  const std::size_t size = kBlockHeader + block.body.size();
  SLUICE_DASSERT(number < fused_ && run.at + run.size == used_);
  run.size += size;
  used_ += size;
}

// Also those of its parts that are all zeros: every piece has somebody who sends.
void BlockWay::add_parts(std::uint32_t place, const Block& block) {
  const auto integers = integers_.bytes().first(body_size(what_, BlockForm::dense, 0));
  std::ranges::fill(integers, std::byte{0});
  add_block(what_, block, integers);
  std::size_t first = 0;
  for (std::uint32_t part = 0; part < parts_; ++part) {
    const std::uint32_t piece = place * parts_ + part;
    const Reduction what = what_of(piece);
    const std::size_t size = what.grain * integer_size(what);
    const auto memory = memory_.bytes().subspan(used_);
    store_le<std::uint32_t>(memory, 0, 1);
    const std::size_t written =
        kBlockListHeader +
        write_block(what, 0, integers.subspan(first, size), memory.subspan(kBlockListHeader));
    ups_[piece] = {used_, written};
    used_ += written;
    first += size;
  }
}

// --- answers ---

// Each piece has a room of its own, which it need not fill.
Status BlockWay::accept(std::uint32_t piece, std::span<const std::byte> payload,
                        std::span<std::byte> down) {
  SLUICE_ASSERT(piece < pieces_);
  if (is_cut()) return accept_part(piece, payload);
  BlockReader blocks(what_of(piece), payload);
  Run run{kBlockListHeader + first_of(piece) * block_size_max(what_), 0};
  for (std::uint32_t i = 0; i < count_of(piece); ++i) {
    SLUICE_TRY_ASSIGN(const auto block, blocks.next());
    if (!block || block->number != i) return malformed("result: a block of the union is missing");
    const auto into = down.subspan(run.at + run.size, kBlockHeader + block->body.size());
    store_le(into, 0, union_[first_of(piece) + i]);
    store_le(into, sizeof(std::uint32_t), static_cast<std::uint8_t>(block->form));
    std::ranges::copy(block->body, into.subspan(kBlockHeader).begin());
    run.size += into.size();
  }
  SLUICE_TRY_ASSIGN(const auto more, blocks.next());
  SLUICE_ASSERT(!more);
  downs_[piece] = run;
  return ok();
}

std::span<std::byte> BlockWay::sums_of(std::uint32_t piece) {
  const std::size_t block = piece / parts_ * body_size(what_, BlockForm::dense, 0);
  const std::size_t part = std::size_t{piece % parts_} * part_lanes_ * integer_size(what_);
  return sums_.bytes().subspan(block + part, what_of(piece).grain * integer_size(what_));
}

Status BlockWay::accept_part(std::uint32_t piece, std::span<const std::byte> payload) {
  const Reduction what = what_of(piece);
  BlockReader blocks(what, payload);
  SLUICE_TRY_ASSIGN(const auto block, blocks.next());
  if (!block) return malformed("result: a block of the union is missing");
  SLUICE_TRY_ASSIGN(const auto more, blocks.next());
  SLUICE_ASSERT(!more);
  add_block(what, *block, sums_of(piece));
  return ok();
}

std::size_t BlockWay::finish(std::span<std::byte> down) {
  std::size_t used = kBlockListHeader;
  if (is_cut()) {
    const std::size_t size = body_size(what_, BlockForm::dense, 0);
    for (std::size_t i = 0; i < union_.size(); ++i) {
      used +=
          write_block(what_, union_[i], sums_.bytes().subspan(i * size, size), down.subspan(used));
    }
  }
  for (const Run& run : downs_) {
    SLUICE_DASSERT(used <= run.at || run.size == 0);
    if (used != run.at) std::memmove(down.data() + used, down.data() + run.at, run.size);
    used += run.size;
  }
  store_le(down, 0, static_cast<std::uint32_t>(union_.size()));
  return used;
}

}  // namespace sluice::protocol
