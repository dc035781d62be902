#include "wire/bodies.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "wire/frame.h"
#include "wire/golden_test.h"

namespace sluice::wire {
namespace {

const Join kJoin{.workers = 3,
                 .slots = 512,
                 .frame_size = 576,
                 .fits = 1472,
                 .is_bound = true,
                 .token = 0xFEEDFACECAFEBEEF,
                 .cookie = 0x1032547698BADCFE,
                 .terms = "sluice 1, thc:bits=4"};
const Welcome kWelcome{3, 256, 1472, 32};

Datagram golden_body(const std::string& name) {
  const Datagram frame = good_frames().at(name);
  return {frame.begin() + kHeaderSize, frame.end()};
}

std::string written(const Join& join) {
  std::string into = "what was there before";
  write_join(join, into);
  return into;
}

std::string written(const Welcome& welcome) {
  std::string into = "what was there before";
  write_welcome(welcome, 0, into);
  return into;
}

std::string refusal(std::string_view why) {
  std::string into = "what was there before";
  write_refusal(why, into);
  return into;
}

void expect_equal(const Join& a, const Join& b) {
  EXPECT_EQ(a.workers, b.workers);
  EXPECT_EQ(a.slots, b.slots);
  EXPECT_EQ(a.frame_size, b.frame_size);
  EXPECT_EQ(a.fits, b.fits);
  EXPECT_EQ(a.is_bound, b.is_bound);
  EXPECT_EQ(a.token, b.token);
  EXPECT_EQ(a.cookie, b.cookie);
  EXPECT_EQ(a.terms, b.terms);
}

void expect_equal(const Welcome& a, const Welcome& b) {
  EXPECT_EQ(a.workers, b.workers);
  EXPECT_EQ(a.slots, b.slots);
  EXPECT_EQ(a.frame_size, b.frame_size);
  EXPECT_EQ(a.window, b.window);
}

TEST(Join, IsWrittenAsTheGoldenFrameHasIt) {
  EXPECT_EQ(hex(bytes_of(written(kJoin))), hex(golden_body("join")));
}

TEST(Join, OfTheGoldenFrameIsRead) {
  const Datagram body = golden_body("join");
  const auto join = parse_join(body);
  ASSERT_TRUE(join) << join.error().what;
  expect_equal(*join, kJoin);
  const void* const first = body.data();
  EXPECT_GE(static_cast<const void*>(join->terms.data()), first) << "terms lie in the payload";
}

TEST(Join, ComesBackAtTheBordersOfEveryField) {
  const std::string longest(kTermsMax, 't');
  const std::string any_bytes = "\xff\x80 \x7f";
  for (const Join& join :
       {Join{1, 1, 576, 0, false, 0, 0, ""},
        Join{64, 65535, 65507, 65507, true, ~std::uint64_t{0}, ~std::uint64_t{0}, longest},
        Join{2, 7, 1472, 0, false, 1, 2, any_bytes}, Join{2, 7, 624, 576, false, 1, 0, longest},
        Join{2, 7, 576, 576, true, 1, 1, std::string_view(longest).substr(0, 464)}}) {
    const std::string body = written(join);
    EXPECT_EQ(kHeaderSize + body.size(), join.frame_size);
    const auto read = parse_join(bytes_of(body));
    ASSERT_TRUE(read) << read.error().what;
    expect_equal(*read, join);
    EXPECT_EQ(written(*read), body);
  }
}

TEST(Join, EveryTruncationIsMalformed) {
  const std::string body = written(kJoin);
  for (std::size_t size = 0; size < body.size(); ++size) {
    // Bytes that end with their allocation show a read beyond to an address sanitizer.
    const std::string cut = body.substr(0, size);
    const std::vector<char> exact(cut.begin(), cut.end());
    const auto read = parse_join(std::as_bytes(std::span(exact)));
    ASSERT_FALSE(read) << size;
    EXPECT_EQ(read.error().code, Code::malformed);
  }
}

// Any flipped bit gives an error or another join, never the same one: nothing is left unread.
TEST(Join, EveryFlippedBitCounts) {
  std::string body = written(kJoin);
  for (std::size_t bit = 0; bit < 8 * body.size(); ++bit) {
    const std::string right = body;
    body[bit / 8] = static_cast<char>(body[bit / 8] ^ (1 << (bit % 8)));
    const auto read = parse_join(bytes_of(body));
    if (read) {
      EXPECT_EQ(written(*read), body) << bit;
    } else {
      EXPECT_EQ(read.error().code, Code::malformed) << bit;
    }
    body = right;
  }
}

TEST(Join, RandomTermsComeBackOrAreRefused) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::string terms(mix(seed, 0) % kTermsMax, ' ');
    for (std::size_t i = 0; i < terms.size(); ++i) {
      terms[i] = static_cast<char>(0x20 + mix(seed, i + 1) % 0xE0);
    }
    Join join = kJoin;
    join.frame_size = 1472;
    join.terms = terms;
    const std::string body = written(join);
    const auto read = parse_join(bytes_of(body));
    ASSERT_TRUE(read) << read.error().what;
    EXPECT_EQ(read->terms, terms);
  }
}

TEST(Welcome, IsWrittenAsTheGoldenFrameHasIt) {
  EXPECT_EQ(hex(bytes_of(written(kWelcome))), hex(golden_body("welcome")));
}

TEST(Welcome, OfTheGoldenFrameIsRead) {
  const auto welcome = parse_welcome(golden_body("welcome"));
  ASSERT_TRUE(welcome) << welcome.error().what;
  expect_equal(*welcome, kWelcome);
}

TEST(Welcome, ComesBackAtTheBordersOfEveryField) {
  for (const Welcome& welcome : {Welcome{1, 1, 576, 1}, Welcome{64, 65535, 65507, ~0u}}) {
    const std::string body = written(welcome);
    const auto read = parse_welcome(bytes_of(body));
    ASSERT_TRUE(read) << read.error().what;
    expect_equal(*read, welcome);
  }
}

TEST(Welcome, IsPaddedWithZerosToAnySize) {
  for (std::size_t size = 0; size < 600; ++size) {
    std::string body = "what was there before";
    write_welcome(kWelcome, size, body);
    EXPECT_EQ(body.size(), std::max(size, kWelcomeSize));
    const auto read = parse_welcome(bytes_of(body));
    ASSERT_TRUE(read) << size << ": " << read.error().what;
    expect_equal(*read, kWelcome);
    if (size <= kWelcomeSize) continue;
    body.back() = '\1';
    EXPECT_FALSE(parse_welcome(bytes_of(body))) << size;
  }
  EXPECT_FALSE(parse_welcome(bytes_of(written(kWelcome)).first(kWelcomeSize - 1)));
}

TEST(Cookie, ComesBackAndIsNeverZero) {
  for (const std::uint64_t cookie : {std::uint64_t{1}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    std::string body = "what was there before";
    write_cookie(cookie, body);
    ASSERT_TRUE(is_cookie(bytes_of(body)));
    EXPECT_EQ(parse_cookie(bytes_of(body)), cookie);
  }
  const std::string zeros(kCookieSize, '\0');
  EXPECT_FALSE(is_cookie(bytes_of(zeros)));
  EXPECT_FALSE(is_cookie(bytes_of(std::string(kCookieSize + 1, 'x'))));
}

TEST(Token, AttemptsCountModulo) {
  EXPECT_TRUE(is_later_attempt(make_token(7, 1), make_token(7, 0)));
  EXPECT_TRUE(is_later_attempt(make_token(7, 0), make_token(7, 0xFFFF)));
  EXPECT_FALSE(is_later_attempt(make_token(7, 0xFFFF), make_token(7, 0)));
  EXPECT_FALSE(is_later_attempt(make_token(7, 3), make_token(7, 3)));
  EXPECT_EQ(life_of(make_token(0xABCDEF, 0xFFFF)), 0xABCDEFu);
}

TEST(Bodies, TheGoldenBadOnesAreMalformedForTheReasonGiven) {
  for (const auto& line : golden_lines("bodies.txt", 3)) {
    const Datagram body = from_hex(line[1]);
    Error error;
    if (line[0] == "join") {
      const auto read = parse_join(body);
      ASSERT_FALSE(read) << line[2] << ' ' << line[1];
      error = read.error();
    } else {
      const auto read = parse_welcome(body);
      ASSERT_FALSE(read) << line[2] << ' ' << line[1];
      error = read.error();
    }
    EXPECT_EQ(error, (Error{Code::malformed, 0, line[2].c_str()})) << error.what;
  }
}

TEST(Refusal, PlainTextStaysAsItIs) {
  for (const std::string_view text :
       {"a", "job 7 wants 512 slots, 256 are free", "à la carte", "日本", "\xf0\x9f\x9a\xb0",
        "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf", "\xef\xbf\xbf", "\xe0\xa0\x80", "\xc2\x80", "\x7f"}) {
    EXPECT_EQ(refusal(text), text);
    EXPECT_TRUE(is_refusal(bytes_of(text))) << text;
  }
}

TEST(Refusal, OddBytesBecomeMarks) {
  using std::string_view_literals::operator""sv;
  EXPECT_EQ(refusal(""), "refused");
  EXPECT_EQ(refusal("a\nb\x1b[31m\0c"sv), "a b [31m c");
  EXPECT_EQ(refusal("\x80|\xc1\xbf|\xff"), "?|??|?");
  EXPECT_EQ(refusal("\xed\xa0\x80"), "???") << "a surrogate";
  EXPECT_EQ(refusal("\xe0\x9f\xbf \xf0\x8f\xbf\xbf"), "??? ????") << "longer than it need be";
  EXPECT_EQ(refusal("\xf4\x90\x80\x80"), "????") << "beyond the last character";
  EXPECT_EQ(refusal("\xe2\x80"), "??") << "ends within a character";
  EXPECT_EQ(refusal("\xe2\x80z\xc3("), "??z?(");
}

TEST(Refusal, IsCutBetweenCharacters) {
  EXPECT_EQ(refusal(std::string(2000, 'x')), std::string(kRefusalMax, 'x'));
  const std::string text = std::string(kRefusalMax - 2, 'x') + "日本";
  EXPECT_EQ(refusal(text), std::string(kRefusalMax - 2, 'x'));
  EXPECT_EQ(refusal("1" + std::string(kRefusalMax - 4, 'x') + "日本").size(), kRefusalMax);
}

TEST(Refusal, WhateverStrangersSaidCanBeSent) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    std::string text(mix(seed, 0) % 1500, ' ');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(mix(seed, i + 1));
    const std::string made = refusal(text);
    ASSERT_TRUE(is_refusal(bytes_of(made))) << seed;
    ASSERT_EQ(refusal(made), made) << seed;
  }
}

TEST(Refusal, EmptyAndTooLongTextsAreNone) {
  EXPECT_FALSE(is_refusal({}));
  EXPECT_TRUE(is_refusal(bytes_of(std::string(kRefusalMax, 'x'))));
  EXPECT_FALSE(is_refusal(bytes_of(std::string(kRefusalMax + 1, 'x'))));
}

TEST(BodiesDeathTest, WhatMayNotBeSentStopsTheProgram) {
  const std::string long_terms(kTermsMax + 1, 't');
  const std::string terms(465, 't');
  const auto join = [](std::uint16_t workers, std::uint16_t slots, std::uint32_t frame_size,
                       std::string_view what) {
    return Join{.workers = workers, .slots = slots, .frame_size = frame_size, .terms = what};
  };
  EXPECT_DEATH(written(join(0, 1, 576, "")), "workers");
  EXPECT_DEATH(written(join(65, 1, 576, "")), "workers");
  EXPECT_DEATH(written(join(1, 0, 576, "")), "slots");
  EXPECT_DEATH(written(join(1, 1, 575, "")), "frame_size");
  EXPECT_DEATH(written(join(1, 1, 65508, "")), "frame_size");
  EXPECT_DEATH(written(join(1, 1, 1472, long_terms)), "kTermsMax");
  EXPECT_DEATH(written(join(1, 1, 576, terms)), "frame_size");
  EXPECT_DEATH(written(join(1, 1, 576, "a\tb")), "is_control");
  Join bound = join(1, 1, 576, "");
  bound.is_bound = true;
  EXPECT_DEATH(written(bound), "fits");
  bound.fits = 575;
  EXPECT_DEATH(written(bound), "fits");
  bound.fits = 65508;
  EXPECT_DEATH(written(bound), "fits");
  EXPECT_DEATH(written(Welcome{65, 1, 576, 1}), "workers");
  EXPECT_DEATH(written(Welcome{1, 0, 576, 1}), "slots");
  EXPECT_DEATH(written(Welcome{1, 1, 575, 1}), "frame_size");
  EXPECT_DEATH(written(Welcome{1, 1, 576, 0}), "window");
}

}  // namespace
}  // namespace sluice::wire
