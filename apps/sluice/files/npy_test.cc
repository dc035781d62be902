#include "apps/sluice/files/npy.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <tuple>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "base/bytes.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<std::byte>;
using Shape = std::vector<std::uint64_t>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

void append(Bytes& bytes, std::string_view text) {
  for (const char letter : text) bytes.push_back(static_cast<std::byte>(letter));
}

// A file of any version with any header, followed by the values as they are.
template <class T = float>
Bytes file_of(std::string_view header, std::vector<T> values = {}, unsigned version = 1) {
  Bytes bytes;
  append(bytes, "\x93NUMPY");
  bytes.push_back(static_cast<std::byte>(version));
  bytes.push_back(std::byte{0});
  const std::size_t at = bytes.size();
  bytes.resize(at + (version == 1 ? 2 : 4));
  if (version == 1) store_le(bytes, at, static_cast<std::uint16_t>(header.size()));
  if (version != 1) store_le(bytes, at, static_cast<std::uint32_t>(header.size()));
  append(bytes, header);
  const auto data = std::as_bytes(std::span(values));
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

std::string header_of(std::string_view type, std::string_view shape) {
  return "{'descr': '" + std::string(type) +
         "', 'fortran_order': False, 'shape': " + std::string(shape) + ", }\n";
}

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

// numpy.save("x.npy", numpy.array([[1], [0.5]], "float32"))
Bytes golden_file() {
  Bytes bytes;
  append(bytes, {"\x93NUMPY\x01\x00\x76\x00", 10});
  append(bytes, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }");
  append(bytes, std::string(58, ' ') + "\n");
  append(bytes, {"\x00\x00\x80\x3f\x00\x00\x00\x3f", 8});
  return bytes;
}

// A folder of its own for each test.
class NpyFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/npy_test_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }

  [[nodiscard]] std::size_t file_count() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  static Bytes contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    Bytes bytes;
    append(bytes, text);
    return bytes;
  }

  static void put(const std::string& path, const Bytes& bytes) {
    std::ofstream file(path, std::ios::binary);
    for (const std::byte byte : bytes) file.put(static_cast<char>(byte));
  }

 private:
  fs::path folder_;
};

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

TEST_F(NpyFile, ReadsAndWritesTheVeryBytesOfNumpy) {
  const std::string saved = std::string(SLUICE_TEST_DATA) + "/gpt-step300/w0.npy";
  const auto array = read_npy(saved);
  ASSERT_TRUE(array) << array.error().message;
  EXPECT_EQ(array->shape, Shape{393216});
  ASSERT_TRUE(write_npy(path("w0.npy"), array->shape, array->values));
  EXPECT_EQ(contents(path("w0.npy")), contents(saved));
}

// The dictionary and the size of the data's offset, computed with NumPy 2's own rule: room for a
// first axis of 21 digits, then one to 64 spaces.
TEST_F(NpyFile, WritesHeadersAsNumpyDoes) {
  const std::string ones = "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ";
  Shape twelve(13, 1);
  twelve[0] = 0;
  const auto with = [&](std::uint64_t last) {
    Shape shape = twelve;
    shape.push_back(last);
    return shape;
  };
  const std::tuple<Shape, std::string, std::size_t> cases[] = {
      {{}, "()", 128},
      {{0}, "(0,)", 128},
      {{3, 0}, "(3, 0)", 128},
      {{1234567, 0}, "(1234567, 0)", 128},
      {with(1), "(0, " + ones + "1, 1)", 128},
      {with(10), "(0, " + ones + "1, 10)", 128},
      {with(100), "(0, " + ones + "1, 100)", 192},  // would fit 128 exactly: 64 spaces more
      {with(1000), "(0, " + ones + "1, 1000)", 192},
  };
  for (const auto& [shape, text, size] : cases) {
    const std::vector<float> values(shape.empty() ? 1 : 0);
    ASSERT_TRUE(write_npy(path("x.npy"), shape, values));
    const std::string dictionary =
        "{'descr': '<f4', 'fortran_order': False, 'shape': " + text + ", }";
    Bytes expected;
    append(expected, {"\x93NUMPY\x01\x00", 8});
    expected.push_back(static_cast<std::byte>(size - 10));
    expected.push_back(std::byte{0});
    append(expected, dictionary + std::string(size - 11 - dictionary.size(), ' ') + "\n");
    expected.resize(expected.size() + values.size() * sizeof(float));
    EXPECT_EQ(contents(path("x.npy")), expected) << text;
  }
}

TEST_F(NpyFile, WritesTheGoldenFile) {
  const std::vector<float> values{1.0f, 0.5f};
  ASSERT_TRUE(write_npy(path("x.npy"), Shape{2, 1}, values));
  EXPECT_EQ(contents(path("x.npy")), golden_file());
  EXPECT_EQ(file_count(), 1u);
}

TEST_F(NpyFile, RoundTripsEveryType) {
  const std::vector<std::uint16_t> halves(700001, 0x3c01);  // more than a chunk of each
  const std::vector<double> doubles(150001, 0.1);
  put(path("h.npy"), file_of(header_of("<f2", "(700001,)"), halves, 3));
  put(path("d.npy"), file_of(header_of("<f8", "(1, 150001)"), doubles));
  const auto half = read_npy(path("h.npy"));
  const auto wide = read_npy(path("d.npy"));
  ASSERT_TRUE(half) << half.error().message;
  ASSERT_TRUE(wide) << wide.error().message;
  EXPECT_EQ(half->values, std::vector<float>(700001, 1 + 0x1p-10f));
  EXPECT_EQ(wide->values, std::vector<float>(150001, 0.1f));

  ASSERT_TRUE(write_npy(path("x.npy"), wide->shape, wide->values));
  const auto again = read_npy(path("x.npy"));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->shape, wide->shape);
  EXPECT_EQ(again->values, wide->values);
}

TEST_F(NpyFile, ReadRefusesLikeParse) {
  Bytes bytes = golden_file();
  bytes.pop_back();
  put(path("cut.npy"), bytes);
  const auto cut = read_npy(path("cut.npy"));
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, Code::malformed);
  EXPECT_EQ(cut.error().message, path("cut.npy") +
                                     ": data cut off: 7 bytes are there, 8 needed "
                                     "for shape (2, 1) of '<f4'");
  put(path("empty.npy"), {});
  EXPECT_FALSE(read_npy(path("empty.npy")));
}

TEST_F(NpyFile, ReadNamesWhatCannotBeOpened) {
  const auto missing = read_npy(path("missing.npy"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::io);
  EXPECT_EQ(missing.error().message,
            path("missing.npy") + ": cannot be opened: No such file or directory");
  const auto folder = read_npy(path(""));
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().message, path("") + ": not a regular file");
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_npy(path("pipe")).error().message, path("pipe") + ": not a regular file");
}

TEST_F(NpyFile, WriteReplacesAFileAndKeepsItOnFailure) {
  const std::vector<float> small{1.0f};
  const std::vector<float> large(100000, 2.0f);
  ASSERT_TRUE(write_npy(path("x.npy"), Shape{1}, std::vector<float>{9.0f}));
  ASSERT_TRUE(write_npy(path("x.npy"), Shape{1}, small));

  // A disk that fills up, as far as this process can tell.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{20000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const Verdict over = write_npy(path("x.npy"), Shape{100000}, large);
  const Verdict beside = write_npy(path("y.npy"), Shape{100000}, large);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  static_cast<void>(std::signal(SIGXFSZ, handler));

  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Code::io);
  EXPECT_EQ(over.error().message, path("x.npy") + ": cannot be written: File too large");
  EXPECT_FALSE(beside);
  EXPECT_EQ(file_count(), 1u);
  EXPECT_EQ(read_npy(path("x.npy"))->values, small);
}

TEST_F(NpyFile, WriteToWhereItCannotLeavesNothing) {
  const std::vector<float> values{1.0f};
  const Verdict missing = write_npy(path("missing/x.npy"), Shape{1}, values);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::io);
  EXPECT_EQ(missing.error().message,
            path("missing/x.npy") + ": cannot be written: No such file or directory");

  fs::create_directory(path("sub"));
  const Verdict folder = write_npy(path("sub"), Shape{1}, values);
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().message, path("sub") + ": cannot be written: Is a directory");
  EXPECT_TRUE(write_npy("/dev/null", Shape{1}, values));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_FALSE(write_npy("", Shape{1}, values));
  EXPECT_EQ(file_count(), 1u);
}

TEST_F(NpyFile, WriteToAFolderWithoutPermissionLeavesNothing) {
  fs::create_directory(path("sub"));
  ASSERT_EQ(::chmod(path("sub").c_str(), 0500), 0);
  if (::access(path("sub").c_str(), W_OK) == 0) GTEST_SKIP() << "root writes everywhere";
  EXPECT_EQ(write_npy(path("sub/x.npy"), Shape{1}, std::vector<float>{1.0f}).error().message,
            path("sub/x.npy") + ": cannot be written: Permission denied");
  EXPECT_TRUE(fs::is_empty(path("sub")));
}

TEST_F(NpyFile, WriteAvoidsFilesThatHaveTheTemporaryName) {
  const std::string taken = path("x.npy") + "." + std::to_string(::getpid()) + ".0.tmp";
  put(taken, golden_file());
  ASSERT_TRUE(write_npy(path("x.npy"), Shape{}, std::vector<float>{1.0f}));
  EXPECT_EQ(contents(taken), golden_file());
  EXPECT_EQ(file_count(), 2u);
}

TEST_F(NpyFile, WriteRefusesMoreDimensionsThanNumpyHas) {
  const Verdict verdict = write_npy(path("x.npy"), Shape(65, 1), std::vector<float>{1.0f});
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().code, Code::invalid_argument);
  EXPECT_EQ(file_count(), 0u);
}

}  // namespace
}  // namespace sluice::cli
