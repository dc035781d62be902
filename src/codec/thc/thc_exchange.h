// One chunk's trip: agree on the scales, then sum codes and, where there is no scale, floats.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "codec/arena.h"
#include "codec/chunk.h"
#include "codec/exchange.h"
#include "codec/thc/thc_layout.h"
#include "codec/thc/thc_scales.h"
#include "codec/thc/thc_settings.h"

namespace sluice::thc {

// Two legs: the blocks' keys by one max round, then all values. Coded blocks come first in the
// value buffers, the others follow as float32, in a round of their own in the same leg.
class ThcExchange final : public Exchange {
 public:
  // For Arena::make(): takes memory, touches none. The settings outlive the exchange.
  ThcExchange(const Chunk& chunk, Arena& arena, const ThcSettings& settings);
  Result<Leg> next(std::span<const Answer> answers) override;

 private:
  enum class At : std::uint8_t { start, keys, values };

  // A block with its scale and where its lanes begin, among the codes or among the floats.
  struct PlacedBlock {
    ThcBlock block;
    Scale scale;
    std::uint32_t lane = 0;
  };
  // Calls call(placed) for every block in order.
  template <class Call>
  void each_placed(Call call) const;

  Result<Leg> ask_keys();
  Result<Leg> ask_values(const Answer& answer);
  Status adopt_keys(const Answer& answer);
  void ask_rounds();

  void encode();
  void encode_bounded(const PlacedBlock& placed);
  void encode_floats(const PlacedBlock& placed);
  Status read_sums(const Answer& answer);
  void decode(const Answer& floats);
  void decode_other(const PlacedBlock& placed, const Answer& floats);
  void keep_rest(const PlacedBlock& placed);
  void keep_of_exact(const PlacedBlock& placed);
  void keep_tile(std::uint32_t first, std::span<const float> sent);
  void decode_own(const PlacedBlock& placed, std::uint32_t at, std::span<float> into) const;

  void fill_signs();
  void rotate(const ThcBlock& block);
  void unrotate(const ThcBlock& block, std::span<float> into);
  // The words of a block's signs, from the one that has the first on, and where in it that is.
  [[nodiscard]] std::span<const std::uint32_t> signs_of(const ThcBlock& block) const;
  [[nodiscard]] std::uint32_t sign_first(const ThcBlock& block) const;
  void get_codes(std::uint32_t lane, std::span<std::uint8_t> codes) const;

  [[nodiscard]] bool is_rotated() const { return settings_.range == ThcRange::norm; }
  [[nodiscard]] std::span<float> work_of(const ThcBlock& block) const {
    return work_.subspan(block.first, block.count);
  }

  Chunk chunk_;
  const ThcSettings& settings_;
  Blocks blocks_;
  std::span<std::uint32_t> keys_;  // mine, then the agreed ones
  std::span<std::byte> keys_up_;
  std::span<std::byte> keys_down_;
  std::span<std::byte> up_;  // codes, then floats
  std::span<std::byte> down_;
  std::span<float> work_;           // rotated coordinates, at their places in the chunk
  std::span<std::uint32_t> signs_;  // of the chunk
  std::span<std::int32_t> sums_;    // twice the agreed sums, and room for a grain
  std::span<std::uint64_t> words_;  // of only_
  Workers only_ = {};
  std::uint32_t contributors_ = 1;
  bool counted_ = false;
  std::span<std::byte> floats_up_ = {};  // the part of up_ after the codes
  At at_ = At::start;
  std::size_t rounds_used_ = 0;
  std::array<Round, 2> rounds_{};
};

}  // namespace sluice::thc
