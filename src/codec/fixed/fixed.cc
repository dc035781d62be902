#include "codec/fixed/fixed.h"

#include <array>

#include "codec/agreed_blocks.h"

namespace sluice::fixed {
namespace {

// Two steps: the blocks' exponents by one max round, then all values. Blocks that are finite on
// every worker go first in the value buffer, as integers; the others follow as float32, in a round
// of their own in the same step. So Inf and NaN arrive where they were, cost no extra memory, and
// nothing is sent twice.
class FixedExchange final : public Exchange {
 public:
  FixedExchange(const Chunk& chunk, Arena& arena, std::uint32_t block)
      : block_(block),
        blocks_(chunk, arena, block),
        up_(arena.place<std::byte>(std::size_t{4} * chunk.extent.count)),
        down_(arena.place<std::byte>(std::size_t{4} * chunk.extent.count)) {}

  Result<Leg> next(std::span<const Answer> answers) override {
    if (at_ != At::start && answers.size() != rounds_used_) {
      return Error{Code::malformed, 0, "fixed: an answer per round expected"};
    }
    for (std::size_t i = 0; i < answers.size(); ++i) {
      SLUICE_TRY(check_answer(rounds_[i], answers[i], blocks_.chunk().extent.workers));
    }
    switch (at_) {
      case At::start: return ask_exponents();
      case At::exponents: return ask_values(answers[0]);
      case At::values: break;
    }
    decode(answers);
    return done();
  }

 private:
  enum class At : std::uint8_t { start, exponents, values };

  Result<Leg> ask_exponents() {
    rounds_[0] = blocks_.ask(&blockfloat::exponents);
    rounds_used_ = 1;
    at_ = At::exponents;
    return ask(std::span(rounds_).first(rounds_used_));
  }

  Result<Leg> ask_values(const Answer& answer) {
    SLUICE_TRY(blocks_.agree(answer));
    for (std::uint32_t b = 0; b < blocks_.count(); ++b) {
      if (blocks_.is_finite(b)) finite_count_ += blocks_.size(b);
    }
    each_value([&](std::uint32_t b, std::size_t wire) { blocks_.encode(b, up_.subspan(wire)); });
    const std::uint32_t odd_count = blocks_.chunk().extent.count - finite_count_;
    const std::size_t border = std::size_t{4} * finite_count_;
    rounds_[0] = {{.op = Op::wrap_sum, .bits = 32, .count = finite_count_, .grain = block_},
                  up_.first(border),
                  down_.first(border),
                  blocks_.only()};
    rounds_[1] = {{.op = Op::f32_sum, .bits = 32, .count = odd_count, .grain = block_},
                  up_.subspan(border),
                  down_.subspan(border),
                  blocks_.only()};
    rounds_used_ = odd_count == 0 ? 1 : 2;
    at_ = At::values;
    return ask(std::span(rounds_).first(rounds_used_));
  }

  void decode(std::span<const Answer> answers) {
    const std::size_t border = std::size_t{4} * finite_count_;
    each_value([&](std::uint32_t b, std::size_t wire) {
      blocks_.tell(b, up_.subspan(wire));
      blocks_.decode(b, blocks_.is_finite(b) ? answers[0].down.subspan(wire)
                                             : answers[1].down.subspan(wire - border));
    });
  }

  // Every block with the place of its values in the value buffers.
  template <class Each>
  void each_value(const Each& each) const {
    std::size_t finite = 0;
    std::size_t odd = std::size_t{4} * finite_count_;
    for (std::uint32_t b = 0; b < blocks_.count(); ++b) {
      std::size_t& cursor = blocks_.is_finite(b) ? finite : odd;
      each(b, cursor);
      cursor += std::size_t{4} * blocks_.size(b);
    }
  }

  std::uint32_t block_;
  AgreedBlocks blocks_;
  std::span<std::byte> up_;
  std::span<std::byte> down_;
  std::uint32_t finite_count_ = 0;
  At at_ = At::start;
  std::size_t rounds_used_ = 0;
  std::array<Round, 2> rounds_{};
};

class FixedCodec final : public Codec {
 public:
  explicit FixedCodec(std::uint32_t block) : block_(block) {}

  [[nodiscard]] Traits traits(std::uint32_t workers) const override {
    return AgreedBlocks::traits(workers);
  }
  [[nodiscard]] Plan plan(const Tensor& tensor, std::uint32_t workers) const override {
    static_cast<void>(tensor);
    static_cast<void>(workers);
    return {.multiple_of = block_, .count_max = AgreedBlocks::kCountMax};
  }
  Exchange* begin(const Chunk& chunk, Arena& arena) const override {
    return arena.make<FixedExchange>(chunk, arena, block_);
  }

 private:
  std::uint32_t block_;
};

}  // namespace

Checked<std::unique_ptr<Codec>> make(const OptionValues& options) {
  return std::unique_ptr<Codec>(std::make_unique<FixedCodec>(options.integer(0)));
}

}  // namespace sluice::fixed
