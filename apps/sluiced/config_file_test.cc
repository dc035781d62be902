#include "config_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace sluice::daemon {
namespace {

class ConfigFileTest : public testing::Test {
 protected:
  ConfigFileTest()
      : folder_(testing::TempDir() + "sluiced_config_" +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(folder_);
  }
  ~ConfigFileTest() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& content) {
    const std::string path = folder_ + "/file";
    std::ofstream(path) << content;
    return path;
  }
  static void expect_refused(const std::string& path, const std::string& why) {
    const auto text = read_config_file(path);
    ASSERT_FALSE(text) << path;
    EXPECT_EQ(text.error().code, Code::invalid_argument);
    EXPECT_EQ(text.error().message,
              "--config '" + path + "': " + why +
                  "; accepted: a readable regular file of at most 65536 bytes");
  }

  std::string folder_;
};

TEST_F(ConfigFileTest, AFileIsReadAsItIs) {
  EXPECT_EQ(*read_config_file(write("")), "");
  const std::string content("jobs-max = 8\n\0\xff", 15);
  EXPECT_EQ(*read_config_file(write(content)), content);
}

TEST_F(ConfigFileTest, TheLargestIsTakenAndOneByteMoreIsNot) {
  EXPECT_EQ(read_config_file(write(std::string(kConfigSizeMax, '#')))->size(), kConfigSizeMax);
  expect_refused(write(std::string(kConfigSizeMax + 1, '#')), "is larger");
}

TEST_F(ConfigFileTest, WhatIsNoFileIsRefusedAtOnce) {
  expect_refused("/dev/zero", "is no regular file");
  expect_refused(folder_, "is a directory");
  expect_refused(folder_ + "/missing", "No such file or directory");
  expect_refused("", "No such file or directory");
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_refused(pipe, "is no regular file");
}

TEST_F(ConfigFileTest, AFileThatMayNotBeReadIsRefused) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const std::string path = write("jobs-max = 8\n");
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  expect_refused(path, "Permission denied");
}

}  // namespace
}  // namespace sluice::daemon
