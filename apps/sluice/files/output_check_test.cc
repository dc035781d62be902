#include "apps/sluice/files/output_check.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

bool is_part(std::string_view name) { return name.starts_with("part"); }

class OutputCheck : public ::testing::Test {
 protected:
  OutputCheck() {
    std::string pattern = (fs::temp_directory_path() / "sluice-check-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    std::ofstream(path("old")) << "old";
    fs::create_directory(path("sub"));
  }
  ~OutputCheck() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  // What is said of two files; empty: nothing.
  static std::string said(const std::string& out, const std::string& json) {
    const std::vector<NamedOutput> outputs{{"--out", out}, {"--json", json, nullptr, true}};
    const Verdict verdict = check_outputs(outputs);
    return verdict ? "" : verdict.error().message;
  }
  static bool is_fine(const std::string& folder, const std::string& file) {
    const std::vector<NamedOutput> outputs{{"--json", file}, {"--out", folder, &is_part}};
    return check_outputs(outputs).has_value();
  }

 private:
  std::string folder_;
};

TEST_F(OutputCheck, DifferentFilesAreFine) {
  EXPECT_EQ(said(path("x"), path("y")), "");
  EXPECT_EQ(said(path("x"), path("sub/x")), "");
  EXPECT_EQ(said(path("old"), path("x")), "");
  EXPECT_EQ(said(path("missing/x"), path("missing/y")), "");
  EXPECT_EQ(said(path("x"), "-"), "");
  EXPECT_EQ(said("-", "-"), "") << "a file and standard output";
}

TEST_F(OutputCheck, TheSameFileIsRefusedHoweverItIsSpelled) {
  fs::create_symlink("old", path("link"));
  fs::create_symlink("x", path("dangling"));
  fs::create_hard_link(path("old"), path("hard"));
  fs::create_directory_symlink("sub", path("way"));
  const std::vector<std::pair<std::string, std::string>> pairs{
      {"x", "x"},        {"x", "./x"},        {"x", "sub/../x"},
      {"old", "link"},   {"old", "hard"},     {"link", "hard"},
      {"dangling", "x"}, {"sub/x", "way/x"},  {"missing/x", "missing/./x"},
      {"sub", "way"},    {"way/y", "sub//y"},
  };
  for (const auto& [one, other] : pairs) {
    EXPECT_EQ(said(path(one), path(other)), "--out " + path(one) + " and --json " + path(other) +
                                                " are the same file; accepted: a file for each");
  }
}

TEST_F(OutputCheck, ADashIsAFileWhereItIsNotStandardOutput) {
  EXPECT_EQ(said("-", "./-"),
            "--out - and --json ./- are the same file; accepted: a file for each");
}

TEST_F(OutputCheck, DevicesMayBeNamedTwice) {
  EXPECT_EQ(said("/dev/null", "/dev/null"), "");
  EXPECT_EQ(said("/dev/full", "/dev/full"), "");
  EXPECT_EQ(said("/dev/fd/987654", "/dev/fd/987655"), "");
}

TEST_F(OutputCheck, AFileThatAFolderGetsIsRefused) {
  EXPECT_FALSE(is_fine(path("sub"), path("sub/part1")));
  EXPECT_FALSE(is_fine(path("new"), path("new/part1")));
  EXPECT_FALSE(is_fine(path("new"), path("./new/../new/part1")));
  EXPECT_FALSE(is_fine(path("new"), path("new")));
  EXPECT_TRUE(is_fine(path("sub"), path("sub/list")));
  EXPECT_TRUE(is_fine(path("sub"), path("part1")));
  EXPECT_TRUE(is_fine(path("sub"), path("sub/deeper/part1")));
}

TEST_F(OutputCheck, NothingIsNotAName) {
  EXPECT_EQ(said("", path("x")), "--out '' names nothing; accepted: a file");
}

}  // namespace
}  // namespace sluice::cli
