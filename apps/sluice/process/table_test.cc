#include "apps/sluice/process/table.h"

#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

TEST(Table, ColumnsAreAsWideAsTheirWidestCell) {
  EXPECT_EQ(format_table({"name", "bits", "<note"}, {{"f32", "32", "a"}, {"bf16", "16.5", "bc"}}),
            "name  bits  note\n"
            "f32     32  a\n"
            "bf16  16.5  bc\n");
}

TEST(Table, CharactersCountOnceHoweverManyBytes) {
  EXPECT_EQ(format_table({"a", "x ÷ y"}, {{"b", "1"}}), "a  x ÷ y\nb      1\n");
}

TEST(Table, PairsAlignTheirValues) {
  EXPECT_EQ(format_pairs({{"a", "1"}, {"long", "2"}}), "a     1\nlong  2\n");
}

TEST(Table, FiguresHaveThreeDigits) {
  EXPECT_EQ(format_figure(0.0123456), "0.0123");
  EXPECT_EQ(format_figure(1.23456e-9), "1.23e-09");
  EXPECT_EQ(format_figure(std::nullopt), "-");
}

}  // namespace
}  // namespace sluice::cli
