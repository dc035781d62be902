#include "device/bench.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::device {
namespace {

const Accelerator kHost{&emulated(), 0};

// The emulated device, which counts what it is asked for and can refuse.
struct Spy {
  static inline int copies = 0;
  static inline std::vector<Launch> launches;
  static inline int error = 0;

  static int copy(void* to, const void* from, std::size_t size, Stream stream) {
    ++copies;
    return error != 0 ? error : emulated().copy(to, from, size, stream);
  }
  static int launch(const Launch* launch, Stream stream) {
    launches.push_back(*launch);
    return error != 0 ? error : emulated().launch(launch, stream);
  }
  static Table table() {
    Table made = emulated();
    made.copy = copy;
    made.launch = launch;
    return made;
  }
  Spy() {
    copies = 0;
    error = 0;
    launches.clear();
  }
};

class BenchTest : public ::testing::Test {
 protected:
  BenchTest() : table_(Spy::table()), on_{&table_, 0}, bench_(on_, nullptr) {
    EXPECT_TRUE(bench_.reserve(0));
    EXPECT_TRUE(bench_.begin());
  }

  Spy spy_;
  Table table_;
  Accelerator on_;
  Bench bench_;
};

TEST_F(BenchTest, ManyItemsOfOneKindAreOneLaunchAndOneCopyOfTables) {
  std::vector<std::byte> from(100000, std::byte{7});
  std::vector<std::byte> to(from.size());
  for (std::size_t at = 0; at < from.size(); at += 1000) {
    bench_.add(warp::Copy{from.data() + at, to.data() + at, 1000});
  }
  EXPECT_TRUE(bench_.has_work());
  ASSERT_TRUE(bench_.submit());
  EXPECT_FALSE(bench_.has_work());
  EXPECT_EQ(from, to);
  ASSERT_EQ(Spy::launches.size(), 1u);
  EXPECT_EQ(Spy::launches[0].kernel, Kernel::copy);
  EXPECT_EQ(Spy::launches[0].tile_count, 100u);
  // Of the tables, and before of a good finding; nobody decodes, so none comes back.
  EXPECT_EQ(Spy::copies, 2);
  EXPECT_EQ(bench_.counters().launches, 1u);
}

TEST_F(BenchTest, AnItemLargerThanATileIsSeveralTiles) {
  std::vector<std::byte> from(3 * warp::kCopyTile + 1, std::byte{9});
  std::vector<std::byte> to(from.size());
  bench_.add(warp::Copy{from.data(), to.data(), from.size()});
  ASSERT_TRUE(bench_.submit());
  EXPECT_EQ(Spy::launches[0].tile_count, 4u);
  EXPECT_EQ(from, to);
}

using BenchDeathTest = BenchTest;
TEST_F(BenchDeathTest, AnItemWhoseUnitsDoNotFit32BitsIsABug) {
  bench_.add(warp::Copy{nullptr, nullptr, (std::uint64_t{1} << 32) - warp::kCopyTile + 1});
  EXPECT_DEATH(static_cast<void>(bench_.submit()), "assertion failed");
}

TEST_F(BenchTest, ItemsWithoutUnitsLaunchNothing) {
  bench_.add(warp::Copy{nullptr, nullptr, 0});
  ASSERT_TRUE(bench_.submit());
  EXPECT_TRUE(Spy::launches.empty());
}

TEST_F(BenchTest, WhatLaterKernelsReadIsLaunchedFirst) {
  float value = 1.5f;
  std::array<std::byte, 4> wire{};
  std::array<std::byte, 4> sent{};
  warp::Dense dense;
  dense.values = &value;
  dense.count = 1;
  dense.up = wire.data();
  dense.finding = bench_.finding();
  bench_.add(warp::Copy{wire.data(), sent.data(), sent.size()});
  bench_.encode(dense);
  ASSERT_TRUE(bench_.submit());
  float arrived = 0;
  std::memcpy(&arrived, sent.data(), sizeof(arrived));
  EXPECT_EQ(arrived, value);
}

TEST_F(BenchTest, AMismatchIsInTheVerdictOfThisWaveAlone) {
  const std::uint64_t word = 5;
  bench_.add(warp::Compare{reinterpret_cast<const std::byte*>(&word), 8, 1, 6, bench_.finding()});
  ASSERT_TRUE(bench_.submit());
  EXPECT_EQ(bench_.said().bad, warp::kBadMismatch);
  EXPECT_EQ(bench_.judge().error().code, Code::mismatch);
  ASSERT_TRUE(bench_.begin());
  bench_.add(warp::Compare{reinterpret_cast<const std::byte*>(&word), 8, 1, 5, bench_.finding()});
  ASSERT_TRUE(bench_.submit());
  EXPECT_TRUE(bench_.judge());
}

TEST_F(BenchTest, NothingIsDecodedOnceTheVerdictIsBad) {
  const std::uint64_t word = 5;
  bench_.add(warp::Compare{reinterpret_cast<const std::byte*>(&word), 8, 1, 6, bench_.finding()});
  float value = 1.0f;
  const float sum = 4.0f;
  warp::Dense dense;
  dense.values = &value;
  dense.mean = &value;
  dense.count = 1;
  dense.down = reinterpret_cast<const std::byte*>(&sum);
  dense.finding = bench_.finding();
  bench_.decode(dense);
  ASSERT_TRUE(bench_.submit());
  EXPECT_EQ(value, 1.0f);
}

TEST_F(BenchTest, OnceItIsStoppedNothingIsDecodedAndNoWaveBegins) {
  float value = 1.0f;
  const float sum = 4.0f;
  warp::Dense dense;
  dense.values = &value;
  dense.mean = &value;
  dense.count = 1;
  dense.down = reinterpret_cast<const std::byte*>(&sum);
  dense.finding = bench_.finding();
  float before = 1.0f;
  bench_.add(warp::Copy{reinterpret_cast<const std::byte*>(&value),
                        reinterpret_cast<std::byte*>(&before), sizeof(float)});
  ASSERT_TRUE(bench_.submit());  // Its tables are there.
  ASSERT_TRUE(bench_.stop());
  EXPECT_EQ(bench_.finding()->bad, warp::kBadStopped);  // The host's memory is the device's here.
  bench_.decode(dense);
  EXPECT_EQ(bench_.submit().error().code, Code::unavailable);
  EXPECT_EQ(value, 1.0f);
  EXPECT_EQ(bench_.begin().error().code, Code::unavailable);
}

// The stream may wait long for a gradient: its finding is there before, and stays as it is.
TEST_F(BenchTest, AWaveThatIsStoppedBeforeItsFirstSubmitStaysStopped) {
  ASSERT_TRUE(bench_.stop());
  EXPECT_EQ(bench_.finding()->bad, warp::kBadStopped);
  EXPECT_EQ(bench_.submit().error().code, Code::unavailable);
  EXPECT_EQ(bench_.finding()->bad, warp::kBadStopped);
}

// As where a device has one queue for all its streams, and something in it never ends.
TEST(Bench, AStopThatTheDeviceDoesNotGetToEndsAllTheSame) {
  Table table = emulated();
  const Accelerator on{&table, 0};
  Bench bench(on, nullptr);
  ASSERT_TRUE(bench.begin());
  table.query = [](Event, int* done) { return *done = 0; };
  EXPECT_EQ(bench.stop().error().code, Code::timeout);
  EXPECT_TRUE(bench.is_stopped());
  EXPECT_EQ(bench.submit().error().code, Code::unavailable);
}

// What a stop says must not be behind the stream that it stops, nor before the wave's own finding.
TEST(Bench, AStopWaitsForTheUploadOfTheFindingAlone) {
  static std::vector<std::pair<Stream, Event>> waits;
  static std::vector<std::pair<Event, Stream>> records;
  static char other = 0;
  Table table = emulated();
  table.make_stream = [](Stream* stream) {
    *stream = &other;
    return 0;
  };
  table.make_event = [](Event* event) {
    static std::deque<char> all;
    *event = &all.emplace_back();
    return 0;
  };
  table.wait = [](Stream stream, Event event) {
    waits.emplace_back(stream, event);
    return 0;
  };
  table.record = [](Event event, Stream stream) {
    records.emplace_back(event, stream);
    return 0;
  };
  const Accelerator on{&table, 0};
  Bench bench(on, nullptr);
  ASSERT_TRUE(bench.begin());
  ASSERT_TRUE(bench.stop());
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].first, &other);
  EXPECT_EQ(waits[0].second, records[0].first) << "recorded behind the upload";
  EXPECT_EQ(records[0].second, nullptr);
}

// The race is tsan's to see: thread_tests have this file. Whichever comes first, the wave is over.
TEST(Bench, AnotherThreadMayStopItWhileAWaveBegins) {
  static std::mutex one_at_a_time;  // as a device copies
  Table table = emulated();
  table.copy = [](void* to, const void* from, std::size_t size, Stream stream) {
    const std::lock_guard lock(one_at_a_time);
    return emulated().copy(to, from, size, stream);
  };
  const Accelerator on{&table, 0};
  for (int i = 0; i < 50; ++i) {
    Bench bench(on, nullptr);
    ASSERT_TRUE(bench.reserve(0));
    std::thread stopper([&] { EXPECT_TRUE(bench.stop()); });
    const Status begun = bench.begin();
    stopper.join();
    if (begun) {
      EXPECT_EQ(bench.finding()->bad, warp::kBadStopped);
    } else {
      EXPECT_EQ(begun.error().code, Code::unavailable);
    }
    EXPECT_EQ(bench.submit().error().code, Code::unavailable);
  }
}

TEST_F(BenchTest, TablesGrowWhereAWaveNeedsMoreAndAreOneInTheNext) {
  const auto first = bench_.list<std::uint64_t>(1);
  *first.host = 77;
  const auto large = bench_.list<std::uint64_t>(1u << 20);
  large.host[(1u << 20) - 1] = 88;
  ASSERT_TRUE(bench_.submit());
  EXPECT_EQ(*first.device, 77u);
  EXPECT_EQ(large.device[(1u << 20) - 1], 88u);
  EXPECT_EQ(bench_.counters().grown, 1u);
  ASSERT_TRUE(bench_.begin());
  const auto again = bench_.list<std::uint64_t>(1u << 20);
  again.host[0] = 99;
  ASSERT_TRUE(bench_.submit());
  EXPECT_EQ(again.device[0], 99u);
  EXPECT_EQ(bench_.counters().grown, 1u);
}

TEST_F(BenchTest, TablesThatAreReservedAgainAreOneAndHoldAsMuch) {
  constexpr std::size_t kSize = std::size_t{5} << 20;
  ASSERT_TRUE(bench_.reserve(kSize, kSize));
  ASSERT_TRUE(bench_.begin());
  EXPECT_NE(bench_.list<std::byte>(kSize - 64).host, nullptr);  // beside the finding
  EXPECT_EQ(bench_.room(kSize, false).size(), kSize);
  EXPECT_EQ(bench_.counters().grown, 0u);
  ASSERT_TRUE(bench_.submit());
}

TEST_F(BenchTest, ADeviceThatRefusesIsAnErrorWithItsNumber) {
  std::array<std::byte, 8> bytes{};
  bench_.add(warp::Copy{bytes.data(), bytes.data(), bytes.size()});
  Spy::error = 700;
  const Status submitted = bench_.submit();
  ASSERT_FALSE(submitted);
  EXPECT_EQ(submitted.error().code, Code::io);
  EXPECT_EQ(submitted.error().detail, 700);
}

TEST(Bench, WithoutWorkIsDone) {
  Bench bench(kHost, nullptr);
  EXPECT_TRUE(*bench.is_done());
  EXPECT_TRUE(bench.wait());
  EXPECT_FALSE(bench.has_work());
}

}  // namespace
}  // namespace sluice::device
