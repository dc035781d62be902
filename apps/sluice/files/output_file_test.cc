#include "apps/sluice/files/output_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public ::testing::Test {
 protected:
  OutputFileTest() {
    std::string pattern = (fs::temp_directory_path() / "sluice-output-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~OutputFileTest() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  static std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  [[nodiscard]] std::size_t file_count() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}));
  }

 private:
  std::string folder_;
};

TEST_F(OutputFileTest, IsThereWholeOrNotAtAll) {
  put("x", "old");
  {
    auto file = OutputFile::create(path("x"));
    ASSERT_TRUE(file.has_value());
    file->write("half");
    EXPECT_EQ(content(path("x")), "old");
  }
  EXPECT_EQ(content(path("x")), "old");
  EXPECT_EQ(file_count(), 1u);
  ASSERT_TRUE(write_file(path("x"), "new"));
  EXPECT_EQ(content(path("x")), "new");
  EXPECT_EQ(file_count(), 1u);
}

TEST_F(OutputFileTest, SmallAndLargePiecesKeepTheirOrder) {
  std::string all;
  auto file = OutputFile::create(path("x"));
  ASSERT_TRUE(file.has_value());
  for (const std::size_t size : {1u, 65535u, 65536u, 2u, 65537u, 300000u, 0u, 3u}) {
    const std::string piece(size, static_cast<char>('a' + all.size() % 26));
    file->write(piece);
    all += piece;
  }
  ASSERT_TRUE(file->finish());
  EXPECT_EQ(content(path("x")), all);
}

TEST_F(OutputFileTest, AppendAddsToTheEnd) {
  for (const char* text : {"one", "two"}) {
    auto file = OutputFile::append(path("x"));
    ASSERT_TRUE(file.has_value());
    file->write(text);
    ASSERT_TRUE(file->finish());
  }
  EXPECT_EQ(content(path("x")), "onetwo");
}

TEST_F(OutputFileTest, AFullDeviceIsNamedWithTheReason) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{1} << 20}) {
    const Verdict verdict = write_file("/dev/full", std::string(size, 'x'));
    ASSERT_FALSE(verdict);
    EXPECT_EQ(verdict.error().code, Code::io);
    EXPECT_EQ(verdict.error().message, "/dev/full: cannot be written: No space left on device");
  }
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(OutputFileTest, TheFirstReasonIsTold) {
  auto file = OutputFile::append("/dev/full");
  ASSERT_TRUE(file.has_value());
  file->write(std::string(1 << 20, 'x'));
  errno = EBADF;
  file->write(std::string(1 << 20, 'x'));
  EXPECT_EQ(file->finish().error().message,
            "/dev/full: cannot be written: No space left on device");
}

TEST_F(OutputFileTest, DevicesAndPipesAreWrittenToAsTheyAre) {
  EXPECT_TRUE(write_file("/dev/null", "x"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_TRUE(write_file("/dev/fd/" + std::to_string(ends[1]), "through"));
  char got[8] = {};
  EXPECT_EQ(::read(ends[0], got, sizeof got), 7);
  EXPECT_STREQ(got, "through");
  EXPECT_EQ(::write(ends[1], "!", 1), 1) << "it is still open";
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_FALSE(write_file("/dev/fd/987654", "x"));
}

TEST_F(OutputFileTest, ALinkStaysAndItsTargetIsReplaced) {
  fs::create_directory(path("sub"));
  fs::create_symlink("sub/target", path("link"));
  for (const char* text : {"first", "second"}) {
    ASSERT_TRUE(write_file(path("link"), text));
    EXPECT_TRUE(fs::is_symlink(path("link")));
    EXPECT_EQ(content(path("sub/target")), text);
  }
  fs::create_symlink("loop", path("loop"));
  for (const char* name : {"loop", "loop/x"}) {
    const Verdict refused = write_file(path(name), "x");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message,
              path(name) + ": cannot be written: Too many levels of symbolic links");
  }
  EXPECT_TRUE(fs::is_symlink(path("loop")));
}

TEST_F(OutputFileTest, TheModeOfTheOldFileIsKept) {
  for (const mode_t mode : {0600u, 0640u, 0666u, 0755u}) {
    put("x", "old");
    ASSERT_EQ(::chmod(path("x").c_str(), mode), 0);
    ASSERT_TRUE(write_file(path("x"), "new"));
    EXPECT_EQ(content(path("x")), "new");
    struct stat status {};
    ASSERT_EQ(::stat(path("x").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777u, mode);
  }
}

TEST_F(OutputFileTest, TheLongestNameIsWritten) {
  const std::string name(255, 'n');
  for (const char* text : {"first", "second"}) {
    ASSERT_TRUE(write_file(path(name), text));
    EXPECT_EQ(content(path(name)), text);
  }
  EXPECT_EQ(file_count(), 1u);
}

TEST(DescriptorNamed, KnowsTheSystemsNames) {
  EXPECT_EQ(descriptor_named("/dev/stdout"), 1);
  EXPECT_EQ(descriptor_named("/dev/stderr"), 2);
  EXPECT_EQ(descriptor_named("/dev/fd/12"), 12);
  EXPECT_EQ(descriptor_named("/proc/self/fd/3"), 3);
  for (const char* other : {"", "/dev/fd/", "/dev/fd/x", "/dev/fd/1x", "/dev/fd/-1", "/dev/null",
                            "/dev/fd/99999999999", "stdout", "/dev/stdout/"}) {
    EXPECT_FALSE(descriptor_named(other)) << other;
  }
}

}  // namespace
}  // namespace sluice::cli
