// A relay: collectives of all tracks start in the same order on every rank, whatever is late where.
#include "group/relay.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <random>
#include <thread>

#include "device/bench.h"
#include "group/fused_workers_test.h"
#include "group/workers_test.h"
#include "tests/support/hall.h"

namespace sluice {
namespace {

using support::Hall;

constexpr std::chrono::nanoseconds kLong = std::chrono::seconds(20);
constexpr std::size_t kEnds = 6;
const std::vector<Tensor> kShapes{{11, 4, 300}, {22, 1, 4097}, {33, 10, 20},
                                  {44, 1, 1},   {55, 3, 4096}, {66, 2, 700}};
constexpr std::size_t kZeros = 4;  // a tensor without gradient
constexpr std::size_t kUnits = 8;  // of a step: six tensors and two exact ones

// The emulated device, whose work is done some time after it was asked for.
device::Table slow_table() {
  device::Table table = device::emulated();
  table.query = [](device::Event, int* done) {
    static std::atomic<std::uint32_t> ranks = 0;  // which are as fast as they are, each by itself
    thread_local std::mt19937 random(++ranks);
    *done = random() % 3 == 0 ? 1 : 0;
    return 0;
  };
  return table;
}
const device::Table kTable = slow_table();
const device::Accelerator kDevice{&kTable, 0};

// One end's collectives, which write down when they start.
class Logged final : public Collectives {
 public:
  Logged(Collectives& inner, std::size_t end, std::vector<std::string>& log)
      : inner_(inner), end_(end), log_(log) {}
  std::span<std::byte> reserve(Buffer buffer, std::size_t size) override {
    return inner_.reserve(buffer, size);
  }
  Status start(const Call& call) override {
    on_device_ = call.from >= Buffer::device_send;
    log_.push_back(fmt::format("end {}, kind {}, buffer {}", end_, static_cast<int>(call.kind),
                               static_cast<int>(call.from)));
    return inner_.start(call);
  }
  // What follows on a device's stream waits there by itself; the host looks again.
  Result<bool> test() override {
    if (!on_device_) return inner_.test();
    SLUICE_TRY(inner_.wait(kLong));
    return true;
  }
  Status wait(std::chrono::nanoseconds timeout) override { return inner_.wait(timeout); }

 private:
  Collectives& inner_;
  std::size_t end_;
  std::vector<std::string>& log_;
  bool on_device_ = false;
};

struct Rank {
  Rank(Memory& memory, std::span<const std::unique_ptr<Hall>> halls, std::uint64_t bound)
      : waves(memory, {.tracks = kEnds, .coordinates_max = bound}) {
    std::vector<Relay::End> all;
    for (std::size_t i = 0; i < kEnds; ++i) {
      const std::uint32_t rank = memory.options().rank;
      logged.emplace_back(halls[i]->of(rank), i, log);
      benches.emplace_back(kDevice, nullptr);
      ports.emplace_back(rank, memory.options().workers, logged.back());
      ports.back().use_device(benches.back());
      drivers.emplace_back(memory, ports.back(), 0, Place{&benches.back(), false});
      all.push_back({&drivers.back(), &ports.back()});
    }
    relay = std::make_unique<Relay>(waves, all);
  }

  // Until it is closed; what went wrong.
  std::string serve() {
    while (true) {
      const auto told = relay->serve(kLong);
      if (!told) return drivers[relay->failed()].explain() + told.error().what;
      switch (told->event.kind) {
        case Track::Event::Kind::bucket: ++finished; break;
        case Track::Event::Kind::turn: turns.push_back(told->event.turn); break;
        default: return "";
      }
    }
  }

  Waves waves;
  std::vector<std::string> log;
  std::deque<Logged> logged;
  std::deque<device::Bench> benches;
  std::deque<FusedPort> ports;
  std::deque<Driver> drivers;
  std::unique_ptr<Relay> relay;
  std::size_t finished = 0;
  std::vector<std::uint64_t> turns;
};

struct Job {
  explicit Job(std::uint64_t bound, const std::vector<Tensor>& shapes = kShapes)
      : workers("tide:bits=3", shapes, options()) {
    for (std::size_t i = 0; i < kEnds; ++i) halls.push_back(std::make_unique<Hall>(4));
    // Chunks in which nothing travels are decoded while others still send.
    for (auto& gradients : workers.gradients) clear(gradients[kZeros]);
    for (const auto& memory : workers.memories) ranks.emplace_back(*memory, halls, bound);
  }
  static void clear(std::vector<float>& values) { std::fill(values.begin(), values.end(), 0.0f); }
  static GroupOptions options() {
    GroupOptions made;
    made.feedback = "ef";
    made.accelerator = &kDevice;
    return made;
  }
  void put(std::size_t rank, std::size_t tensor) {
    const auto entries = workers.entries(rank, tensor, tensor + 1);
    ASSERT_TRUE(ranks[rank].waves.put({.step = kStep, .on_device = true}, entries).has_value());
  }

  Workers4 workers;
  std::vector<std::unique_ptr<Hall>> halls;
  std::deque<Rank> ranks;
};

// Buckets of each rank come when a seed wants them to.
void run(std::uint32_t seed, std::uint64_t bound, bool with_turn) {
  std::mt19937 random(seed);
  Job job(bound);
  std::vector<std::string> wrong(4);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] { wrong[rank] = job.ranks[rank].serve(); });
  }
  std::vector<std::size_t> put(4);
  while (put != std::vector<std::size_t>(4, kUnits)) {
    const std::size_t rank = random() % 4;
    if (put[rank] == kUnits) continue;
    if (with_turn && put[rank] == 5) {
      ASSERT_TRUE(job.ranks[rank].waves.put_turn().has_value());
    }
    job.put(rank, put[rank]++);
    for (std::uint32_t i = random() % 64; i > 0; --i) std::this_thread::yield();
  }
  for (Rank& rank : job.ranks) rank.waves.close(false);
  for (std::thread& thread : threads) thread.join();
  GroupOptions on_host;
  on_host.feedback = "ef";
  Workers4 host("tide:bits=3", kShapes, on_host);
  for (auto& gradients : host.gradients) Job::clear(gradients[kZeros]);
  const auto expected = local_means(host);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    ASSERT_EQ(wrong[rank], "") << "seed " << seed;
    EXPECT_EQ(job.ranks[rank].finished, kUnits);
    EXPECT_EQ(job.ranks[rank].turns.size(), with_turn ? 1u : 0u);
    EXPECT_EQ(job.ranks[rank].log, job.ranks[0].log) << "seed " << seed << ", rank " << rank;
    EXPECT_EQ(coded_means(job.workers, rank), expected) << "seed " << seed;
  }
}

TEST(Relay, StartsCollectivesInOneOrderAndGivesTheMeansOfTheHost) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    run(seed, seed % 3 == 0 ? 1u << 21 : seed % 3 == 1 ? 5000 : 1, seed % 2 == 1);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Relay, BytesOfAWaveTravelWhileAnotherOneIsEncoded) {
  std::vector<Tensor> alike;
  for (std::uint64_t id = 1; id <= 6; ++id) alike.push_back({id, 4, 1024});
  Job job(1, alike);  // A chunk is a wave.
  for (std::size_t rank = 0; rank < 4; ++rank) {
    for (std::size_t tensor = 0; tensor < kUnits; ++tensor) job.put(rank, tensor);
    job.ranks[rank].waves.close(false);
  }
  std::vector<std::thread> threads;
  for (Rank& rank : job.ranks) threads.emplace_back([&] { EXPECT_EQ(rank.serve(), ""); });
  for (std::thread& thread : threads) thread.join();
  // A lead, the all-to-all of the wave before it, the all-gather of the one before that.
  const auto& log = job.ranks[0].log;
  const std::vector<std::string> middle(log.begin() + 6, log.begin() + 9);
  EXPECT_EQ(middle, (std::vector<std::string>{"end 3, kind 1, buffer 0", "end 2, kind 1, buffer 4",
                                              "end 1, kind 2, buffer 6"}));
}

// Sparse gradients: some rows, exact, in several collectives of different lengths.
struct JobWithRows : Job {
  static constexpr std::size_t kRows = 2;  // tensors that bring rows
  static constexpr std::size_t kCount = 40'000;
  static constexpr float kMean = 2.5f;  // of ranks that have 1, 2, 3 and 4

  explicit JobWithRows(std::uint64_t bound) : Job(bound), means(4) {
    for (std::size_t rank = 0; rank < 4; ++rank) {
      Memory& memory = *workers.memories[rank];
      const std::vector<Tensor> rows{{90, kCount, 2}, {91, kCount, 2}};
      EXPECT_TRUE(memory.add_rows(rows, offered(memory, "lossless")));
      gradients.emplace_back(kCount, static_cast<float>(rank + 1));
      means[rank].assign(kRows, std::vector<float>(kCount));
    }
  }
  void put_rows(std::size_t rank, std::size_t which) {
    const auto tensor = static_cast<std::uint32_t>(kUnits + which);
    const BucketEntry entry{tensor, gradients[rank], means[rank][which]};
    ASSERT_TRUE(ranks[rank].waves.put({.step = kStep}, {&entry, 1}).has_value());
  }

  std::vector<std::vector<float>> gradients;
  std::vector<std::vector<std::vector<float>>> means;
};

TEST(Relay, BucketsOfTheHostGoBetweenThoseOfADevice) {
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    JobWithRows job(seed % 2 == 0 ? 1 : 1u << 21);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      // Each end has had a wave of a device before it has one of the host.
      for (std::size_t tensor = 0; tensor < 6; ++tensor) job.put(rank, tensor);
      job.put_rows(rank, 0);
      job.put(rank, 6);
      job.put_rows(rank, 1);
      job.put(rank, 7);
      job.ranks[rank].waves.close(false);
      threads.emplace_back([&, rank] { EXPECT_EQ(job.ranks[rank].serve(), ""); });
    }
    for (std::thread& thread : threads) thread.join();
    const std::vector<float> expected(JobWithRows::kCount, JobWithRows::kMean);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(job.ranks[rank].finished, kUnits + JobWithRows::kRows);
      EXPECT_EQ(job.ranks[rank].log, job.ranks[0].log) << "seed " << seed << ", rank " << rank;
      for (const auto& mean : job.means[rank]) EXPECT_EQ(mean, expected) << "seed " << seed;
    }
    if (HasFailure()) return;
  }
}

// Two streams: what the first decodes is there once the second one decodes, which then fails.
struct Failing {
  static constexpr int kError = 719;
  static inline std::array<char, 2> streams{};
  static inline std::array<bool, 2> decodes{};
  static inline std::deque<std::size_t> events;  // the stream where each was recorded
  static inline int asked = 0;

  static std::size_t index(device::Stream stream) { return stream == &streams[1] ? 1 : 0; }
  static device::Table table() {
    device::Table made = device::emulated();
    made.launch = [](const device::Launch* launch, device::Stream stream) {
      if (launch->kernel == device::Kernel::dense_decode) decodes[index(stream)] = true;
      return device::emulated().launch(launch, stream);
    };
    made.make_event = [](device::Event* event) {
      *event = &events.emplace_back();
      return 0;
    };
    made.record = [](device::Event event, device::Stream stream) {
      *static_cast<std::size_t*>(event) = index(stream);
      return 0;
    };
    made.query = [](device::Event event, int* done) {
      const std::size_t which = *static_cast<std::size_t*>(event);
      *done = !decodes[which] || (which == 0 && decodes[1]) ? 1 : 0;
      return which == 1 && decodes[1] && ++asked > 1 ? kError : 0;
    };
    return made;
  }
};

TEST(Relay, ABucketThatIsFinishedIsToldBeforeTheErrorOfAnother) {
  const device::Table table = Failing::table();
  const device::Accelerator device{&table, 0};
  Workers4 workers("f32", {{11, 4, 300}, {22, 1, 4097}}, {.accelerator = &device}, 1);
  Memory& memory = *workers.memories[0];
  Waves waves(memory, {.tracks = 2, .coordinates_max = 1});
  std::deque<Hall> halls;
  std::deque<device::Bench> benches;
  std::deque<FusedPort> ports;
  std::deque<Driver> drivers;
  std::vector<Relay::End> ends;
  for (char& stream : Failing::streams) {
    benches.emplace_back(device, &stream);
    ports.emplace_back(0, 1, halls.emplace_back(1).of(0)).use_device(benches.back());
    drivers.emplace_back(memory, ports.back(), 0, Place{&benches.back(), false});
    ends.push_back({&drivers.back(), &ports.back()});
  }
  Relay relay(waves, ends);
  for (const std::size_t tensor : {0u, 1u}) {
    workers.means[0][tensor].assign(workers.means[0][tensor].size(), 7.0f);
    const auto entries = workers.entries(0, tensor, tensor + 1);
    ASSERT_TRUE(waves.put({.step = kStep, .on_device = true}, entries));
  }
  const auto told = relay.serve(kLong);
  ASSERT_TRUE(told) << told.error().what;
  EXPECT_EQ(told->event.bucket.number, 0u);
  EXPECT_EQ(told->end, 0u);
  EXPECT_TRUE(relay.owes_error());
  EXPECT_EQ(workers.means[0][0], workers.gradients[0][0]);
  const auto failed = relay.serve(kLong);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().detail, Failing::kError);
  EXPECT_EQ(relay.failed(), 1u);
  EXPECT_FALSE(relay.owes_error());
}

}  // namespace
}  // namespace sluice
