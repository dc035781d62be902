#include "wire/bodies.h"

#include <algorithm>

#include "base/assert.h"
#include "base/bytes.h"
#include "wire/frame.h"

namespace sluice::wire {
namespace {

using Bytes = std::span<const std::byte>;

// Where the fields lie: docs/wire-format.md. Join and welcome begin alike.
constexpr std::size_t kWorkersAt = 0;
constexpr std::size_t kSlotsAt = 2;
constexpr std::size_t kFrameSizeAt = 4;
constexpr std::size_t kFitsAt = 8;
constexpr std::size_t kBoundAt = 12;
constexpr std::size_t kTermsSizeAt = 14;
constexpr std::size_t kTokenAt = 16;
constexpr std::size_t kCookieAt = 24;
constexpr std::size_t kWindowAt = 8;

static_assert(kCookieAt + kCookieSize == kJoinHeader, "the terms follow the cookie");
static_assert(kWindowAt + 4 == kWelcomeSize, "a welcome ends with its window");

Error malformed(const char* what) { return Error{Code::malformed, 0, what}; }

std::span<std::byte> bytes_of(std::string& text) { return std::as_writable_bytes(std::span(text)); }

Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

bool is_control(std::byte byte) { return byte < std::byte{0x20}; }

bool is_padding(Bytes bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

bool are_workers(std::uint32_t workers) { return workers >= 1 && workers <= kWorkersMax; }

bool is_frame_size(std::size_t size) { return size >= kFrameSizeMin && size <= kFrameSizeMax; }

// The bytes of the UTF-8 character that `text` begins with, 0 if it begins with none. The second
// byte's range shuts out detours to shorter forms, surrogates and what is beyond U+10FFFF.
std::size_t character_size(Bytes text) {
  SLUICE_DASSERT(!text.empty());
  const auto lead = std::to_integer<unsigned>(text[0]);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < size) return 0;
  const auto second = std::to_integer<unsigned>(text[1]);
  const unsigned least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (second < least || second > most) return 0;
  for (const std::byte byte : text.subspan(2, size - 2)) {
    if ((byte & std::byte{0xC0}) != std::byte{0x80}) return 0;
  }
  return size;
}

// What both bodies begin with.
Status check_shape(Bytes payload) {
  SLUICE_DASSERT(payload.size() >= kFrameSizeAt + 4);
  if (!are_workers(load_le<std::uint16_t>(payload, kWorkersAt))) {
    return malformed("workers must be 1 to 64");
  }
  if (load_le<std::uint16_t>(payload, kSlotsAt) == 0) return malformed("slots must be 1 or more");
  if (!is_frame_size(load_le<std::uint32_t>(payload, kFrameSizeAt))) {
    return malformed("a frame size must be 576 to 65507");
  }
  return ok();
}

}  // namespace

void write_join(const Join& join, std::string& into) {
  SLUICE_ASSERT(are_workers(join.workers) && join.slots >= 1);
  SLUICE_ASSERT(is_frame_size(join.frame_size));
  SLUICE_ASSERT(join.fits == 0 ? !join.is_bound : is_frame_size(join.fits));
  SLUICE_ASSERT(join.terms.size() <= kTermsMax);
  SLUICE_ASSERT(kHeaderSize + kJoinHeader + join.terms.size() <= join.frame_size);
  SLUICE_ASSERT(std::ranges::none_of(bytes_of(join.terms), is_control));
  into.assign(join.frame_size - kHeaderSize, '\0');
  const std::span<std::byte> body = bytes_of(into);
  store_le<std::uint16_t>(body, kWorkersAt, join.workers);
  store_le<std::uint16_t>(body, kSlotsAt, join.slots);
  store_le<std::uint32_t>(body, kFrameSizeAt, join.frame_size);
  store_le<std::uint32_t>(body, kFitsAt, join.fits);
  store_le<std::uint16_t>(body, kBoundAt, join.is_bound ? 1 : 0);
  store_le<std::uint16_t>(body, kTermsSizeAt, static_cast<std::uint16_t>(join.terms.size()));
  store_le<std::uint64_t>(body, kTokenAt, join.token);
  store_le<std::uint64_t>(body, kCookieAt, join.cookie);
  std::ranges::copy(join.terms, into.begin() + kJoinHeader);
  SLUICE_DASSERT(parse_join(body).has_value());
}

void write_welcome(const Welcome& welcome, std::size_t size, std::string& into) {
  SLUICE_ASSERT(are_workers(welcome.workers) && welcome.slots >= 1);
  SLUICE_ASSERT(is_frame_size(welcome.frame_size) && welcome.window >= 1);
  SLUICE_ASSERT(size <= kFrameSizeMax - kHeaderSize);
  into.assign(std::max(kWelcomeSize, size), '\0');
  const std::span<std::byte> body = bytes_of(into);
  store_le<std::uint16_t>(body, kWorkersAt, welcome.workers);
  store_le<std::uint16_t>(body, kSlotsAt, welcome.slots);
  store_le<std::uint32_t>(body, kFrameSizeAt, welcome.frame_size);
  store_le<std::uint32_t>(body, kWindowAt, welcome.window);
  SLUICE_DASSERT(parse_welcome(body).has_value());
}

void write_cookie(std::uint64_t cookie, std::string& into) {
  SLUICE_ASSERT(cookie != 0);
  into.assign(kCookieSize, '\0');
  store_le<std::uint64_t>(bytes_of(into), 0, cookie);
  SLUICE_DASSERT(parse_cookie(bytes_of(into)) == cookie);
}

void write_refusal(std::string_view why, std::string& into) {
  into.clear();
  for (Bytes rest = bytes_of(why); !rest.empty();) {
    const std::size_t size = character_size(rest);
    const std::size_t taken = std::max<std::size_t>(size, 1);
    if (into.size() + taken > kRefusalMax) break;
    if (size == 0) {
      into += '?';
    } else if (is_control(rest[0])) {
      into += ' ';
    } else {
      into += why.substr(why.size() - rest.size(), size);
    }
    rest = rest.subspan(taken);
  }
  if (into.empty()) into = "refused";
  SLUICE_ASSERT(is_refusal(bytes_of(std::string_view(into))));
}

Result<Join> parse_join(std::span<const std::byte> payload) {
  if (payload.size() < kJoinHeader) return malformed("shorter than a join");
  SLUICE_TRY(check_shape(payload));
  Join join;
  join.workers = load_le<std::uint16_t>(payload, kWorkersAt);
  join.slots = load_le<std::uint16_t>(payload, kSlotsAt);
  join.frame_size = load_le<std::uint32_t>(payload, kFrameSizeAt);
  join.fits = load_le<std::uint32_t>(payload, kFitsAt);
  join.token = load_le<std::uint64_t>(payload, kTokenAt);
  join.cookie = load_le<std::uint64_t>(payload, kCookieAt);
  if (kHeaderSize + payload.size() != join.frame_size) {
    return malformed("a join must be as long as the frame size it names");
  }
  if (join.fits != 0 && !is_frame_size(join.fits)) {
    return malformed("a size that fits must be 0 or 576 to 65507");
  }
  const auto bound = load_le<std::uint16_t>(payload, kBoundAt);
  if (bound > 1 || (bound == 1 && join.fits == 0)) {
    return malformed("bound must be 0, or 1 with a size that fits");
  }
  join.is_bound = bound == 1;
  const std::size_t terms_size = load_le<std::uint16_t>(payload, kTermsSizeAt);
  if (terms_size > kTermsMax) return malformed("terms may have at most 512 bytes");
  if (terms_size > payload.size() - kJoinHeader) return malformed("terms beyond the join's end");
  // Read as characters, as std::string_view wants them: a char may alias any byte.
  const void* const terms = payload.data() + kJoinHeader;
  join.terms = {static_cast<const char*>(terms), terms_size};
  if (std::ranges::any_of(bytes_of(join.terms), is_control)) {
    return malformed("control bytes in the terms");
  }
  if (!is_padding(payload.subspan(kJoinHeader + terms_size))) {
    return malformed("a join's padding is not zero");
  }
  return join;
}

Result<Welcome> parse_welcome(std::span<const std::byte> payload) {
  if (payload.size() < kWelcomeSize) return malformed("a welcome has 12 bytes or more");
  SLUICE_TRY(check_shape(payload));
  Welcome welcome;
  welcome.workers = load_le<std::uint16_t>(payload, kWorkersAt);
  welcome.slots = load_le<std::uint16_t>(payload, kSlotsAt);
  welcome.frame_size = load_le<std::uint32_t>(payload, kFrameSizeAt);
  welcome.window = load_le<std::uint32_t>(payload, kWindowAt);
  if (welcome.window == 0) return malformed("a window must be 1 or more");
  if (!is_padding(payload.subspan(kWelcomeSize))) {
    return malformed("a welcome's padding is not zero");
  }
  return welcome;
}

bool is_cookie(std::span<const std::byte> payload) {
  return payload.size() == kCookieSize && !is_padding(payload);
}

std::uint64_t parse_cookie(std::span<const std::byte> payload) {
  SLUICE_ASSERT(is_cookie(payload));
  return load_le<std::uint64_t>(payload, 0);
}

bool is_refusal(std::span<const std::byte> text) {
  if (text.empty() || text.size() > kRefusalMax) return false;
  for (Bytes rest = text; !rest.empty();) {
    const std::size_t size = character_size(rest);
    if (size == 0 || is_control(rest[0])) return false;
    rest = rest.subspan(size);
  }
  return true;
}

}  // namespace sluice::wire
