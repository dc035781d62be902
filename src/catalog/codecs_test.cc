#include "catalog/codecs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/limits.h"

namespace sluice {
namespace {

void expect_refused(const std::string& spec, const std::vector<std::string>& words) {
  const auto made = make_codec(spec);
  ASSERT_FALSE(made.has_value()) << spec;
  EXPECT_EQ(made.error().code, Code::invalid_argument) << spec;
  for (const std::string& word : words) {
    EXPECT_NE(made.error().message.find(word), std::string::npos)
        << spec << ": '" << made.error().message << "' should mention '" << word << "'";
  }
}

std::string canonical(const std::string& spec) {
  const auto made = make_codec(spec);
  EXPECT_TRUE(made.has_value()) << spec << ": " << made.error().message;
  return made ? made->spec : "";
}

TEST(Codecs, IdsAndNamesAreUniqueAndRowsComplete) {
  std::set<std::uint16_t> ids;
  std::set<std::string_view> names;
  for (const Info& info : kCodecs) {
    ids.insert(info.id);
    names.insert(info.name);
    EXPECT_FALSE(info.summary.empty()) << info.name;
    EXPECT_FALSE(info.paper.empty()) << info.name;
    EXPECT_FALSE(info.reductions.empty()) << info.name;
    EXPECT_EQ(info.name.find_first_of(":,= "), std::string_view::npos) << info.name;
  }
  EXPECT_EQ(ids.size(), kCodecs.size());
  EXPECT_EQ(names.size(), kCodecs.size());
  EXPECT_FALSE(ids.contains(0));
}

TEST(Codecs, IdsOnTheWireNeverChange) {
  const std::vector<std::pair<std::string, int>> wire{
      {"f32", 1}, {"bf16", 2}, {"fp16", 3}, {"fixed", 4}};
  for (const auto& row : wire) {
    const auto found = std::find_if(kCodecs.begin(), kCodecs.end(),
                                    [&row](const Info& info) { return info.name == row.first; });
    ASSERT_NE(found, kCodecs.end()) << row.first;
    EXPECT_EQ(found->id, row.second) << row.first;
  }
}

TEST(Codecs, OptionsAreWellFormed) {
  for (const Info& info : kCodecs) {
    std::set<std::string_view> keys;
    for (const OptionInfo& option : info.options) {
      keys.insert(option.key);
      EXPECT_FALSE(option.key.empty() || option.help.empty()) << info.name;
      EXPECT_EQ(option.key.find_first_of(":,= "), std::string_view::npos) << option.key;
      if (option.kind == OptionInfo::Kind::choice) {
        EXPECT_LT(option.preset, static_cast<double>(option.choices.size())) << option.key;
        continue;
      }
      EXPECT_LE(option.minimum, option.preset) << option.key;
      EXPECT_GE(option.maximum, option.preset) << option.key;
    }
    EXPECT_EQ(keys.size(), info.options.size()) << info.name;
  }
}

TEST(Codecs, EveryRowMakesACodecFromItsNameAlone) {
  for (const Info& info : kCodecs) {
    const auto made = make_codec(info.name);
    ASSERT_TRUE(made.has_value()) << info.name << ": " << made.error().message;
    EXPECT_EQ(made->info->id, info.id);
    EXPECT_EQ(made->spec, info.name);
    ASSERT_NE(made->codec, nullptr);
    for (const std::uint32_t workers : {1u, 2u, 64u, 4096u}) {
      const Plan plan = made->codec->plan({1, 100, 100}, workers);
      EXPECT_GE(plan.multiple_of, 1u);
      EXPECT_GE(plan.count_max, plan.multiple_of);
      EXPECT_LE(plan.count_max, kLanesMax);
    }
  }
}

TEST(Codecs, AnUnknownNameIsNamedWithAllThatExist) {
  for (const std::string name : {"", "F32", "f32 ", "f3", "f322", "block"}) {
    std::vector<std::string> words{"unknown codec '" + name + "'"};
    for (const Info& info : kCodecs) words.emplace_back(info.name);
    expect_refused(name, words);
    expect_refused(name + ":block=64", words);
  }
}

TEST(Codecs, AnUnknownOptionIsNamedWithTheAcceptedOnes) {
  expect_refused("fixed:size=64", {"fixed", "size=64", "block=256 (32 to 4096, a multiple of 8)"});
  expect_refused("fixed:Block=64", {"Block=64", "block=256"});
  expect_refused("fixed:block", {"block", "block=256"});
  expect_refused("fixed:=64", {"=64", "block=256"});
  expect_refused("fixed:,block=64", {"''", "block=256"});
  expect_refused("fixed:block=64,,", {"''", "block=256"});
  expect_refused("f32:block=64", {"f32", "block=64", "accepted: none"});
}

TEST(Codecs, AValueOutOfRangeIsNamedWithTheRange) {
  for (const std::string value : {"",     "0",     "31",  "33",  "4097",  "4104", "-32",      "1e9",
                                  "64.5", "64x",   " 64", "64 ", "+64",   "0x40", "nan",      "inf",
                                  "-inf", "1e999", "6 4", "=64", "64=64", "\x01", "sixtyfour"}) {
    expect_refused("fixed:block=" + value, {"fixed", "block=", "32 to 4096, a multiple of 8"});
  }
  expect_refused("fixed:block=77", {"'77'"});
}

TEST(Codecs, AnOptionGivenTwiceIsRefused) {
  expect_refused("fixed:block=64,block=64", {"block", "twice"});
  expect_refused("fixed:block=64,block=128", {"block", "twice"});
}

TEST(Codecs, ASpecThatStopsAfterAColonOrCommaIsRefused) {
  expect_refused("fixed:", {"fixed", "accepted"});
  expect_refused("f32:", {"f32", "accepted"});
  expect_refused("fixed:block=64,", {"fixed", "accepted"});
}

TEST(Codecs, ALongSpecIsRefusedByItsLength) {
  const std::string longest = "fixed:block=" + std::string(500, '0');
  ASSERT_EQ(longest.size(), 512u);
  expect_refused(longest, {"accepted: 32 to 4096"});
  expect_refused(longest + "0", {"513", "512"});
  expect_refused(std::string(1u << 20, 'x'), {"1048576", "512"});
}

TEST(Codecs, WhatWasTypedIsPrintedSafely) {
  const auto made = make_codec("bad\n\x1b[31m\x7f");
  ASSERT_FALSE(made.has_value());
  EXPECT_NE(made.error().message.find("'bad??[31m?'"), std::string::npos) << made.error().message;
  const auto cut = make_codec(std::string(300, 'y'));
  const std::string message = cut.error().message.substr(0, cut.error().message.find(';'));
  EXPECT_EQ(std::count(message.begin(), message.end(), 'y'), 64) << message;
  EXPECT_NE(message.find("y…'"), std::string::npos) << message;
}

TEST(Codecs, CanonicalSpecsNameOnlyWhatDiffersFromTheDefault) {
  EXPECT_EQ(canonical("fixed"), "fixed");
  EXPECT_EQ(canonical("fixed:block=256"), "fixed");
  EXPECT_EQ(canonical("fixed:block=64"), "fixed:block=64");
  EXPECT_EQ(canonical("fixed:block=064"), "fixed:block=64");
  EXPECT_EQ(canonical("fixed:block=64.0"), "fixed:block=64");
  EXPECT_EQ(canonical("fixed:block=6.4e1"), "fixed:block=64");
  EXPECT_EQ(canonical("fixed:block=4096"), "fixed:block=4096");
}

TEST(Codecs, CanonicalSpecsAreTheirOwnCanonicalSpec) {
  for (std::uint32_t block = 32; block <= 4096; block += 8) {
    const std::string spec = canonical("fixed:block=" + std::to_string(block));
    EXPECT_EQ(canonical(spec), spec);
  }
}

TEST(Codecs, OptionsReachTheCodec) {
  for (const std::uint32_t block : {32u, 104u, 4096u}) {
    const auto made = make_codec("fixed:block=" + std::to_string(block));
    ASSERT_TRUE(made.has_value());
    EXPECT_EQ(made->codec->plan({}, 2).multiple_of, block);
  }
}

TEST(Codecs, DescribeShowsDefaultAndRangeOfEveryKind) {
  EXPECT_EQ(describe(fixed::kOptions[0]), "block=256 (32 to 4096, a multiple of 8)");
  OptionInfo option;
  option.key = "k";
  option.preset = 3;
  option.minimum = 1;
  option.maximum = 9;
  EXPECT_EQ(describe(option), "k=3 (1 to 9)");
  option.kind = OptionInfo::Kind::real;
  option.preset = 0.5;
  option.minimum = 0.25;
  EXPECT_EQ(describe(option), "k=0.5 (0.25 to 9)");
  const std::vector<std::string_view> choices{"slow", "fast"};
  option.kind = OptionInfo::Kind::choice;
  option.preset = 1;
  option.choices = choices;
  EXPECT_EQ(describe(option), "k=fast (slow|fast)");
}

}  // namespace
}  // namespace sluice
