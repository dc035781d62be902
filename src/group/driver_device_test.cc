// A driver whose device is late: what becomes of work that is on a stream when the driver fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "carrier/fused_port.h"
#include "device/bench.h"
#include "group/driver.h"
#include "group/workers_test.h"
#include "tests/support/hall.h"

namespace sluice {
namespace {

using device::Event;
using device::Kernel;
using device::Launch;
using device::Stream;
using support::Hall;

// The emulated device. From the first kernel that decodes on, the default stream does nothing until
// somebody lets it, as behind a collective that does not end.
struct Late {
  static inline std::vector<std::function<void()>> put_off;
  static inline bool holds = false;
  static inline std::deque<Stream> events;   // where each was recorded
  static inline char other = 0;              // the stream that waits for nobody
  static inline std::atomic<int> asked = 0;  // how often an event was looked at

  static void catch_up() {
    holds = false;
    for (const auto& work : put_off) work();
    put_off.clear();
  }
  static bool is_held(Stream stream) { return holds && stream == nullptr; }

  static int launch(const Launch* what, Stream stream) {
    const Kernel kernel = what->kernel;
    holds = holds || kernel == Kernel::dense_decode || kernel == Kernel::check;
    if (!is_held(stream)) return device::emulated().launch(what, stream);
    put_off.emplace_back([copy = *what] { device::emulated().launch(&copy, nullptr); });
    return 0;
  }
  static int copy(void* to, const void* from, std::size_t size, Stream stream) {
    if (!is_held(stream)) return device::emulated().copy(to, from, size, stream);
    put_off.emplace_back([=] { device::emulated().copy(to, from, size, nullptr); });
    return 0;
  }
  static device::Table table() {
    device::Table made = device::emulated();
    made.launch = launch;
    made.copy = copy;
    made.make_stream = [](Stream* stream) {
      *stream = &other;
      return 0;
    };
    made.make_event = [](Event* event) {
      *event = &events.emplace_back();
      return 0;
    };
    made.record = [](Event event, Stream stream) {
      *static_cast<Stream*>(event) = stream;
      return 0;
    };
    made.query = [](Event event, int* done) {
      ++asked;
      *done = is_held(*static_cast<Stream*>(event)) ? 0 : 1;
      return 0;
    };
    made.synchronize = [](Event event) {
      if (is_held(*static_cast<Stream*>(event))) catch_up();
      return 0;
    };
    return made;
  }
  Late() {
    put_off.clear();
    holds = false;
  }
};

using Way = std::tuple<const char*, bool>;  // a codec, and whether bytes stay on the device

class LateDriver : public ::testing::TestWithParam<Way> {
 protected:
  static constexpr std::uint32_t kAlone = 1;

  LateDriver()
      : carries_(std::get<1>(GetParam())),
        table_(Late::table()),
        on_{&table_, 0},
        workers_(std::get<0>(GetParam()), {{11, 4, 300}, {22, 1, 4097}}, options(), kAlone),
        memory_(*workers_.memories[0]),
        bench_(on_, nullptr),
        port_(0, kAlone, hall_.of(0)),
        bucket_(memory_) {
    EXPECT_TRUE(bench_.reserve(0));
    // A worker alone may get its gradient back.
    for (auto& mean : workers_.means[0]) std::fill(mean.begin(), mean.end(), 7.0f);
    if (carries_) port_.use_device(bench_);
    driver_ = std::make_unique<Driver>(memory_, port_, 0, Place{&bench_, !carries_});
    EXPECT_TRUE(bucket_.load({.step = kStep, .on_device = true}, workers_.entries(0)).has_value());
  }
  GroupOptions options() const { return {.feedback = "ef", .accelerator = &on_}; }

  // Until the device is asked to decode, which it does not do.
  void begin() {
    const Load whole{.bucket = &bucket_, .last = bucket_.count()};
    ASSERT_TRUE(driver_->start({&whole, 1}));
    while (!Late::holds) ASSERT_FALSE(*driver_->advance());
    ASSERT_FALSE(Late::put_off.empty());
  }
  std::vector<std::vector<float>> residuals() {
    EXPECT_TRUE(memory_.fetch());
    std::vector<std::vector<float>> all;
    for (std::size_t i = 0; i < memory_.tensors().size(); ++i) {
      const auto residual = memory_.residual(i);
      all.emplace_back(residual.begin(), residual.end());
    }
    return all;
  }
  // What the device does once the collective has been broken off.
  void expect_nothing_is_decoded() {
    const auto means = workers_.means;
    const auto kept = residuals();
    Late::catch_up();
    EXPECT_EQ(workers_.means, means);
    EXPECT_EQ(residuals(), kept);
  }

  Late fresh_;
  bool carries_;
  device::Table table_;
  device::Accelerator on_;
  Workers4 workers_;
  Memory& memory_;
  Hall hall_{kAlone};
  device::Bench bench_;
  FusedPort port_;
  Bucket bucket_;
  std::unique_ptr<Driver> driver_;
};

TEST_P(LateDriver, OfADeviceThatCatchesUpInTimeWritesMeans) {
  const auto means = workers_.means;
  begin();
  while (driver_->is_running()) {  // Chunks may decode at different times.
    Late::catch_up();
    ASSERT_TRUE(driver_->advance());
  }
  for (std::size_t i = 0; i < workers_.coded; ++i) EXPECT_NE(workers_.means[0][i], means[0][i]);
}

TEST_P(LateDriver, ThatTimesOutLeavesMeansAndResidualsAsTheyWere) {
  begin();
  const Status finished = driver_->finish(std::chrono::milliseconds(1));
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().code, Code::timeout);
  expect_nothing_is_decoded();
}

// A rank has died, say, while somebody's own collective is what the gradient waits for.
TEST_P(LateDriver, ThatIsStoppedMeanwhileWaitsNoLonger) {
  begin();
  Late::asked = 0;
  std::thread stopper([this] {
    while (Late::asked < 3) std::this_thread::yield();
    EXPECT_TRUE(bench_.stop());
  });
  const Status finished = driver_->finish(std::chrono::seconds(60));
  stopper.join();
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().code, Code::unavailable);
  expect_nothing_is_decoded();
}

TEST_P(LateDriver, ThatIsGivenUpLeavesMeansAndResidualsAsTheyWere) {
  begin();
  driver_->give_up();
  expect_nothing_is_decoded();
}

// Its end waits for what was submitted, which must not decode either.
TEST_P(LateDriver, ThatEndsInTheMiddleLeavesMeansAndResidualsAsTheyWere) {
  const auto means = workers_.means;
  const auto kept = residuals();
  begin();
  driver_.reset();
  EXPECT_TRUE(Late::put_off.empty());
  EXPECT_EQ(workers_.means, means);
  EXPECT_EQ(residuals(), kept);
}

// Whoever serves it would not wait for its collectives, and start the next ones too early.
TEST_P(LateDriver, OfTheHostsBucketsWaitsForNoDevice) {
  const std::vector<Tensor> rows{{90, 8, 2}};
  ASSERT_TRUE(memory_.add_rows(rows, offered(memory_, "f32")));
  begin();
  while (driver_->is_running()) {
    Late::catch_up();
    ASSERT_TRUE(driver_->advance());
  }
  const std::vector<float> gradient(6, 3.0f);
  std::vector<float> mean(6);
  const BucketEntry entry{static_cast<std::uint32_t>(workers_.tensors.size()), gradient, mean};
  ASSERT_TRUE(bucket_.load({.step = kStep}, {&entry, 1}).has_value());
  const Load whole{.bucket = &bucket_, .last = bucket_.count()};
  ASSERT_TRUE(driver_->start({&whole, 1}));
  EXPECT_FALSE(driver_->waits_for_device_alone());
  ASSERT_TRUE(driver_->finish(std::chrono::seconds(60)));
  EXPECT_EQ(mean, gradient);
}

INSTANTIATE_TEST_SUITE_P(Codecs, LateDriver,
                         ::testing::Combine(::testing::Values("f32", "tide:bits=3"),
                                            ::testing::Bool()),
                         [](const auto& info) {
                           const std::string codec = std::get<0>(info.param);
                           const bool carries = std::get<1>(info.param);
                           return codec.substr(0, codec.find(':')) + (carries ? "On" : "Shared");
                         });

}  // namespace
}  // namespace sluice
