// One chunk's trip through tide.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "codec/chunk.h"
#include "codec/exchange.h"
#include "codec/tide/allotting.h"
#include "codec/tide/sending.h"
#include "codec/tide/summed_dithers.h"
#include "codec/tide/tide_decoder.h"
#include "codec/tide/tide_layout.h"
#include "codec/tide/tide_settings.h"
#include "kernels/dither/dither.h"

namespace sluice::tide {

// With this step's scales: they are agreed by one max round, whose contributors send and are
// counted in all that follows; then the codes.
//
// With the previous step's, if the tensor's state has them: codes and new scales go in one leg.
// Blocks whose scale has changed too much since are then sent again with the new one. All blocks
// are sent again if somebody was counted in one round of that leg and not in another.
class TideExchange final : public Exchange {
 public:
  // For Arena::make(): takes memory, touches none. The settings outlive the exchange.
  TideExchange(const Chunk& chunk, Arena& arena, const TideSettings& settings);
  Result<Leg> next(std::span<const Answer> answers) override;

 private:
  enum class At : std::uint8_t { start, exact, scales, both, codes, again };
  static constexpr std::size_t kRoundsMax = 1 + Sending::kRounds;

  Status check(std::span<const Answer> answers) const;
  Result<Leg> begin();
  Result<Leg> ask_exact();
  Result<Leg> ask_scales();
  Result<Leg> ask_both();
  Result<Leg> ask_codes(const Answer& scales);
  Result<Leg> after_both(std::span<const Answer> answers);
  Result<Leg> ask(std::span<const Round> rounds, At at);

  void load_state();
  [[nodiscard]] Code12 my_code(const TideLayout::Block& block, float energy) const;
  void measure(std::uint32_t first, std::uint32_t end);
  Round scales_round();
  Status agree(const Answer& answer);
  [[nodiscard]] bool is_outgrown(std::uint32_t number) const;
  [[nodiscard]] bool all_counted_alike(std::span<const Answer> codes) const;

  void encode_agreed(Sending& sending);
  void encode_and_measure(Sending::Cursor& cursor, std::uint32_t first, std::uint32_t end);
  void encode_weak(std::uint32_t number, std::uint8_t width, Code12 code, std::span<std::byte> up);
  [[nodiscard]] Code12 code_to_send(std::uint32_t number) const;
  void encode_exact(const TideLayout::Block& block, std::span<std::byte> up);
  void finish_exact(const Answer& answer);
  Result<Leg> finish(std::span<const Answer> first, std::span<const Answer> again);
  void decode_block(Decoder& decoder, const Sending& sending, std::span<const Answer> answers,
                    std::uint32_t number, std::uint32_t lane, Code12 code);
  void write_state();

  [[nodiscard]] dither::Encoding encoding_of(const TideLayout::Block& block, std::uint8_t width,
                                             Code12 code, std::span<std::byte> up) const {
    return {{chunk_.extent.offset + block.first, block.size, width},
            encode_factor(code, log2_of(block.size)),
            chunk_.gradient.subspan(block.first, block.count),
            residual_of(block),
            up,
            nullptr};
  }
  [[nodiscard]] dither::Shared shared() const {
    return {signs_[0], RandomStream(chunk_.key, Purpose::dither, kShared)};
  }
  [[nodiscard]] std::span<const float> residual_of(const TideLayout::Block& block) const {
    if (chunk_.residual.empty()) return {};
    return chunk_.residual.subspan(block.first, block.count);
  }

  Chunk chunk_;
  const TideSettings& settings_;
  TideLayout layout_;
  std::uint32_t shift_;
  bool tiny_;
  std::span<Code12> mine_;    // scale codes of my own blocks
  std::span<Code12> agreed_;  // this step's
  std::span<Code12> before_;  // the previous step's, with scales=previous
  std::span<std::byte> codes_up_;
  std::span<std::byte> codes_down_;
  std::span<dither::Signs> signs_;  // one
  Allotting allotting_;
  std::span<std::uint64_t> words_;
  Sending first_;
  Sending again_;
  std::span<std::uint8_t> sent_again_;  // by block, with scales=previous
  Workers only_ = {};
  bool counted_ = false;
  bool has_before_ = false;
  bool alike_ = true;  // the same workers were counted in all rounds of the first leg
  At at_ = At::start;
  std::size_t rounds_used_ = 0;
  std::array<Round, kRoundsMax> rounds_{};
  std::array<Answer, Sending::kRounds> kept_{};  // answers of the first sending …
  std::array<Part, Sending::kRounds> kept_parts_{};
};

}  // namespace sluice::tide
