#include "daemon_options.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace sluice::daemon {
namespace {

using Variables = std::map<std::string, std::string>;

Checked<Options> parse(const std::vector<std::string>& arguments, const Variables& variables = {}) {
  return parse_options(arguments, [&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
}

// What the refusal says; empty where there is none.
std::string refusal(const std::vector<std::string>& arguments, const Variables& variables = {}) {
  const auto options = parse(arguments, variables);
  if (options) return {};
  EXPECT_EQ(options.error().code, Code::invalid_argument);
  EXPECT_EQ(options.error().message.find('\n'), std::string::npos) << options.error().message;
  return options.error().message;
}

void expect_mentions(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' in: " << text;
  }
}

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& content)
      : path_(testing::TempDir() + "sluiced_" +
              testing::UnitTest::GetInstance()->current_test_info()->name() + ".conf") {
    std::ofstream(path_) << content;
  }
  ~ConfigFile() { std::remove(path_.c_str()); }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(SluicedOptions, DefaultsAreThoseOfTheAggregator) {
  const auto options = parse({});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->listen, "0.0.0.0:48864");
  EXPECT_FALSE(options->has_http());
  EXPECT_TRUE(options->asked.empty());
  const protocol::AggregatorOptions made = options->aggregator();
  const protocol::AggregatorOptions defaults;
  EXPECT_EQ(made.limits.jobs_max, defaults.limits.jobs_max);
  EXPECT_EQ(made.limits.slots_max, defaults.limits.slots_max);
  EXPECT_EQ(made.limits.memory_max, defaults.limits.memory_max);
  EXPECT_EQ(made.frame_size, defaults.frame_size);
  EXPECT_EQ(made.limits.lease, defaults.limits.lease);
}

TEST(SluicedOptions, EveryFlagIsTaken) {
  const auto options =
      parse({"--listen", "a:1", "--http", "b:2", "--jobs-max", "3", "--slots-max", "4",
             "--memory-max", "5000000", "--frame-size", "6000", "--lease", "7", "--drain", "0",
             "--wait-log", "9"});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->listen, "a:1");
  EXPECT_EQ(options->http, "b:2");
  EXPECT_TRUE(options->has_http());
  EXPECT_EQ(options->drain_seconds, 0u);
  EXPECT_EQ(options->wait_log_seconds, 9u);
  const protocol::AggregatorOptions made = options->aggregator();
  EXPECT_EQ(made.limits.jobs_max, 3u);
  EXPECT_EQ(made.limits.slots_max, 4u);
  EXPECT_EQ(made.limits.memory_max, 5000000u);
  EXPECT_EQ(made.frame_size, 6000u);
  EXPECT_EQ(made.limits.lease, std::chrono::seconds(7));
}

TEST(SluicedOptions, NumbersOutsideTheirRangeAreNamedWithIt) {
  expect_mentions(refusal({"--jobs-max", "0"}), {"--jobs-max", "'0'", "1 to 65536"});
  expect_mentions(refusal({"--jobs-max=-1"}), {"'-1'", "1 to 65536"});
  expect_mentions(refusal({"--slots-max", "16777217"}), {"'16777217'", "1 to 16777216"});
  expect_mentions(refusal({"--memory-max", "1G"}), {"'1G'", "1048576 to 1099511627776"});
  expect_mentions(refusal({"--frame-size", "1103"}), {"'1103'", "1104 to 65507"});
  expect_mentions(refusal({"--frame-size", "65508"}), {"'65508'", "1104 to 65507"});
  expect_mentions(refusal({"--lease", "0"}), {"'0'", "1 to 86400"});
  expect_mentions(refusal({"--drain", "86401"}), {"'86401'", "0 to 86400"});
  expect_mentions(refusal({"--wait-log", "99999999999999999999"}), {"1 to 86400"});
  expect_mentions(refusal({"--lease", "1.5"}), {"'1.5'"});
  expect_mentions(refusal({"--lease"}), {"--lease"});
}

TEST(SluicedOptions, EndsOfRangesAreAccepted) {
  EXPECT_EQ(refusal({"--frame-size", "1104", "--jobs-max", "65536", "--slots-max", "16777216"}),
            "");
  EXPECT_EQ(refusal({"--frame-size", "65507", "--jobs-max", "1", "--slots-max", "1"}), "");
}

TEST(SluicedOptions, WhatIsUnknownIsNamed) {
  expect_mentions(refusal({"--nope", "3"}), {"'--nope 3'", "accepted"});
  expect_mentions(refusal({"word"}), {"'word'", "accepted"});
}

TEST(SluicedOptions, NamesOfVariables) {
  EXPECT_EQ(variable_of("listen"), "SLUICED_LISTEN");
  EXPECT_EQ(variable_of("jobs-max"), "SLUICED_JOBS_MAX");
}

TEST(SluicedOptions, FlagsGoBeforeVariablesAndTheseBeforeTheFile) {
  const ConfigFile file("jobs-max = 1\nslots-max = 1\nlease = 1\n");
  const Variables variables{{"SLUICED_JOBS_MAX", "2"}, {"SLUICED_SLOTS_MAX", "2"}};
  const auto options = parse({"--config", file.path(), "--jobs-max", "3"}, variables);
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->jobs_max, 3u);
  EXPECT_EQ(options->slots_max, 2u);
  EXPECT_EQ(options->lease_seconds, 1u);
}

TEST(SluicedOptions, AListOfAddressesIsOneValueOfTheFile) {
  const ConfigFile file("listen = 10.0.0.1:5,10.0.0.1:7-9\njobs-max = 3\n");
  const auto options = parse({"--config", file.path()});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->listen, "10.0.0.1:5,10.0.0.1:7-9");
  EXPECT_EQ(options->jobs_max, 3u);
}

TEST(SluicedOptions, AVariableMayNameTheFile) {
  const ConfigFile file("# a comment\nlisten = 127.0.0.1:7\nhttp = \"[::1]:8\"\n");
  const auto options = parse({}, {{"SLUICED_CONFIG", file.path()}});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->listen, "127.0.0.1:7");
  EXPECT_EQ(options->http, "[::1]:8");
}

TEST(SluicedOptions, BadVariablesAreRefusedAndCannotBeFlags) {
  expect_mentions(refusal({}, {{"SLUICED_LEASE", "soon"}}), {"--lease", "'soon'"});
  const auto options = parse({}, {{"SLUICED_LISTEN", "--help"}});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->listen, "--help");
  EXPECT_TRUE(options->asked.empty());
}

TEST(SluicedOptions, UnknownKeysOfTheFileAreRefused) {
  const ConfigFile file("jobs-max = 3\njobsmax = 4\n");
  expect_mentions(refusal({"--config", file.path()}), {"'jobsmax'", "--config", "accepted"});
}

TEST(SluicedOptions, BadValuesAndSectionsOfTheFileAreRefused) {
  {
    const ConfigFile file("jobs-max = 0\n");
    expect_mentions(refusal({"--config", file.path()}), {"--jobs-max", "'0'"});
  }
  const ConfigFile file("[server]\njobs-max = 3\n");
  expect_mentions(refusal({"--config", file.path()}), {"server"});
}

TEST(SluicedOptions, AFileThatIsMissingIsNamed) {
  expect_mentions(refusal({"--config", "/nowhere/x.conf"}), {"/nowhere/x.conf"});
}

TEST(SluicedOptions, HelpAndVersionAreTextToPrint) {
  const auto version = parse({"--version"});
  ASSERT_TRUE(version);
  EXPECT_EQ(version->asked.rfind("sluiced ", 0), 0u);
  const auto help = parse({"--help"});
  ASSERT_TRUE(help);
  expect_mentions(help->asked, {"--listen", "--wait-log", "SLUICED_JOBS_MAX"});
}

}  // namespace
}  // namespace sluice::daemon
