#include "codec/blocks/blocks.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "codec/agreed_blocks.h"
#include "codec/input.h"
#include "round/block_sum.h"

namespace sluice::blocks {
namespace {

using Integers = std::array<std::byte, std::size_t{4} * AgreedBlocks::kSizeMax>;

// Blocks as block_sum counts them: those that somebody announced and everybody has finite.
Reduction sum_of(std::uint32_t announced, std::uint32_t block) {
  return {.op = Op::block_sum, .bits = 32, .count = announced * block, .grain = block};
}

// Two steps: the blocks' exponents by one max round, which tells everybody the blocks that somebody
// has; then of these each worker's own, as integers. Blocks that are not finite on some worker go
// behind them as float32, in a round of their own in the same step.
class BlocksExchange final : public Exchange {
 public:
  BlocksExchange(const Chunk& chunk, Arena& arena, std::uint32_t block)
      : block_(block),
        blocks_(chunk, arena, block),
        up_(arena.place<std::byte>(up_size(sum_of(blocks_.count(), block)))),
        down_(arena.place<std::byte>(up_.size())) {}

  Result<Leg> next(std::span<const Answer> answers) override {
    if (at_ != At::start && answers.size() != rounds_used_) {
      return Error{Code::malformed, 0, "blocks: an answer per round expected"};
    }
    for (std::size_t i = 0; i < answers.size(); ++i) {
      SLUICE_TRY(check_answer(rounds_[i], answers[i], chunk().extent.workers));
    }
    switch (at_) {
      case At::start: return ask_exponents();
      case At::exponents: return ask_values(answers[0]);
      case At::values: break;
    }
    SLUICE_TRY(check_sums(answers[0]));
    decode(answers);
    return done();
  }

 private:
  enum class At : std::uint8_t { start, exponents, values };

  Result<Leg> ask_exponents() {
    rounds_[0] = blocks_.ask(&blockfloat::sparse_exponents);
    rounds_used_ = 1;
    at_ = At::exponents;
    return ask(std::span(rounds_).first(rounds_used_));
  }

  Result<Leg> ask_values(const Answer& answer) {
    SLUICE_TRY(blocks_.agree(answer));
    std::uint32_t odd_count = 0;
    for (std::uint32_t b = 0; b < blocks_.count(); ++b) {
      if (is_announced(b)) ++announced_;
      if (!blocks_.is_finite(b)) odd_count += blocks_.size(b);
    }
    const Reduction sum = sum_of(announced_, block_);
    const Reduction odd{.op = Op::f32_sum, .bits = 32, .count = odd_count, .grain = block_};
    const std::size_t border = up_size(sum);
    rounds_[0] = {sum, up_.first(encode_blocks(sum)), down_.first(border), blocks_.only()};
    encode_odd(up_.subspan(border, up_size(odd)));
    rounds_[1] = {odd, up_.subspan(border, up_size(odd)), down_.subspan(border, up_size(odd)),
                  blocks_.only()};
    rounds_used_ = odd_count == 0 ? 1 : 2;
    at_ = At::values;
    return ask(std::span(rounds_).first(rounds_used_));
  }

  // Returns the bytes of the list.
  std::size_t encode_blocks(const Reduction& sum) {
    if (announced_ == 0) return 0;
    Integers memory;
    const auto integers = std::span(memory).first(std::size_t{4} * block_);
    std::size_t used = kBlockListHeader;
    std::uint32_t number = 0;
    std::uint32_t own_count = 0;
    for (std::uint32_t b = 0; b < blocks_.count(); ++b) {
      if (!is_announced(b)) continue;
      if (has_own(b)) {
        blocks_.encode(b, integers);
        const auto beyond = integers.subspan(std::size_t{4} * blocks_.size(b));
        std::fill(beyond.begin(), beyond.end(), std::byte{0});
        used += write_block(sum, number, integers, up_.subspan(used));
        ++own_count;
      }
      ++number;
    }
    store_le(up_, 0, own_count);
    return used;
  }

  void encode_odd(std::span<std::byte> to) const {
    for (std::uint32_t b = 0; b < blocks_.count(); ++b) {
      if (blocks_.is_finite(b)) continue;
      blocks_.encode(b, to);
      to = to.subspan(std::size_t{4} * blocks_.size(b));
    }
  }

  // Whoever announced a block sent it, so the sum has them all.
  [[nodiscard]] Status check_sums(const Answer& answer) const {
    BlockReader reader(rounds_[0].what, answer.down);
    std::uint32_t seen = 0;
    while (true) {
      SLUICE_TRY_ASSIGN(const auto block, reader.next());
      if (!block) break;
      ++seen;
    }
    return seen == announced_
               ? ok()
               : Status(Error{Code::malformed, 0, "blocks: an announced block is not in the sum"});
  }

  void decode(std::span<const Answer> answers) {
    BlockReader reader(rounds_[0].what, answers[0].down);
    auto odd_up = rounds_[1].up;
    auto odd_down = answers.size() == 1 ? std::span<const std::byte>() : answers[1].down;
    for (std::uint32_t b = 0; b < blocks_.count();) {
      if (is_announced(b)) {
        decode_block(b, **reader.next());
      } else if (blocks_.is_finite(b)) {
        b = decode_zeros(b);
        continue;
      } else {
        const std::size_t size = std::size_t{4} * blocks_.size(b);
        blocks_.tell(b, odd_up.first(size));
        blocks_.decode(b, odd_down.first(size));
        odd_up = odd_up.subspan(size);
        odd_down = odd_down.subspan(size);
      }
      ++b;
    }
  }

  // What was sent is made once more, where a keeper asks: that costs less than finding it.
  void decode_block(std::uint32_t b, const Block& block) {
    Integers memory;
    const auto integers = std::span(memory).first(std::size_t{4} * block_);
    if (has_own(b) && chunk().keeper != nullptr) {
      blocks_.encode(b, integers);
      blocks_.tell(b, integers);
    } else {
      tell_zeros(blocks_.first(b), blocks_.size(b));
    }
    if (block.form == BlockForm::dense) return blocks_.decode(b, block.body);
    std::fill(integers.begin(), integers.end(), std::byte{0});
    add_block(rounds_[0].what, block, integers);
    blocks_.decode(b, integers);
  }

  // A run of blocks that nobody has, at once: it may be most of the chunk. Returns its end.
  std::uint32_t decode_zeros(std::uint32_t b) {
    std::uint32_t end = b;
    while (end < blocks_.count() && blocks_.exponent(end) == 0) ++end;
    const std::uint32_t first = blocks_.first(b);
    const std::uint32_t count = std::min(chunk().extent.count, blocks_.first(end)) - first;
    tell_zeros(first, count);
    const auto mean = chunk().mean.subspan(first, count);
    std::fill(mean.begin(), mean.end(), 0.0f);
    return end;
  }

  // Of coordinates of which this worker sent nothing: all zero, or not counted.
  void tell_zeros(std::uint32_t first, std::uint32_t count) {
    if (!blocks_.counted()) return keep_everything(chunk(), first, count);
    tell_all_sent(chunk(), first, count);
  }

  [[nodiscard]] const Chunk& chunk() const { return blocks_.chunk(); }
  // Whether the block is in the sum.
  [[nodiscard]] bool is_announced(std::uint32_t b) const {
    return blocks_.exponent(b) != 0 && blocks_.is_finite(b);
  }
  // Whether this worker sends it.
  [[nodiscard]] bool has_own(std::uint32_t b) const {
    return blocks_.counted() && blocks_.own_exponent(b) != 0;
  }

  std::uint32_t block_;
  AgreedBlocks blocks_;
  std::span<std::byte> up_;
  std::span<std::byte> down_;
  std::uint32_t announced_ = 0;
  At at_ = At::start;
  std::size_t rounds_used_ = 0;
  std::array<Round, 2> rounds_{};
};

class BlocksCodec final : public Codec {
 public:
  explicit BlocksCodec(std::uint32_t block) : block_(block) {}

  [[nodiscard]] Traits traits(std::uint32_t workers) const override {
    return AgreedBlocks::traits(workers);
  }
  [[nodiscard]] Plan plan(const Tensor& tensor, std::uint32_t workers) const override {
    static_cast<void>(tensor);
    static_cast<void>(workers);
    return {.multiple_of = block_, .count_max = AgreedBlocks::kCountMax};
  }
  Exchange* begin(const Chunk& chunk, Arena& arena) const override {
    return arena.make<BlocksExchange>(chunk, arena, block_);
  }

 private:
  std::uint32_t block_;
};

}  // namespace

Checked<std::unique_ptr<Codec>> make(const OptionValues& options) {
  return std::unique_ptr<Codec>(std::make_unique<BlocksCodec>(options.integer(0)));
}

}  // namespace sluice::blocks
