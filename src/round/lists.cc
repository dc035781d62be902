#include "round/lists.h"

#include "base/bytes.h"

namespace sluice {
namespace {
Error malformed(const char* what) { return Error{Code::malformed, 0, what}; }
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

Result<std::optional<Block>> BlockReader::next() {
  if (!left_) {
    if (count_ == 0 && rest_.empty()) return std::optional<Block>{};  // a round of no lanes
    if (rest_.size() < kBlockListHeader) return malformed("block_sum: header cut off");
    left_ = load_le<std::uint32_t>(rest_);
    rest_ = rest_.subspan(kBlockListHeader);
  }
  if (*left_ == 0) {
    if (!rest_.empty()) return malformed("block_sum: bytes after the last block");
    return std::optional<Block>{};
  }
  if (rest_.size() < size_) return malformed("block_sum: fewer blocks than stated");
  const auto number = load_le<std::uint32_t>(rest_);
  if (std::int64_t{number} <= number_last_ || number >= count_) {
    return malformed("block_sum: block number out of order or range");
  }
  const Block block{number, rest_.subspan(kBlockHeader, size_ - kBlockHeader)};
  rest_ = rest_.subspan(size_);
  number_last_ = number;
  --*left_;
  return std::optional<Block>{block};
}

}  // namespace sluice
