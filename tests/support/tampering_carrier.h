// A carrier that spoils one answer of one exchange, and leaves all else alone. Given the same
// tampering on every rank it stands for an aggregator that is broken or hostile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "round/carrier.h"

namespace sluice::support {

struct Tampering {
  enum class Kind : std::uint8_t {
    nothing,
    truncate,         // the answer's bytes end after `position`
    lengthen,         // one byte more, where Round::down has room for it
    flip,             // byte `position` is xored with `mask`
    part_dropped,     // the last part is missing
    part_repeated,    // the last part comes twice
    part_shifted,     // part 0 starts 8 lanes late
    part_short,       // the last part ends a lane early
    part_long,        // the last part ends a lane late
    part_empty,       // a part of no lanes in front
    parts_split,      // part 0 is cut after one lane
    parts_none,       // no parts at all
    set_empty,        // part 0 has no contributors
    set_beyond,       // part 0 names a rank that does not exist
    set_words_none,   // part 0 has a set without words
    set_words_more,   // part 0 has a set with a word too many
    set_other,        // rank 0 enters or leaves the set of part 0; not wrong by itself
    answer_dropped,   // the last answer is missing
    answer_repeated,  // the last answer comes twice
    answers_none,     // no answers at all
    fail_post,        // the carrier refuses the leg
    fail_take,        // the carrier's answer is a time-out
  };
  Kind kind = Kind::nothing;
  std::uint64_t sequence = 0;
  std::uint32_t leg = 0;
  std::uint32_t round = 0;
  std::size_t position = 0;
  std::byte mask{0};
};

std::string_view name_of(Tampering::Kind kind);
std::string describe(const Tampering& tampering);

class TamperingCarrier final : public Carrier {
 public:
  TamperingCarrier(Carrier& inner, std::uint32_t workers, const Tampering& tampering)
      : inner_(inner), workers_(workers), tampering_(tampering) {}

  Status post(const Ticket& ticket, const Place& place, std::span<const Round> leg) override;
  Result<std::span<const Answer>> take(const Ticket& ticket) override;
  Result<bool> flush() override { return inner_.flush(); }
  Status wait(std::chrono::nanoseconds timeout) override { return inner_.wait(timeout); }
  void abandon() override { inner_.abandon(); }
  std::string explain(const Ticket& ticket) override { return inner_.explain(ticket); }

 private:
  void spoil_bytes(Answer& answer);
  void spoil_parts(std::uint32_t lanes, Answer& answer);
  void spoil_set(Part& part);
  void spoil_list();

  Carrier& inner_;
  std::uint32_t workers_;
  Tampering tampering_;
  std::unordered_map<std::uint64_t, std::uint32_t> legs_;  // posted so far, per exchange
  std::span<std::byte> down_;                              // Round::down of the round to spoil
  std::uint32_t lanes_ = 0;
  std::vector<Answer> answers_;
  std::vector<Part> parts_;
  std::vector<std::uint64_t> words_;
};

}  // namespace sluice::support
