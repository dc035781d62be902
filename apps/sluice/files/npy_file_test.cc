// Reading and writing .npy files.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <tuple>

#include "apps/sluice/files/npy.h"
#include "apps/sluice/files/npy_bytes_test.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

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
