// Blocks of a chunk whose exponents all workers agreed on, and their values as 32-bit integers that
// add. codec/agreed_exchange.h makes an exchange of them.
//
// Inside a FloatEnvironment, without allocation. Free functions are pure, for any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "codec/arena.h"
#include "codec/chunk.h"
#include "codec/codec.h"
#include "codec/info.h"
#include "kernels/blockfloat/blockfloat.h"
#include "round/round.h"

namespace sluice {

// The numbers of one block: |x| < 2^(exponent − 126) on every worker, and the exponent is not
// blockfloat::kNotFinite. Each is rounded once: the operands of the division are exact in float64.
struct BlockScale {
  double up;    // (2^31 − 1 − n) / (n · 2^E): n codes of at most this sum without overflow
  double down;  // 1 / up
};
BlockScale block_scale(std::uint8_t exponent, std::uint32_t workers);
// The factor that turns a sum over m contributors into their mean.
double block_mean_factor(std::uint8_t exponent, std::uint32_t workers, std::uint32_t contributors);

// A part of an exchange, with its lifetime and its thread: memory is the arena's and the chunk's.
// First ask(), then agree(); all else that depends on exponents comes after. Block numbers are
// below count(); nobody checks.
class AgreedBlocks {
 public:
  using Exponents = void(std::span<const float> values, std::uint32_t block,
                         std::span<std::byte> exponents);
  static constexpr std::uint32_t kSizeMax = 4096;       // coordinates of a block
  static constexpr std::uint32_t kCountMax = 1u << 20;  // and of a chunk

  // What the codecs promise that send every block's values in this way.
  static Traits traits(std::uint32_t workers);

  // Blocks of `block` coordinates, a multiple of 8 up to kSizeMax. Takes memory, touches none.
  AgreedBlocks(const Chunk& chunk, Arena& arena, std::uint32_t block);

  // The round that comes first: the blocks' exponents, as this kernel finds them. One grain:
  // whoever missed the exponents might overflow a sum, so all later rounds count exactly only().
  Round ask(Exponents* exponents);
  // Its answer, checked by check_answer(). Code::malformed if an exponent is below my own though I
  // was counted.
  Status agree(const Answer& answer);

  [[nodiscard]] const Chunk& chunk() const { return chunk_; }
  [[nodiscard]] std::uint32_t block() const { return block_; }  // coordinates of all but the last
  [[nodiscard]] std::uint32_t count() const { return count_; }
  [[nodiscard]] std::uint32_t first(std::uint32_t number) const { return number * block_; }
  [[nodiscard]] std::uint32_t size(std::uint32_t number) const;  // coordinates
  [[nodiscard]] std::uint8_t exponent(std::uint32_t number) const { return agreed_[number]; }
  [[nodiscard]] std::uint8_t own_exponent(std::uint32_t number) const;
  // Whether all counted workers' values of the block are; otherwise they travel as float32.
  [[nodiscard]] bool is_finite(std::uint32_t number) const;
  [[nodiscard]] Workers only() const { return only_; }
  [[nodiscard]] bool counted() const { return counted_; }

  // What this worker sends of a block, 4 bytes a coordinate, to the front of `to`, which has room;
  // zeros where it is not counted.
  void encode(std::uint32_t number, std::span<std::byte> to) const;
  // Tells the keeper, if there is one, that this was sent. Before the mean is written.
  void tell(std::uint32_t number, std::span<const std::byte> sent) const;
  // Writes the mean of a block, from the sums of what was sent; any sums are safe.
  void decode(std::uint32_t number, std::span<const std::byte> sums) const;

 private:
  Chunk chunk_;
  std::uint32_t block_;
  std::uint32_t count_;
  std::span<std::byte> up_;
  std::span<std::byte> down_;
  std::span<std::uint8_t> agreed_;
  std::span<std::uint64_t> words_;
  Workers only_ = {};
  bool counted_ = false;
};

// The one option of these codecs.
constexpr OptionInfo agreed_block_option(std::string_view help) {
  return {.key = "block",
          .kind = OptionInfo::Kind::integer,
          .preset = 256,
          .minimum = 32,
          .maximum = AgreedBlocks::kSizeMax,
          .multiple_of = 8,
          .help = help};
}

}  // namespace sluice
