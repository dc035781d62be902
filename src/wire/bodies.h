// The payloads of frames that are not lanes: joining a job, and its terms.
//
// Whoever writes asserts that the fields are in range. Whoever parses believes nothing: bytes from
// outside that are wrong give Code::malformed. Functions have no state: any thread may call them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::wire {

inline constexpr std::size_t kTermsMax = 512;     // bytes; a join of 576 bytes has room for 464
inline constexpr std::size_t kRefusalMax = 1024;  // bytes
inline constexpr std::size_t kJoinHeader = 32;    // bytes before the terms
inline constexpr std::size_t kWelcomeSize = 12;   // bytes before the padding
inline constexpr std::size_t kCookieSize = 8;     // bytes

// A worker's wish. A join is padded with zeros to its frame size. Its welcome has as many bytes.
// So a welcome that arrives proves that frames of this size pass both ways.
struct Join {
  std::uint16_t workers = 0;     // of the job
  std::uint16_t slots = 0;       // that the worker wants at this aggregator
  std::uint32_t frame_size = 0;  // of this datagram
  std::uint32_t fits = 0;        // the largest frame that passes both ways, 0: not known yet
  bool is_bound = false;         // the job has run with these slots and frames of `fits` bytes
  std::uint64_t token = 0;       // see life_of and attempt_of
  std::uint64_t cookie = 0;      // that the aggregator gave for this address, 0: none yet
  // Text for a person; the same of all workers. Of a parsed join it points into the payload.
  std::string_view terms;
};

// A token tells one life of a worker from the next. It also counts the attempts of that life to
// join. An answer to an earlier attempt may arrive late; it means nothing then.
constexpr std::uint64_t life_of(std::uint64_t token) { return token >> 16; }
constexpr std::uint16_t attempt_of(std::uint64_t token) {
  return static_cast<std::uint16_t>(token);
}
// Only the low 48 bits of the life count.
constexpr std::uint64_t make_token(std::uint64_t life, std::uint16_t attempt) {
  return life << 16 | attempt;
}
// Whether a is a later attempt than b. Attempts count modulo 2^16; lives are not compared.
constexpr bool is_later_attempt(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::int16_t>(attempt_of(a) - attempt_of(b)) > 0;
}

// What holds for the job.
struct Welcome {
  std::uint16_t workers = 0;
  std::uint16_t slots = 0;       // leased to the job, numbered from 0
  std::uint32_t frame_size = 0;  // the smallest that fits all workers, and the aggregator's own
  std::uint32_t window = 0;      // frames a worker may have on their way: all workers' together
                                 // fit into the aggregator's receive buffer
};

// These replace what `into` holds, which may allocate.
//
// With its padding. Terms have no control bytes, and fit into the frame size behind both headers.
void write_join(const Join& join, std::string& into);
// Padded with zeros to `size` bytes, where that is more than it has.
void write_welcome(const Welcome& welcome, std::size_t size, std::string& into);
// The cookie is not 0.
void write_cookie(std::uint64_t cookie, std::string& into);
// Takes any text, even one that quotes a stranger, and never fails. Control bytes become blanks.
// Bytes that are not UTF-8 become question marks. Long text is cut between characters; an empty one
// becomes "refused".
void write_refusal(std::string_view why, std::string& into);

// Bytes from outside, in time that grows with their number. Code::malformed unless sizes, ranges
// and padding are right. Never allocate. A join's terms point into the payload.
Result<Join> parse_join(std::span<const std::byte> payload);
Result<Welcome> parse_welcome(std::span<const std::byte> payload);
// Whether these are eight bytes that are not all zero.
bool is_cookie(std::span<const std::byte> payload);
// Asserts is_cookie(): wire::parse() has checked it in frames of kind `prove`.
std::uint64_t parse_cookie(std::span<const std::byte> payload);
// Whether a refusal may say this: 1 to kRefusalMax bytes of UTF-8 without control bytes.
bool is_refusal(std::span<const std::byte> text);

}  // namespace sluice::wire
