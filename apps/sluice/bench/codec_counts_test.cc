#include "apps/sluice/bench/codec_counts.h"

#include <gtest/gtest.h>

#include <array>

namespace sluice::cli {
namespace {

constexpr std::array<std::string_view, 3> kNames{"keys", "chunks_packed", "chunks_dense"};

TEST(CodecCounts, HaveTheNamesOfTheCatalogue) {
  const std::array<std::uint64_t, 3> counts{7, 2, 0};
  Info info;
  info.counts = kNames;
  EXPECT_EQ(named_counts(info, counts),
            (CodecCounts{{"keys", 7}, {"chunks_packed", 2}, {"chunks_dense", 0}}));
  EXPECT_TRUE(named_counts(Info{}, {}).empty());
}

TEST(CodecCounts, TheModeIsWhatChunksThereWere) {
  EXPECT_EQ(mode_of(CodecCounts{{"keys", 7}, {"chunks_packed", 2}, {"chunks_dense", 0}}), "packed");
  EXPECT_EQ(mode_of(CodecCounts{{"chunks_packed", 2}, {"chunks_dense", 1}}), "packed+dense");
  EXPECT_EQ(mode_of(CodecCounts{{"keys", 7}}), "");
}

}  // namespace
}  // namespace sluice::cli
