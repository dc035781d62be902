#include "tests/support/tampering_carrier.h"

#include <fmt/format.h>

#include <array>

#include "base/assert.h"

namespace sluice::support {

using Kind = Tampering::Kind;

std::string_view name_of(Kind kind) {
  static constexpr std::array<std::string_view, 22> kNames{
      "nothing",      "truncate",       "lengthen",        "flip",
      "part_dropped", "part_repeated",  "part_shifted",    "part_short",
      "part_long",    "part_empty",     "parts_split",     "parts_none",
      "set_empty",    "set_beyond",     "set_words_none",  "set_words_more",
      "set_other",    "answer_dropped", "answer_repeated", "answers_none",
      "fail_post",    "fail_take"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string describe(const Tampering& tampering) {
  return fmt::format("{} in exchange {}, leg {}, round {}, position {}, mask {:#04x}",
                     name_of(tampering.kind), tampering.sequence, tampering.leg, tampering.round,
                     tampering.position, std::to_integer<unsigned>(tampering.mask));
}

Status TamperingCarrier::post(const Ticket& ticket, const Place& place,
                              std::span<const Round> leg) {
  const std::uint32_t number = legs_[ticket.sequence]++;
  const bool now = ticket.sequence == tampering_.sequence && number == tampering_.leg;
  if (now && tampering_.kind == Kind::fail_post) {
    return Error{Code::exhausted, 0, "refused by the test"};
  }
  if (now && tampering_.round < leg.size()) {
    down_ = leg[tampering_.round].down;
    lanes_ = leg[tampering_.round].what.count;
  }
  return inner_.post(ticket, place, leg);
}

Result<std::span<const Answer>> TamperingCarrier::take(const Ticket& ticket) {
  auto answers = inner_.take(ticket);
  const bool now =
      ticket.sequence == tampering_.sequence && legs_[ticket.sequence] == tampering_.leg + 1;
  if (!answers || !now) return answers;
  if (tampering_.kind == Kind::fail_take) return Error{Code::timeout, 0, "failed by the test"};
  answers_.assign(answers->begin(), answers->end());
  if (tampering_.round < answers_.size()) {
    spoil_bytes(answers_[tampering_.round]);
    spoil_parts(lanes_, answers_[tampering_.round]);
  }
  spoil_list();
  return std::span<const Answer>(answers_);
}

// In place: an exchange may read Round::down itself, which is where the answer lies.
void TamperingCarrier::spoil_bytes(Answer& answer) {
  switch (tampering_.kind) {
    case Kind::truncate: answer.down = answer.down.first(tampering_.position); return;
    case Kind::lengthen:
      if (down_.size() > answer.down.size()) answer.down = down_.first(answer.down.size() + 1);
      return;
    case Kind::flip: down_[tampering_.position] ^= tampering_.mask; return;
    default: return;
  }
}

void TamperingCarrier::spoil_parts(std::uint32_t lanes, Answer& answer) {
  SLUICE_ASSERT(!answer.parts.empty() && lanes > 0);
  parts_.assign(answer.parts.begin(), answer.parts.end());
  switch (tampering_.kind) {
    case Kind::part_dropped: parts_.pop_back(); break;
    case Kind::part_repeated: parts_.push_back(Part(parts_.back())); break;
    case Kind::part_shifted: parts_.front().first += 8; break;
    case Kind::part_short: --parts_.back().count; break;
    case Kind::part_long: ++parts_.back().count; break;
    case Kind::part_empty: parts_.insert(parts_.begin(), {0, 0, parts_.front().from}); break;
    case Kind::parts_split: {
      const Part whole = parts_.front();
      parts_.front().count = 1;
      parts_.insert(parts_.begin() + 1, {1, whole.count - 1, whole.from});
      break;
    }
    case Kind::parts_none: parts_.clear(); break;
    default: spoil_set(parts_.front()); break;
  }
  answer.parts = parts_;
}

void TamperingCarrier::spoil_set(Part& part) {
  words_.assign(part.from.words.begin(), part.from.words.end());
  switch (tampering_.kind) {
    case Kind::set_empty: words_.assign(words_.size(), 0); break;
    case Kind::set_beyond:
      // With whole words of workers there is no bit left: then a word with one.
      if (workers_ % 64 == 0) words_.push_back(0);
      words_.back() |= std::uint64_t{1} << (workers_ % 64);
      break;
    case Kind::set_words_none: words_.clear(); break;
    case Kind::set_words_more: words_.push_back(0); break;
    case Kind::set_other: words_.front() ^= 1; break;
    default: return;
  }
  part.from = {words_};
}

void TamperingCarrier::spoil_list() {
  switch (tampering_.kind) {
    case Kind::answer_dropped: answers_.pop_back(); return;
    case Kind::answer_repeated: answers_.push_back(Answer(answers_.back())); return;
    case Kind::answers_none: answers_.clear(); return;
    default: return;
  }
}

}  // namespace sluice::support
