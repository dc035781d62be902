#include "round/lists.h"

#include <bit>

#include "base/assert.h"
#include "base/bytes.h"

namespace sluice {
namespace {

Error malformed(const char* what) { return Error{Code::malformed, 0, what}; }

std::uint32_t bits_set(std::span<const std::byte> bitmap) {
  int count = 0;
  std::size_t at = 0;
  for (; at + sizeof(std::uint64_t) <= bitmap.size(); at += sizeof(std::uint64_t)) {
    count += std::popcount(load_le<std::uint64_t>(bitmap, at));
  }
  for (; at < bitmap.size(); ++at) count += std::popcount(load_le<std::uint8_t>(bitmap, at));
  return static_cast<std::uint32_t>(count);
}

bool positions_ascend(const Reduction& what, std::span<const std::byte> body) {
  const std::size_t pair = sizeof(std::uint16_t) + what.bits / 8u;
  std::int32_t last = -1;
  for (std::size_t at = sizeof(std::uint16_t); at < body.size(); at += pair) {
    const std::int32_t position = load_le<std::uint16_t>(body, at);
    if (position <= last) return false;
    last = position;
  }
  return last < static_cast<std::int32_t>(what.grain);
}

}  // namespace

Result<std::optional<Message>> MessageReader::next() {
  if (rest_.empty()) {
    if (seen_ != from_.count()) return malformed("gather: a counted worker's message is missing");
    return std::optional<Message>{};
  }
  if (rest_.size() < kMessageHeader) return malformed("gather: header cut off");
  const auto rank = load_le<std::uint32_t>(rest_, 0);
  const auto size = load_le<std::uint32_t>(rest_, 4);
  if (std::int64_t{rank} <= rank_last_ || rank / 64 >= from_.words.size() || !from_.has(rank)) {
    return malformed("gather: rank out of order or not counted");
  }
  if (size > size_max_ || size > rest_.size() - kMessageHeader) {
    return malformed("gather: message longer than stated");
  }
  const Message message{rank, rest_.subspan(kMessageHeader, size)};
  rest_ = rest_.subspan(kMessageHeader + size);
  rank_last_ = rank;
  ++seen_;
  return std::optional<Message>{message};
}

std::size_t body_size(const Reduction& what, BlockForm form, std::uint32_t set) {
  const std::size_t integer = what.bits / 8u;
  switch (form) {
    case BlockForm::dense: return what.grain * integer;
    case BlockForm::bitmap: return what.grain / 8 + set * integer;
    case BlockForm::pairs: return sizeof(std::uint16_t) + set * (sizeof(std::uint16_t) + integer);
  }
  SLUICE_ASSERT(false);
}

std::uint32_t integers_set(const Reduction& what, BlockForm form, std::span<const std::byte> body) {
  switch (form) {
    case BlockForm::dense: return what.grain;
    case BlockForm::bitmap: return bits_set(body.first(what.grain / 8));
    case BlockForm::pairs: return load_le<std::uint16_t>(body);
  }
  SLUICE_ASSERT(false);
}

Result<std::span<const std::byte>> BlockReader::body(std::uint8_t form,
                                                     std::span<const std::byte> bytes) const {
  if (form > static_cast<std::uint8_t>(BlockForm::pairs)) {
    return malformed("block_sum: unknown form");
  }
  const auto is = static_cast<BlockForm>(form);
  if (bytes.size() < body_size(what_, is, 0)) return malformed("block_sum: block cut off");
  const std::size_t size = body_size(what_, is, integers_set(what_, is, bytes));
  if (size > body_size(what_, BlockForm::dense, 0)) {
    return malformed("block_sum: block longer than all its integers");
  }
  if (bytes.size() < size) return malformed("block_sum: block cut off");
  const auto body = bytes.first(size);
  if (is == BlockForm::pairs && !positions_ascend(what_, body)) {
    return malformed("block_sum: positions out of order or range");
  }
  return body;
}

Result<std::optional<Block>> BlockReader::next() {
  const std::uint32_t count = block_count(what_);
  if (!left_) {
    if (count == 0 && rest_.empty()) return std::optional<Block>{};  // a round of no lanes
    if (rest_.size() < kBlockListHeader) return malformed("block_sum: header cut off");
    left_ = load_le<std::uint32_t>(rest_);
    rest_ = rest_.subspan(kBlockListHeader);
  }
  if (*left_ == 0) {
    if (!rest_.empty()) return malformed("block_sum: bytes after the last block");
    return std::optional<Block>{};
  }
  if (rest_.size() < kBlockHeader) return malformed("block_sum: fewer blocks than stated");
  const auto number = load_le<std::uint32_t>(rest_);
  if (std::int64_t{number} <= number_last_ || number >= count) {
    return malformed("block_sum: block number out of order or range");
  }
  const auto form = load_le<std::uint8_t>(rest_, sizeof number);
  SLUICE_TRY_ASSIGN(const auto body, this->body(form, rest_.subspan(kBlockHeader)));
  rest_ = rest_.subspan(kBlockHeader + body.size());
  number_last_ = number;
  --*left_;
  return std::optional<Block>{Block{number, static_cast<BlockForm>(form), body}};
}

}  // namespace sluice
