#include "codec/fixed/fixed.h"

#include "codec/agreed_exchange.h"

namespace sluice::fixed {
namespace {

Reduction sum_of(std::uint32_t count, std::uint32_t block) {
  return {.op = Op::wrap_sum, .bits = 32, .count = count, .grain = block};
}

// Every value of every finite block, in order.
struct AllIntegers {
  static constexpr const char* kAnswerPerRound = "fixed: an answer per round expected";
  static constexpr auto kExponents = &blockfloat::exponents;

  static Reduction sum_max(const AgreedBlocks& blocks) {
    return sum_of(blocks.chunk().extent.count, blocks.block());
  }

  static Reduction sum(const AgreedBlocks& blocks) {
    std::uint32_t count = 0;
    for (std::uint32_t b = 0; b < blocks.count(); ++b) {
      if (blocks.is_finite(b)) count += blocks.size(b);
    }
    return sum_of(count, blocks.block());
  }

  static std::size_t encode(const AgreedBlocks& blocks, const Reduction& what,
                            std::span<std::byte> up) {
    for (std::uint32_t b = 0; b < blocks.count(); ++b) {
      if (!blocks.is_finite(b)) continue;
      blocks.encode(b, up);
      up = up.subspan(std::size_t{4} * blocks.size(b));
    }
    return up_size(what);
  }

  static Status check(const Reduction& /*what*/, std::span<const std::byte> /*down*/) {
    return ok();
  }

  class Decoder {
   public:
    Decoder(const AgreedBlocks& blocks, const Round& round, std::span<const std::byte> down)
        : blocks_(blocks), up_(round.up), down_(down) {}

    std::uint32_t decode(std::uint32_t b) {
      blocks_.tell(b, up_.subspan(at_));
      blocks_.decode(b, down_.subspan(at_));
      at_ += std::size_t{4} * blocks_.size(b);
      return b + 1;
    }

   private:
    const AgreedBlocks& blocks_;
    std::span<const std::byte> up_;
    std::span<const std::byte> down_;
    std::size_t at_ = 0;
  };
};

}  // namespace

Checked<std::unique_ptr<Codec>> make(const OptionValues& options) {
  return make_agreed<AllIntegers>(options);
}

}  // namespace sluice::fixed
