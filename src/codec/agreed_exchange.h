// What the codecs of block floating point share beyond their blocks: an exchange of two legs and
// the codec around it. They differ in how the integers of finite blocks travel. `Values` says how;
// all its functions are static:
//
//   kAnswerPerRound                  the message for a wrong number of answers
//   kExponents                       the kernel that finds the blocks' exponents
//   Reduction sum_max(blocks)        the largest that sum() may become
//   Reduction sum(blocks)            how the integers travel, once exponents are agreed
//   size_t encode(blocks, what, up)  writes what this worker sends; returns its bytes
//   Status check(what, down)         of the answer, what check_answer() cannot know
//   Decoder(blocks, round, down)     decode(b) tells the keeper of a finite block, then writes its
//                                    mean; returns the next block. Called in ascending order
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "codec/agreed_blocks.h"
#include "codec/arena.h"
#include "codec/chunk.h"
#include "codec/codec.h"
#include "codec/exchange.h"
#include "codec/info.h"
#include "round/reduction.h"
#include "round/round.h"

namespace sluice {

// Two legs: the blocks' exponents by one max round, then all values. Blocks that are finite on
// every worker go first in the value buffer, as integers; the others follow as float32, in a round
// of their own in the same leg. So Inf and NaN arrive where they were, cost no extra memory, and
// nothing is sent twice.
template <class Values>
class AgreedExchange final : public Exchange {
 public:
  AgreedExchange(const Chunk& chunk, Arena& arena, std::uint32_t block)
      : blocks_(chunk, arena, block),
        up_(arena.place<std::byte>(up_size(Values::sum_max(blocks_)))),
        down_(arena.place<std::byte>(up_.size())) {}

  Result<Leg> next(std::span<const Answer> answers) override {
    if (at_ != At::start && answers.size() != rounds_used_) {
      return Error{Code::malformed, 0, Values::kAnswerPerRound};
    }
    for (std::size_t i = 0; i < answers.size(); ++i) {
      SLUICE_TRY(check_answer(rounds_[i], answers[i], blocks_.chunk().extent.workers));
    }
    switch (at_) {
      case At::start: return ask_exponents();
      case At::exponents: return ask_values(answers[0]);
      case At::values: break;
    }
    SLUICE_TRY(Values::check(rounds_[0].what, answers[0].down));
    decode(answers);
    return done();
  }

 private:
  enum class At : std::uint8_t { start, exponents, values };

  Result<Leg> ask_exponents() {
    rounds_[0] = blocks_.ask(Values::kExponents);
    rounds_used_ = 1;
    at_ = At::exponents;
    return ask(std::span(rounds_).first(rounds_used_));
  }

  Result<Leg> ask_values(const Answer& answer) {
    SLUICE_TRY(blocks_.agree(answer));
    const Reduction sum = Values::sum(blocks_);
    const Reduction odd{
        .op = Op::f32_sum, .bits = 32, .count = odd_count(), .grain = blocks_.block()};
    const std::size_t border = up_size(sum);
    const auto odd_up = up_.subspan(border, up_size(odd));
    const std::size_t used = Values::encode(blocks_, sum, up_.first(border));
    rounds_[0] = {sum, up_.first(used), down_.first(border), blocks_.only()};
    encode_odd(odd_up);
    rounds_[1] = {odd, odd_up, down_.subspan(border, odd_up.size()), blocks_.only()};
    rounds_used_ = odd.count == 0 ? 1 : 2;
    at_ = At::values;
    return ask(std::span(rounds_).first(rounds_used_));
  }

  [[nodiscard]] std::uint32_t odd_count() const {
    std::uint32_t count = 0;
    for (std::uint32_t b = 0; b < blocks_.count(); ++b) {
      if (!blocks_.is_finite(b)) count += blocks_.size(b);
    }
    return count;
  }

  void encode_odd(std::span<std::byte> to) const {
    for (std::uint32_t b = 0; b < blocks_.count(); ++b) {
      if (blocks_.is_finite(b)) continue;
      blocks_.encode(b, to);
      to = to.subspan(std::size_t{4} * blocks_.size(b));
    }
  }

  void decode(std::span<const Answer> answers) const {
    typename Values::Decoder finite(blocks_, rounds_[0], answers[0].down);
    std::size_t at = 0;  // in the float32 of the others
    for (std::uint32_t b = 0; b < blocks_.count();) {
      if (blocks_.is_finite(b)) {
        b = finite.decode(b);
        continue;
      }
      blocks_.tell(b, rounds_[1].up.subspan(at));
      blocks_.decode(b, answers[1].down.subspan(at));
      at += std::size_t{4} * blocks_.size(b);
      ++b;
    }
  }

  AgreedBlocks blocks_;
  std::span<std::byte> up_;
  std::span<std::byte> down_;
  At at_ = At::start;
  std::size_t rounds_used_ = 0;
  std::array<Round, 2> rounds_{};
};

template <class Values>
class AgreedCodec final : public Codec {
 public:
  explicit AgreedCodec(std::uint32_t block) : block_(block) {}

  [[nodiscard]] Traits traits(std::uint32_t workers) const override {
    return AgreedBlocks::traits(workers);
  }
  [[nodiscard]] Plan plan(const Tensor& tensor, std::uint32_t workers) const override {
    static_cast<void>(tensor);
    static_cast<void>(workers);
    return {.multiple_of = block_, .count_max = AgreedBlocks::kCountMax};
  }
  Exchange* begin(const Chunk& chunk, Arena& arena) const override {
    return arena.make<AgreedExchange<Values>>(chunk, arena, block_);
  }

 private:
  std::uint32_t block_;
};

// Of the one option, which agreed_block_option() describes.
template <class Values>
Checked<std::unique_ptr<Codec>> make_agreed(const OptionValues& options) {
  return std::unique_ptr<Codec>(std::make_unique<AgreedCodec<Values>>(options.integer(0)));
}

}  // namespace sluice
