#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {
namespace {

constexpr Error kLate{Code::timeout, 110, "peer did not answer"};

// No place for anything allocated: the value or the error, and which of them it is.
static_assert(sizeof(Result<std::uint64_t>) == sizeof(Error) + sizeof(void*));
static_assert(sizeof(Status) == sizeof(Error) + sizeof(void*));
static_assert(std::is_trivially_copyable_v<Error>);
static_assert(std::is_trivially_destructible_v<Status>);
static_assert(std::is_nothrow_move_constructible_v<Status>);
static_assert(!std::is_convertible_v<Status, bool>, "or a result would compare with numbers");
static_assert(std::is_constructible_v<bool, Status>);

TEST(Error, EqualityComparesCodeDetailAndText) {
  const std::string copy = kLate.what;  // another address, the same text
  EXPECT_EQ(kLate, (Error{Code::timeout, 110, copy.c_str()}));
  EXPECT_FALSE(kLate == (Error{Code::lost, 110, kLate.what}));
  EXPECT_FALSE(kLate == (Error{Code::timeout, 111, kLate.what}));
  EXPECT_FALSE(kLate == (Error{Code::timeout, 110, "something else"}));
  EXPECT_EQ(Error{}, (Error{Code::ok, 0, ""}));
}

TEST(Code, NamesAreDistinctAndComplete) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(Code::out_of_memory); ++code) {
    const std::string_view name = name_of(static_cast<Code>(code));
    EXPECT_NE(name, "unknown") << code;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(name_of(Code::ok), "ok");
  EXPECT_EQ(name_of(Code::invalid_argument), "invalid_argument");
  EXPECT_EQ(name_of(static_cast<Code>(250)), "unknown");
}

TEST(Result, HoldsAValue) {
  Result<int> result = 5;
  EXPECT_TRUE(result.has_value());
  EXPECT_TRUE(static_cast<bool>(result));
  EXPECT_EQ(*result, 5);
  EXPECT_EQ(result.value(), 5);
  *result = 6;
  EXPECT_EQ(std::as_const(result).value(), 6);
  EXPECT_EQ(*std::as_const(result), 6);
}

TEST(Result, HoldsAnError) {
  const Result<int> result = kLate;
  EXPECT_FALSE(result.has_value());
  EXPECT_FALSE(static_cast<bool>(result));
  EXPECT_EQ(result.error(), kLate);
}

TEST(Result, ReachesMembers) {
  Result<std::string> result = std::string("word");
  EXPECT_EQ(result->size(), 4u);
  result->append("s");
  EXPECT_EQ(*std::as_const(result), "words");
  EXPECT_EQ(std::as_const(result)->size(), 5u);
}

TEST(Result, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  const int* const address = result->get();
  Result<std::unique_ptr<int>> moved = std::move(result);
  const std::unique_ptr<int> owner = *std::move(moved);
  EXPECT_EQ(owner.get(), address);
  Result<std::unique_ptr<int>> again = std::make_unique<int>(8);
  EXPECT_EQ(*std::move(again).value(), 8);
}

TEST(Status, IsNothingOrAnError) {
  EXPECT_TRUE(ok());
  EXPECT_EQ(*ok(), Nothing{});
  const Status failed = kLate;
  EXPECT_EQ(failed.error().code, Code::timeout);
}

TEST(Verdict, CarriesALineForPeople) {
  const Verdict verdict = Problem{Code::invalid_argument, "codec 'x' (accepted: fp32)"};
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().code, Code::invalid_argument);
  EXPECT_EQ(verdict.error().message, "codec 'x' (accepted: fp32)");
  EXPECT_EQ(Problem{}.code, Code::invalid_argument);
}

Status check(int value, int& calls) {
  ++calls;
  if (value < 0) return Error{Code::malformed, value, "negative"};
  return ok();
}

Status check_both(int first, int second, int& calls) {
  SLUICE_TRY(check(first, calls));
  SLUICE_TRY(check(second, calls));
  return ok();
}

TEST(Try, GoesOnOrReturnsTheFirstError) {
  int calls = 0;
  EXPECT_TRUE(check_both(1, 2, calls));
  EXPECT_EQ(calls, 2);
  calls = 0;
  EXPECT_EQ(check_both(-1, -2, calls).error(), (Error{Code::malformed, -1, "negative"}));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(check_both(1, -2, calls).error().detail, -2);
}

TEST(Try, IsOneStatement) {
  const auto run = [](bool first, int& calls) -> Status {
    if (first)
      SLUICE_TRY(check(-1, calls));
    else
      SLUICE_TRY(check(-2, calls));
    return ok();
  };
  int calls = 0;
  EXPECT_EQ(run(true, calls).error().detail, -1);
  EXPECT_EQ(run(false, calls).error().detail, -2);
  EXPECT_EQ(calls, 2);
}

Result<std::unique_ptr<int>> make(int value) {
  if (value < 0) return Error{Code::exhausted, value, "no room"};
  return std::make_unique<int>(value);
}

Result<int> add(int first, int second) {
  SLUICE_TRY_ASSIGN(const auto a, make(first));
  SLUICE_TRY_ASSIGN(const std::unique_ptr<int> b, make(second));
  int sum = 0;
  SLUICE_TRY_ASSIGN(sum, Result<int>(*a + *b));
  return sum;
}

TEST(TryAssign, DeclaresOrReturnsTheError) {
  EXPECT_EQ(*add(2, 3), 5);
  EXPECT_EQ(add(-2, 3).error().detail, -2);
  EXPECT_EQ(add(2, -3).error(), (Error{Code::exhausted, -3, "no room"}));
}

Checked<std::size_t> length_of(const Checked<std::vector<int>>& numbers) {
  SLUICE_TRY(numbers);
  return numbers->size();
}

TEST(Try, PassesProblemsOnToAResultOfAnotherType) {
  EXPECT_EQ(*length_of(std::vector<int>{1, 2, 3}), 3u);
  EXPECT_EQ(length_of(Problem{Code::io, "gone"}).error().message, "gone");
}

TEST(ResultDeathTest, TakingWhatIsNotThereStops) {
  Result<int> failed = kLate;
  const Result<int> fine = 1;
  EXPECT_DEATH(static_cast<void>(failed.value()), "assertion failed: has_value\\(\\)");
  EXPECT_DEATH(static_cast<void>(*std::as_const(failed)), "assertion failed: has_value\\(\\)");
  EXPECT_DEATH(static_cast<void>(std::move(failed).value()), "assertion failed");
  EXPECT_DEATH(static_cast<void>(fine.error()), "assertion failed: !has_value\\(\\)");
}

}  // namespace
}  // namespace sluice
