// One chunk's trip through tide.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "codec/chunk.h"
#include "codec/exchange.h"
#include "codec/tide/allotting.h"
#include "codec/tide/tide_hands.h"
#include "codec/tide/tide_trip.h"

namespace sluice::tide {

// With this step's scales: they are agreed by one max round, whose contributors send and are
// counted in all that follows; then the codes.
//
// With the previous step's, if the tensor's state has them: codes and new scales go in one leg.
// Blocks whose scale has changed too much since are then sent again with the new one. All blocks
// are sent again if somebody was counted in one round of that leg and not in another.
//
// The exchange decides; its hands touch the floats, on the host or on a device. Scales always go
// through the host.
class TideExchange final : public Exchange {
 public:
  // For Arena::make(): takes memory, touches none. The settings outlive the exchange.
  TideExchange(const Chunk& chunk, Arena& arena, const TideSettings& settings);
  Result<Leg> next(std::span<const Answer> answers) override;

 private:
  // What was asked for, or what is waited for (`…d`).
  enum class At : std::uint8_t {
    start,
    exact_encoded,
    exact,
    measured,
    scales,
    both_encoded,
    both_scales,
    both_codes,
    both,
    codes_encoded,
    codes,
    again_encoded,
    again,
    decoded
  };
  static constexpr std::size_t kRoundsMax = 1 + Sending::kRounds;

  Status check(std::span<const Answer> answers) const;
  Result<Leg> begin();
  Result<Leg> go_on();
  Result<Leg> then(At at);
  Result<Leg> ask_exact();
  Result<Leg> ask_scales();
  Result<Leg> ask_both();
  Result<Leg> ask_codes(const Answer& scales);
  Result<Leg> after_both(std::span<const Answer> answers);
  Result<Leg> ask(std::span<const Round> rounds, At at, const Place& place);
  Result<Leg> finish(std::span<const Answer> first, std::span<const Answer> again);
  Result<Leg> finish_exact(const Answer& answer);
  Result<Leg> end();

  void load_state();
  Round scales_round();
  Status agree(const Answer& answer);
  [[nodiscard]] bool is_outgrown(std::uint32_t number) const;
  [[nodiscard]] bool all_counted_alike(std::span<const Answer> codes) const;
  void keep_answers(std::span<const Answer> codes);
  void write_state();

  Trip trip_;
  bool tiny_;
  std::span<std::byte> codes_up_;
  std::span<std::byte> codes_down_;
  Allotting allotting_;
  std::span<std::uint64_t> words_;
  Hands* hands_;
  At at_ = At::start;
  std::size_t rounds_used_ = 0;
  std::array<Round, kRoundsMax> rounds_{};
  std::array<Answer, Sending::kRounds> kept_{};  // answers of the first sending …
  std::array<Part, Sending::kRounds> kept_parts_{};
};

}  // namespace sluice::tide
