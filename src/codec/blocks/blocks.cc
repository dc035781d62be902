#include "codec/blocks/blocks.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "codec/agreed_exchange.h"
#include "codec/input.h"
#include "round/block_sum.h"

namespace sluice::blocks {
namespace {

using Integers = std::array<std::byte, std::size_t{4} * AgreedBlocks::kSizeMax>;

// Blocks as block_sum counts them: those that somebody announced and everybody has finite.
Reduction sum_of(std::uint32_t announced, std::uint32_t block) {
  return {.op = Op::block_sum, .bits = 32, .count = announced * block, .grain = block};
}

// Whether the block is in the sum.
bool is_announced(const AgreedBlocks& blocks, std::uint32_t b) {
  return blocks.exponent(b) != 0 && blocks.is_finite(b);
}

// Whether this worker sends it.
bool has_own(const AgreedBlocks& blocks, std::uint32_t b) {
  return blocks.counted() && blocks.own_exponent(b) != 0;
}

// Of coordinates of which this worker sent nothing: all zero, or not counted.
void tell_zeros(const AgreedBlocks& blocks, std::uint32_t first, std::uint32_t count) {
  if (!blocks.counted()) return keep_everything(blocks.chunk(), first, count);
  tell_all_sent(blocks.chunk(), first, count);
}

class BlocksDecoder {
 public:
  BlocksDecoder(const AgreedBlocks& blocks, const Round& round, std::span<const std::byte> down)
      : blocks_(blocks), what_(round.what), reader_(round.what, down) {}

  std::uint32_t decode(std::uint32_t b) {
    if (!is_announced(blocks_, b)) return decode_zeros(b);
    decode_block(b, **reader_.next());
    return b + 1;
  }

 private:
  // What was sent is made once more, where a keeper asks: that costs less than finding it.
  void decode_block(std::uint32_t b, const Block& block) {
    Integers memory;
    const auto integers = std::span(memory).first(std::size_t{4} * blocks_.block());
    if (has_own(blocks_, b) && blocks_.chunk().keeper != nullptr) {
      blocks_.encode(b, integers);
      blocks_.tell(b, integers);
    } else {
      tell_zeros(blocks_, blocks_.first(b), blocks_.size(b));
    }
    if (block.form == BlockForm::dense) return blocks_.decode(b, block.body);
    std::fill(integers.begin(), integers.end(), std::byte{0});
    add_block(what_, block, integers);
    blocks_.decode(b, integers);
  }

  // A run of blocks that nobody has, at once: it may be most of the chunk. Returns its end.
  std::uint32_t decode_zeros(std::uint32_t b) {
    std::uint32_t end = b;
    while (end < blocks_.count() && blocks_.exponent(end) == 0) ++end;
    const std::uint32_t first = blocks_.first(b);
    const std::uint32_t count = std::min(blocks_.chunk().extent.count, blocks_.first(end)) - first;
    tell_zeros(blocks_, first, count);
    const auto mean = blocks_.chunk().mean.subspan(first, count);
    std::fill(mean.begin(), mean.end(), 0.0f);
    return end;
  }

  const AgreedBlocks& blocks_;
  Reduction what_;
  BlockReader reader_;
};

// The exponents tell everybody the blocks that somebody has; of these each worker sends its own.
struct OwnBlocks {
  static constexpr const char* kAnswerPerRound = "blocks: an answer per round expected";
  static constexpr auto kExponents = &blockfloat::sparse_exponents;
  using Decoder = BlocksDecoder;

  static Reduction sum_max(const AgreedBlocks& blocks) {
    return sum_of(blocks.count(), blocks.block());
  }

  static Reduction sum(const AgreedBlocks& blocks) {
    std::uint32_t announced = 0;
    for (std::uint32_t b = 0; b < blocks.count(); ++b) {
      if (is_announced(blocks, b)) ++announced;
    }
    return sum_of(announced, blocks.block());
  }

  static std::size_t encode(const AgreedBlocks& blocks, const Reduction& what,
                            std::span<std::byte> up) {
    if (what.count == 0) return 0;
    Integers memory;
    const auto integers = std::span(memory).first(std::size_t{4} * blocks.block());
    std::size_t used = kBlockListHeader;
    std::uint32_t number = 0;
    std::uint32_t own_count = 0;
    for (std::uint32_t b = 0; b < blocks.count(); ++b) {
      if (!is_announced(blocks, b)) continue;
      if (has_own(blocks, b)) {
        blocks.encode(b, integers);
        const auto beyond = integers.subspan(std::size_t{4} * blocks.size(b));
        std::fill(beyond.begin(), beyond.end(), std::byte{0});
        used += write_block(what, number, integers, up.subspan(used));
        ++own_count;
      }
      ++number;
    }
    store_le(up, 0, own_count);
    return used;
  }

  // Whoever announced a block sent it, so the sum has them all.
  static Status check(const Reduction& what, std::span<const std::byte> down) {
    BlockReader reader(what, down);
    std::uint32_t seen = 0;
    while (true) {
      SLUICE_TRY_ASSIGN(const auto block, reader.next());
      if (!block) break;
      ++seen;
    }
    return seen == what.count / what.grain
               ? ok()
               : Status(Error{Code::malformed, 0, "blocks: an announced block is not in the sum"});
  }
};

}  // namespace

Checked<std::unique_ptr<Codec>> make(const OptionValues& options) {
  return make_agreed<OwnBlocks>(options);
}

}  // namespace sluice::blocks
