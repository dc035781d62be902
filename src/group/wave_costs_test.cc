// What a wave costs whatever it holds: collectives, and launches where its gradients are on a
// device.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "carrier/fused_port.h"
#include "device/bench.h"
#include "group/driver.h"
#include "group/workers_test.h"
#include "tests/support/hall.h"

namespace sluice {
namespace {

constexpr std::uint32_t kRanks = 4;
const device::Accelerator kDevice{&device::emulated(), 0};

// Where gradients and bytes of rounds are.
enum class Way : std::uint8_t {
  host,     // both on the host
  pinned,   // gradients on a device, bytes where both reach them: Gloo
  carried,  // both on a device: NCCL
};

struct Costs {
  std::uint64_t collectives = 0;
  std::uint64_t launches = 0;
};

// Tensors of one codec and two small exact ones, all in one wave.
class Job {
 public:
  Job(std::string_view spec, const std::vector<Tensor>& shapes, Way way)
      : way_(way), workers_(spec, shapes, options(way)), hall_(kRanks, &kDevice) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      device::Bench& bench = benches_.emplace_back(kDevice, nullptr);
      FusedPort& port = ports_.emplace_back(rank, kRanks, hall_.of(rank));
      if (way == Way::carried) port.use_device(bench);
      const Place place{way == Way::host ? nullptr : &bench, way == Way::pinned};
      buckets_.emplace_back(*workers_.memories[rank]);
      drivers_.emplace_back(*workers_.memories[rank], port, 0, place);
    }
  }
  // A step in which gradients are so many times as large as in the first.
  Costs step(std::uint64_t number, float larger) {
    const std::uint64_t before = hall_.met();
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      for (std::size_t i = 0; i < workers_.tensors.size(); ++i) {
        const std::vector<float> first =
            values(rank, workers_.tensors[i].id, workers_.tensors[i].count());
        for (std::size_t k = 0; k < first.size(); ++k) {
          workers_.gradients[rank][i][k] = first[k] * larger;
        }
      }
      const BucketOrder order{.step = number, .on_device = way_ != Way::host};
      EXPECT_TRUE(buckets_[rank].load(order, workers_.entries(rank)).has_value());
      const Load all{.bucket = &buckets_[rank], .last = buckets_[rank].count()};
      ports_[rank].lead();
      EXPECT_TRUE(drivers_[rank].start({&all, 1}));
    }
    for (bool done = false; !done;) {
      done = true;
      for (Driver& one : drivers_) {
        const Result<bool> mine = one.advance();
        EXPECT_TRUE(mine.has_value()) << one.explain();
        if (!mine) return {};
        done = done && *mine;
      }
    }
    for (const auto& memory : workers_.memories) memory->end_step();
    return {hall_.met() - before, benches_[0].counters().launches_most};
  }

 private:
  static GroupOptions options(Way way) {
    GroupOptions made;
    made.feedback = "ef";
    if (way != Way::host) made.accelerator = &kDevice;
    return made;
  }

  Way way_;
  Workers4 workers_;
  support::Hall hall_;
  std::deque<device::Bench> benches_;
  std::deque<FusedPort> ports_;
  std::deque<Bucket> buckets_;
  std::deque<Driver> drivers_;
};

const std::vector<Tensor> kFew{{11, 4, 300}, {22, 1, 4097}, {33, 10, 20}, {44, 1, 1}};
// So many blocks that scales are cut into shards.
const std::vector<Tensor> kMany{{11, 1024, 1024}, {22, 1, 4097}};

// Of the host's own waves there are more: answers tell their sizes first.
std::uint64_t more(Way way) { return way == Way::host ? 1 : 0; }

class WaveCosts : public ::testing::TestWithParam<Way> {};

TEST_P(WaveCosts, AreThreeCollectivesAndTwelveLaunchesAtMost) {
  for (const auto& shapes : {kFew, kMany}) {
    Job job("tide:bits=3,block=64", shapes, GetParam());
    for (std::uint64_t step = 1; step <= 3; ++step) {
      const Costs costs = job.step(step, step == 3 ? 1000.0f : 1.0f);
      EXPECT_LE(costs.collectives, 3u + more(GetParam()))
          << shapes.size() << " tensors, step " << step;
      EXPECT_LE(costs.launches, 12u) << shapes.size() << " tensors, step " << step;
    }
  }
}

// Blocks that have outgrown the scales of the step before travel a second time.
TEST_P(WaveCosts, WithScalesOfTheStepBeforeAreMoreWhereBlocksTravelAgain) {
  Job job("tide:bits=3,scales=previous", kFew, GetParam());
  const std::uint64_t usual = GetParam() == Way::carried ? 3 : 2;
  EXPECT_LE(job.step(1, 1.0f).collectives, usual + 2);
  const Costs costs = job.step(2, 1.0f);
  EXPECT_LE(costs.collectives, usual);
  EXPECT_LE(job.step(3, 1000.0f).collectives, usual + 2);
  EXPECT_LE(job.step(4, 1000.0f).launches, 18u);
}

std::string name_of_way(const ::testing::TestParamInfo<Way>& info) {
  return info.param == Way::host ? "host" : info.param == Way::pinned ? "pinned" : "carried";
}
INSTANTIATE_TEST_SUITE_P(Ways, WaveCosts, ::testing::Values(Way::host, Way::pinned, Way::carried),
                         name_of_way);

}  // namespace
}  // namespace sluice
