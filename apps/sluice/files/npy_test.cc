#include "apps/sluice/files/npy.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <tuple>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "apps/sluice/files/npy_bytes_test.h"

namespace sluice::cli {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

Checked<Array> parse(const Bytes& bytes) { return parse_npy(bytes, "grads.npy"); }

// What a person sees: one line that starts with the file's name.
std::string refusal(const Bytes& bytes, Code code = Code::malformed) {
  const auto array = parse(bytes);
  if (array) return "accepted";
  EXPECT_EQ(array.error().code, code) << array.error().message;
  EXPECT_TRUE(array.error().message.starts_with("grads.npy: ")) << array.error().message;
  EXPECT_EQ(array.error().message.find('\n'), std::string::npos) << array.error().message;
  return array.error().message.substr(11);
}

TEST(ParseNpy, ReadsWhatNumpySaves) {
  const auto array = parse(golden_file());
  ASSERT_TRUE(array) << array.error().message;
  EXPECT_EQ(array->shape, (Shape{2, 1}));
  EXPECT_EQ(array->values, (std::vector<float>{1.0f, 0.5f}));
}

TEST(ParseNpy, ReadsAllThreeVersions) {
  for (const unsigned version : {1u, 2u, 3u}) {
    const auto array = parse(file_of<float>(header_of("<f4", "(3,)"), {1, 2, 3}, version));
    ASSERT_TRUE(array) << array.error().message;
    EXPECT_EQ(array->values, (std::vector<float>{1, 2, 3}));
  }
}

TEST(ParseNpy, ReadsEveryWayToWriteTheDictionary) {
  for (const std::string_view header : {
           "{'descr':'<f4','fortran_order':False,'shape':(2,1)}",
           "{\"shape\": (2, 1), \"descr\": \"<f4\", \"fortran_order\": False, }",
           "  { 'fortran_order' : False ,\n 'shape' :\t( 2 , 1 , ) , 'descr' : '<f4' , }  \r\n",
           "{'shape': (2, 1), 'fortran_order': False, 'descr': \"<f4\"}            ",
       }) {
    const auto array = parse(file_of<float>(header, {7, 8}));
    ASSERT_TRUE(array) << array.error().message;
    EXPECT_EQ(array->shape, (Shape{2, 1}));
    EXPECT_EQ(array->values, (std::vector<float>{7, 8}));
  }
}

TEST(ParseNpy, ReadsScalarsEmptyArraysAndManyDimensions) {
  const auto scalar = parse(file_of<float>(header_of("<f4", "()"), {5}));
  ASSERT_TRUE(scalar) << scalar.error().message;
  EXPECT_EQ(scalar->shape, Shape{});
  EXPECT_EQ(scalar->values, std::vector<float>{5});
  const auto empty = parse(file_of<float>(header_of("<f4", "(0,)")));
  ASSERT_TRUE(empty) << empty.error().message;
  EXPECT_EQ(empty->shape, Shape{0});
  EXPECT_TRUE(empty->values.empty());
  // The product of the others would overflow, but there is nothing.
  EXPECT_TRUE(parse(file_of<float>(header_of("<f4", "(1099511627776, 1099511627776, 0)"))));

  std::string ones = "(";
  for (std::size_t i = 0; i < kNpyDimensionsMax; ++i) ones += "1,";
  EXPECT_TRUE(parse(file_of<float>(header_of("<f4", ones + ")"), {5})));
  EXPECT_EQ(refusal(file_of<float>(header_of("<f4", ones + "1)"), {5}), Code::invalid_argument),
            "a shape of more than 64 dimensions is not accepted");
}

TEST(ParseNpy, KeepsFloat32BitForBit) {
  const std::vector<std::uint32_t> bits{0x00000001, 0x80000000, 0x7f800001, 0xffc12345, 0x7f7fffff};
  const auto array = parse(file_of(header_of("<f4", "(5,)"), bits));
  ASSERT_TRUE(array);
  for (std::size_t i = 0; i < bits.size(); ++i) EXPECT_EQ(bits_of(array->values[i]), bits[i]);
}

TEST(ParseNpy, ConvertsFloat16Exactly) {
  const std::vector<std::uint16_t> codes{0x3c00, 0xc000, 0x0001, 0x83ff, 0x7bff,
                                         0x7c00, 0xfc00, 0x8000, 0x7e01};
  const std::vector<float> expected{1,     -2,        0x1p-24f,   -0x3ffp-24f,
                                    65504, kInfinity, -kInfinity, -0.0f};
  const auto array = parse(file_of(header_of("<f2", "(9,)"), codes));
  ASSERT_TRUE(array) << array.error().message;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(bits_of(array->values[i]), bits_of(expected[i])) << i;
  }
  EXPECT_EQ(bits_of(array->values[8]), 0x7fc00000u);
}

struct Rounded {
  double wide;
  float narrow;
};
constexpr Rounded kRounded[] = {
    {1.0, 1.0f},
    {-0.0, -0.0f},
    {1 + 0x1p-24, 1.0f},                       // a tie, to even
    {1 + 0x3p-24, 1 + 0x1p-22f},               // a tie, to even
    {1 + 0x1p-24 + 0x1p-52, 1 + 0x1p-23f},     // just above a tie
    {0x1p-150, 0.0f},                          // half of the smallest
    {0x1.8p-150, 0x1p-149f},                   // three quarters
    {-0x1.8p-149, -0x1p-148f},                 // a tie between subnormals
    {0x1.fffffefffffffp127, 0x1.fffffep127f},  // just below the tie with infinity
    {0x1.ffffffp127, kInfinity},
    {-1e300, -kInfinity},
    {std::numeric_limits<double>::infinity(), kInfinity},
};

TEST(ParseNpy, RoundsFloat64ToNearestWhateverTheHostRoundsLike) {
  std::vector<double> wide;
  for (const Rounded& pair : kRounded) wide.push_back(pair.wide);
  wide.push_back(std::numeric_limits<double>::quiet_NaN());
  const Bytes bytes = file_of(header_of("<f8", "(13,)"), wide);
#if defined(__x86_64__)
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040u | 0x6000u);  // flush to zero, denormals are zero, toward zero
  const auto array = parse(bytes);
  _mm_setcsr(before);
#else
  const auto array = parse(bytes);
#endif
  ASSERT_TRUE(array) << array.error().message;
  for (std::size_t i = 0; i < std::size(kRounded); ++i) {
    EXPECT_EQ(bits_of(array->values[i]), bits_of(kRounded[i].narrow)) << kRounded[i].wide;
  }
  EXPECT_EQ(bits_of(array->values[12]), 0x7fc00000u);
}

TEST(ParseNpy, RefusesWhatIsNoNpyFile) {
  EXPECT_EQ(refusal({}), "not a .npy file: starts with \"\" instead of \"\\x93NUMPY\"");
  Bytes zip;
  append(zip, "PK\x03\x04\n and more");
  EXPECT_EQ(refusal(zip),
            "not a .npy file: starts with \"PK\\x03\\x04\\x0a \" instead of \"\\x93NUMPY\"");
}

TEST(ParseNpy, RefusesOtherVersions) {
  for (const auto& [major, minor, shown] :
       {std::tuple{4, 0, "4.0"}, {0, 0, "0.0"}, {1, 1, "1.1"}, {255, 255, "255.255"}}) {
    Bytes bytes = golden_file();
    bytes[6] = static_cast<std::byte>(major);
    bytes[7] = static_cast<std::byte>(minor);
    EXPECT_EQ(refusal(bytes), std::string("format version ") + shown +
                                  " is not accepted (accepted: 1.0, 2.0, 3.0)");
  }
}

TEST(ParseNpy, RefusesHeadersThatAreCutOffOrTooLong) {
  Bytes bytes = golden_file();
  bytes.resize(100);
  EXPECT_EQ(refusal(bytes), "header cut off: 90 bytes are there, 118 needed");
  bytes = file_of<float>(header_of("<f4", "()"), {1}, 2);
  store_le(bytes, 8, std::uint32_t{65537});
  EXPECT_EQ(refusal(bytes), "a header of 65537 bytes is not accepted (at most 65536)");
  store_le(bytes, 8, std::uint32_t{0xffffffff});
  EXPECT_EQ(refusal(bytes), "a header of 4294967295 bytes is not accepted (at most 65536)");

  std::string longest = header_of("<f4", "()");
  longest.resize(kNpyHeaderBytesMax, ' ');
  EXPECT_TRUE(parse(file_of<float>(longest, {1}, 2)));
}

TEST(ParseNpy, RefusesHeadersThatAreNoSuchDictionary) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", "header byte 0: expected '{', found the end"},
      {"[1]", "header byte 0: expected '{', found \"[1]\""},
      {"{", "header byte 1: expected a quoted key, found the end"},
      {"{'descr", "header byte 1: expected a quoted key, found \"'descr\""},
      {"{1: 2}", "header byte 1: expected a quoted key, found \"1: 2}\""},
      {"{'descr' '<f4'}", "header byte 9: expected ':', found \"'<f4'}\""},
      {"{'descr': 4}", "header byte 10: expected a quoted type, found \"4}\""},
      {"{'fortran_order': 0}", "header byte 18: expected True or False, found \"0}\""},
      {"{'fortran_order': 'False'}", "header byte 18: expected True or False"},
      {"{'fortran_order': Falsey}", "header byte 23: expected ',' or '}', found \"y}\""},
      {"{'shape': [3]}", "header byte 10: expected a tuple of sizes, found \"[3]}\""},
      {"{'shape': 3}", "header byte 10: expected a tuple of sizes, found \"3}\""},
      {"{'shape': (3)}", "header byte 13: expected a tuple, (3,) rather than (3), found \"}\""},
      {"{'shape': (3 4)}", "header byte 13: expected ',' or ')', found \"4)}\""},
      {"{'shape': (,)}", "header byte 11: expected a size, found \",)}\""},
      {"{'shape': (3,,)}", "header byte 13: expected a size, found \",)}\""},
      {"{'shape': (-1,)}", "header byte 11: expected a size, found \"-1,)}\""},
      {"{'shape': (007,)}", "header byte 11: expected a size, found \"007,)}\""},
      {"{'shape': (2.0,)}", "header byte 12: expected ',' or ')', found \".0,)}\""},
      {"{'shape': (True,)}", "header byte 11: expected a size, found \"True,)}\""},
      {"{'shape': (2,)", "header byte 14: expected ',' or '}', found the end"},
      {"{'shape': (2,),, }", "header byte 15: expected a quoted key, found \", }\""},
      {"{'shape': (2,), 'shape': (2,)}", "the header has 'shape' twice (accepted: a dictionary "},
      {"{'spam\n': 1}",
       "the header has a key \"spam\\x0a\" (accepted: a dictionary of exactly "
       "'descr', 'fortran_order' and 'shape')"},
      {"{'shape': (2,)}", "the header has no 'descr' (accepted: a dictionary of exactly "},
      {"{'descr': '<f4', 'shape': ()}", "the header has no 'fortran_order' (accepted"},
      {"{'descr': '<f4', 'fortran_order': False}", "the header has no 'shape' (accepted"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': ()} x", "expected nothing, found \"x\""},
  };
  for (const auto& [header, expected] : cases) {
    const std::string message = refusal(file_of<float>(header, {1, 2, 3}));
    EXPECT_NE(message.find(expected), std::string::npos) << header << "\n" << message;
  }
}

TEST(ParseNpy, ShowsLittleOfALongLine) {
  const std::string message = refusal(file_of<float>("{" + std::string(60000, 'x')));
  EXPECT_LT(message.size(), 200u);
}

TEST(ParseNpy, RefusesFortranOrder) {
  const std::string header = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }";
  EXPECT_EQ(refusal(file_of<float>(header, {1, 2, 3, 4}), Code::invalid_argument),
            "fortran_order True is not accepted, only False (C order; convert with "
            "numpy.ascontiguousarray)");
}

TEST(ParseNpy, RefusesOtherTypes) {
  for (const std::string_view type : {">f4", "=f4", "|f4", "f4", "<i4", "<f16", "<c8", "|O", ""}) {
    EXPECT_EQ(refusal(file_of<float>(header_of(type, "(1,)"), {1}), Code::invalid_argument),
              "type \"" + std::string(type) +
                  "\" is not accepted (accepted: '<f4', '<f2', '<f8'; convert with "
                  ".astype('float32'))");
  }
  const std::string_view structured =
      "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }";
  const std::string message = refusal(file_of<float>(structured, {1}), Code::invalid_argument);
  EXPECT_TRUE(message.starts_with("type \"[('a', '<f4')], ")) << message;
}

TEST(ParseNpy, RefusesShapesThatAreTooLargeBeforeAllocating) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"(1099511627777,)",
       "a size of 1099511627777 in the shape is not accepted (at most 2^40 "
       "elements)"},
      {"(99999999999999999999999, 0)",
       "a size of 99999999999999999999999 in the shape is not "
       "accepted (at most 2^40 elements)"},
      {"(1048576, 1048577)", "shape (1048576, 1048577) is not accepted (at most 2^40 elements)"},
      {"(1099511627776, 1099511627776)",
       "shape (1099511627776, 1099511627776) is not accepted (at most 2^40 elements)"},
      {"(4294967296, 4294967296)",
       "shape (4294967296, 4294967296) is not accepted (at most 2^40 "
       "elements)"},
  };
  for (const auto& [shape, expected] : cases) {
    EXPECT_EQ(refusal(file_of<float>(header_of("<f8", shape)), Code::invalid_argument), expected);
  }
  EXPECT_EQ(refusal(file_of<float>(header_of("<f8", "(1099511627776,)"), {1})),
            "data cut off: 4 bytes are there, 8796093022208 needed for shape (1099511627776,) of "
            "'<f8'");
}

TEST(ParseNpy, RefusesMissingAndSurplusBytes) {
  Bytes bytes = golden_file();
  bytes.pop_back();
  EXPECT_EQ(refusal(bytes), "data cut off: 7 bytes are there, 8 needed for shape (2, 1) of '<f4'");
  bytes = golden_file();
  bytes.push_back(std::byte{0});
  EXPECT_EQ(refusal(bytes),
            "bytes after the data: 9 bytes are there, 8 needed for shape (2, 1) of '<f4'");
}

TEST(ParseNpy, EveryTruncationIsAnError) {
  for (const unsigned version : {1u, 2u}) {
    const Bytes whole = file_of<float>(header_of("<f4", "(2, 1)"), {1, 2}, version);
    ASSERT_TRUE(parse(whole));
    for (std::size_t size = 0; size < whole.size(); ++size) {
      // A buffer of its own, so that a sanitizer sees a read beyond it.
      EXPECT_NE(refusal(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))),
                "accepted")
          << size;
    }
  }
}

TEST(ParseNpy, EveryChangedByteOfTheHeaderIsAnErrorOrAnArray) {
  const Bytes whole = golden_file();
  std::size_t accepted = 0;
  for (std::size_t at = 0; at < whole.size() - 8; ++at) {
    for (unsigned flip = 1; flip < 256; ++flip) {
      Bytes bytes = whole;
      bytes[at] ^= static_cast<std::byte>(flip);
      const auto array = parse(bytes);
      if (!array) {
        EXPECT_EQ(array.error().message.find('\n'), std::string::npos);
        continue;
      }
      ++accepted;
      EXPECT_EQ(array->values.size(), 2u) << at << " " << flip;
    }
  }
  EXPECT_GT(accepted, 0u);  // a tab for a space, say
}

}  // namespace
}  // namespace sluice::cli
