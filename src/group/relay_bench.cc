// What the host does for a step whose gradients are on a device, with nothing else to wait for:
// kernels do nothing and collectives are done at once. A GPT of 124 million parameters, 4 workers,
// buckets of 25 MiB, six ends, as over NCCL.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "catalog/codecs.h"
#include "device/bench.h"
#include "group/memory.h"
#include "group/relay.h"

namespace sluice {
namespace {

constexpr std::uint32_t kWorkers = 4;
constexpr std::size_t kEnds = 6;
constexpr std::uint64_t kBucket = 6'553'600;  // coordinates
constexpr std::uint64_t kWave = 1u << 23;

// Scale codes as gradients have them; nothing else.
int pretend(const device::Launch* launch, device::Stream) {
  if (launch->kernel != device::Kernel::measure) return 0;
  const auto* const items = static_cast<const warp::TideChunk*>(launch->items);
  for (std::uint32_t i = 0; i < launch->tile_count; ++i) {
    const warp::Tile& tile = launch->tiles[i];
    const warp::TideChunk& item = items[tile.item];
    const std::uint32_t blocks = item.count / item.block;
    for (std::uint32_t b = tile.first; b < blocks && b < tile.first + warp::kTideTile; ++b) {
      item.codes[b] = static_cast<std::uint16_t>(1100 + (item.element + b * 29) % 40);
    }
  }
  return 0;
}

const device::Accelerator& accelerator() {
  static const device::Table table = [] {
    device::Table made = device::emulated();
    made.launch = pretend;
    return made;
  }();
  static const device::Accelerator made{&table, 0};
  return made;
}

// Everybody sends what this rank does.
class Echo final : public Collectives {
 public:
  std::span<std::byte> reserve(Buffer buffer, std::size_t size) override {
    auto& room = rooms_[static_cast<std::size_t>(buffer)];
    if (room.size() < size) room.resize(size);
    return room;
  }
  Status start(const Call& call) override {
    if (call.kind != Kind::all_to_all || call.from != Buffer::send) return ok();
    constexpr std::size_t kRank = 16;  // where a message says whose it is
    std::byte* to = rooms_[static_cast<std::size_t>(Buffer::received)].data();
    for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
      std::memcpy(to, rooms_[0].data(), call.receive_sizes[rank]);
      std::memcpy(to + kRank, &rank, sizeof rank);
      to += call.receive_sizes[rank];
    }
    return ok();
  }
  Result<bool> test() override { return true; }
  Status wait(std::chrono::nanoseconds) override { return ok(); }

 private:
  std::array<std::vector<std::byte>, kBuffers> rooms_;
};

std::vector<Tensor> shapes() {
  std::vector<Tensor> made;
  const auto add = [&](std::uint64_t rows, std::uint64_t cols) {
    made.push_back({made.size() + 1, rows, cols});
  };
  const bool is_quick = std::getenv("SLUICE_BENCH_COUNT") != nullptr;
  for (int layer = 0; layer < (is_quick ? 1 : 12); ++layer) {
    add(768, 3072);
    add(3072, 768);
    add(768, 768);
    add(768, 2304);
  }
  if (!is_quick) add(1024, 768);
  if (!is_quick) add(50304, 768);
  return made;
}

class Job {
 public:
  explicit Job(std::string_view spec) : tensors_(shapes()) {
    GroupOptions options;
    options.workers = kWorkers;
    options.accelerator = &accelerator();
    memory_ = std::move(*Memory::make(options));
    NamedCodec named = std::move(*make_codec(spec));
    const auto choice =
        memory_->offer(named.spec, std::shared_ptr<const Codec>(std::move(named.codec)));
    if (!memory_->add(tensors_, *choice)) std::abort();
    waves_ =
        std::make_unique<Waves>(*memory_, WavesOptions{.tracks = kEnds, .coordinates_max = kWave});
    std::vector<Relay::End> ends;
    for (std::size_t i = 0; i < kEnds; ++i) {
      benches_.emplace_back(accelerator(), nullptr);
      ports_.emplace_back(0u, kWorkers, echoes_.emplace_back());
      ports_.back().use_device(benches_.back());
      drivers_.emplace_back(*memory_, ports_.back(), 0, Place{&benches_.back(), false});
      const WaveRoom room = wave_room(*memory_, kWave, {&benches_.back(), false});
      if (!drivers_.back().reserve_waves(room)) std::abort();
      ends.push_back({&drivers_.back(), &ports_.back()});
    }
    relay_ = std::make_unique<Relay>(*waves_, ends);
  }

  void step() {
    ++step_;
    std::size_t buckets = put();
    while (buckets > 0) {
      if (!relay_->serve(std::chrono::seconds(60))) std::abort();
      --buckets;
    }
    memory_->end_step();
  }
  [[nodiscard]] device::Counters counters() const {
    device::Counters all;
    for (const device::Bench& one : benches_) {
      all.waves += one.counters().waves;
      all.launches += one.counters().launches;
      all.uploaded_bytes += one.counters().uploaded_bytes;
      all.grown += one.counters().grown;
    }
    return all;
  }

 private:
  // Nobody looks at the floats: they need no memory.
  std::size_t put() {
    std::size_t buckets = 0;
    std::uint64_t held = 0;
    std::vector<BucketEntry> entries;
    const auto flush = [&] {
      if (!waves_->put({.step = step_, .on_device = true}, entries)) std::abort();
      entries.clear();
      held = 0;
      ++buckets;
    };
    float* const nowhere = reinterpret_cast<float*>(alignof(std::max_align_t));
    for (std::uint32_t i = 0; i < tensors_.size(); ++i) {
      const std::size_t count = tensors_[i].count();
      if (held != 0 && held + count > kBucket) flush();
      entries.push_back({i, {nowhere, count}, {nowhere, count}});
      held += count;
    }
    flush();
    return buckets;
  }

  std::vector<Tensor> tensors_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Waves> waves_;
  std::deque<Echo> echoes_;
  std::deque<device::Bench> benches_;
  std::deque<FusedPort> ports_;
  std::deque<Driver> drivers_;
  std::unique_ptr<Relay> relay_;
  std::uint64_t step_ = 0;
};

void host_work_of_a_step(benchmark::State& state, const char* spec) {
  Job job(spec);
  for (int i = 0; i < 2; ++i) job.step();  // Until the model is known.
  const device::Counters before = job.counters();
  for (auto _ : state) job.step();
  const device::Counters after = job.counters();
  const auto steps = static_cast<double>(state.iterations());
  const auto per_step = [&](std::uint64_t from, std::uint64_t to) {
    return static_cast<double>(to - from) / steps;
  };
  state.counters["waves"] = per_step(before.waves, after.waves);
  state.counters["launches"] = per_step(before.launches, after.launches);
  state.counters["uploaded_MB"] = per_step(before.uploaded_bytes, after.uploaded_bytes) * 1e-6;
  state.counters["grown"] = per_step(before.grown, after.grown);
}

BENCHMARK_CAPTURE(host_work_of_a_step, tide_4, "tide:bits=4")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(host_work_of_a_step, tide_2, "tide:bits=2")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(host_work_of_a_step, bf16, "bf16")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
