// How fast the kernels of a device are, next to copies of its own memory in the same run: of a GPU
// where there is one, else of the emulated device, which only shows that they work.
//
// Steps of four workers run with all that they do in a training job: chunks with tails, scales that
// are agreed, widths as the energy has them. A table in between runs each launch many times and
// looks at the clock. Counters are shares of a copy: bytes that must move, by time.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/bytes.h"
#include "catalog/codecs.h"
#include "device/cuda_library.h"
#include "device/transfer.h"
#include "kernels/warp/tide_numbers.h"
#include "tests/support/device_job.h"

namespace sluice {
namespace {

using device::Kernel;
using device::SharedMemory;
using support::DeviceJob;

constexpr std::uint32_t kWorkers = 4;
constexpr std::size_t kTile = 393'216;  // of the gradients in tests/data
constexpr std::array<const char*, device::kKernels> kNames{
    "copy",    "compare", "sum",   "bf16_encode", "bf16_decode",
    "measure", "encode",  "check", "decode",      "keep"};

bool is_quick() { return std::getenv("SLUICE_BENCH_COUNT") != nullptr; }

const device::Table& real() {
  static const device::Table* const found = [] {
    const auto cuda = device::cuda();
    const device::Table* const table = cuda ? *cuda : &device::emulated();
    SLUICE_ASSERT(table->open(0) == 0);
    return table;
  }();
  return *found;
}
bool is_emulated() { return &real() == &device::emulated(); }
const device::Accelerator& plain() {
  static const device::Accelerator made{&real(), 0};
  return made;
}

// --- what must move ---

template <class T>
std::vector<T> fetch(const T* from, std::size_t count) {
  std::vector<T> here(count);
  SLUICE_ASSERT(device::to_host(plain(), reinterpret_cast<const std::byte*>(from),
                                std::as_writable_bytes(std::span(here))));
  return here;
}

std::vector<warp::TideBlock> blocks_of(const warp::TideChunk& chunk) {
  const unsigned log2 = warp::log2_floor(chunk.block);
  return fetch(chunk.blocks, warp::block_count(chunk.count, chunk.block, log2));
}

double bits_down(const warp::TideChunk& chunk, unsigned width) {
  if (width == warp::kTideExact) return 32;
  return chunk.rounded[width - 1] != 0 ? width + chunk.extra : chunk.full_bits[width - 1];
}

double bytes_of(Kernel kernel, const warp::TideChunk& chunk) {
  const double values = static_cast<double>(floats::size_of(chunk.values_format)) * chunk.count;
  const double mean = static_cast<double>(floats::size_of(chunk.mean_format)) * chunk.count;
  const double residual = chunk.residual != nullptr ? 4.0 * chunk.count : 0;
  if (kernel == Kernel::measure) return values + residual;
  double up = 0;
  double down = 0;
  double checked = 0;  // of rounded sums the shifts alone
  const unsigned log2 = warp::log2_floor(chunk.block);
  const std::vector<warp::TideBlock> blocks = blocks_of(chunk);
  for (std::uint32_t b = 0; b < blocks.size(); ++b) {
    const unsigned width = blocks[b].width;
    if (width == 0) continue;
    const auto place = warp::place_of(chunk.count, chunk.block, log2, b);
    const double size = 1u << place.log2_size;
    up += size * (width == warp::kTideExact ? 32 : width) / 8;
    down += size * bits_down(chunk, width) / 8;
    const bool rounded = width != warp::kTideExact && chunk.rounded[width - 1] != 0;
    checked += rounded ? 1 : size * bits_down(chunk, width) / 8;
  }
  const double table = sizeof(warp::TideBlock) * static_cast<double>(blocks.size());
  switch (kernel) {
    case Kernel::encode: return values + residual + up + table;
    case Kernel::check: return checked + table;
    case Kernel::decode: return down + mean + table;
    default: return values + 2 * residual + up + down + mean + table;
  }
}

double bytes_of(Kernel kernel, const warp::Dense& dense) {
  const auto size = [](floats::Format format) {
    return static_cast<double>(floats::size_of(format));
  };
  const double wire = size(dense.wire_format);
  const double values = size(dense.values_format);
  const double residual = dense.residual != nullptr ? 4 : 0;
  const auto count = static_cast<double>(dense.count);
  if (kernel == Kernel::dense_encode) return (values + residual + wire) * count;
  const double kept = dense.residual != nullptr ? values + 2 * residual + wire : 0;
  return (wire + size(dense.mean_format) + kept) * count;
}

double bytes_of(Kernel, const warp::Sum& sum) {
  return sum.count / 8.0 * (1.0 * sum.contributors * sum.bits + sum.down_bits);
}
double bytes_of(Kernel, const warp::Copy& copy) { return 2.0 * static_cast<double>(copy.size); }

template <class Item>
double bytes_of_all(const device::Launch& launch) {
  std::uint32_t items = 0;
  for (const warp::Tile& tile : fetch(launch.tiles, launch.tile_count)) {
    items = std::max(items, tile.item + 1);
  }
  double bytes = 0;
  for (const Item& item : fetch(static_cast<const Item*>(launch.items), items)) {
    bytes += bytes_of(launch.kernel, item);
  }
  return bytes;
}

double bytes_of(const device::Launch& launch) {
  switch (launch.kernel) {
    case Kernel::copy: return bytes_of_all<warp::Copy>(launch);
    case Kernel::compare: return 0;
    case Kernel::sum: return bytes_of_all<warp::Sum>(launch);
    case Kernel::dense_encode:
    case Kernel::dense_decode: return bytes_of_all<warp::Dense>(launch);
    default: return bytes_of_all<warp::TideChunk>(launch);
  }
}

// --- the clock ---

struct Watch {
  bool runs = false;
  std::array<double, device::kKernels> seconds{};
  std::array<double, device::kKernels> bytes{};
  std::set<unsigned> widths{};
};
Watch& watch() {
  static Watch made;
  return made;
}

int wait_for(device::Stream stream) {
  const device::Table& table = real();
  device::Event done = nullptr;
  if (const int error = table.make_event(&done); error != 0) return error;
  int error = table.record(done, stream);
  if (error == 0) error = table.synchronize(done);
  const int freed = table.free_event(done);
  return error != 0 ? error : freed;
}

// Of one call, when it is made many times: whoever is asked for more meanwhile does not stop.
template <class Call>
double seconds_of(const Call& call) {
  const int times = is_emulated() ? 1 : 20;
  double best = 1e9;
  for (int run = 0; run < (is_emulated() ? 1 : 5); ++run) {
    SLUICE_ASSERT(wait_for(nullptr) == 0);
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) SLUICE_ASSERT(call() == 0);
    SLUICE_ASSERT(wait_for(nullptr) == 0);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    best = std::min(best, took.count() / times);
  }
  return best;
}

int launch_and_look(const device::Launch* launch, device::Stream stream) {
  Watch& now = watch();
  if (!now.runs) return real().launch(launch, stream);
  // What tables say must be there before it is looked at.
  SLUICE_ASSERT(wait_for(stream) == 0);
  const auto kernel = static_cast<std::size_t>(launch->kernel);
  now.bytes[kernel] += bytes_of(*launch);
  now.seconds[kernel] += seconds_of([&] { return real().launch(launch, stream); });
  if (launch->kernel != Kernel::encode) return 0;
  for (const warp::TideChunk& chunk :
       fetch(static_cast<const warp::TideChunk*>(launch->items), 1)) {
    for (const warp::TideBlock& block : blocks_of(chunk)) now.widths.insert(block.width);
  }
  return 0;
}

const device::Accelerator& watched() {
  static const device::Table table = [] {
    device::Table made = real();
    made.launch = launch_and_look;
    return made;
  }();
  static const device::Accelerator made{&table, 0};
  return made;
}

// Bytes per second of a copy from one place of the device's memory to another, read and written.
double copy_rate() {
  static const double rate = [] {
    const std::size_t size = is_quick() || is_emulated() ? 1u << 20 : 1u << 28;
    const device::DeviceMemory from(plain(), size);
    const device::DeviceMemory to(plain(), size);
    const double seconds = seconds_of(
        [&] { return real().copy(to.as<std::byte>(), from.as<std::byte>(), size, nullptr); });
    return 2.0 * static_cast<double>(size) / seconds;
  }();
  return rate;
}

// --- steps ---

std::vector<float> gradient_of(std::uint32_t rank) {
  std::ifstream file(fmt::format("tests/data/gpt-step300/w{}.npy", rank), std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  if (bytes.size() < kTile * sizeof(float)) return {};
  std::vector<float> values(kTile);
  const std::size_t head = bytes.size() - kTile * sizeof(float);
  const std::span<const std::byte> from = std::as_bytes(std::span(bytes)).subspan(head);
  for (std::size_t i = 0; i < kTile; ++i) values[i] = load_le<float>(from, 4 * i);
  return values;
}

// The gradients again and again, a tensor each time, and each a little shorter: 256 MiB.
bool tile(support::Inputs& inputs) {
  const std::size_t tiles = is_quick() || is_emulated() ? 1 : 171;
  inputs.tensors.clear();
  inputs.gradients.assign(tiles, std::vector<std::vector<float>>(kWorkers));
  for (std::size_t i = 0; i < tiles; ++i)
    inputs.tensors.push_back({i + 1, 1, kTile - 101 * (i % 7)});
  for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
    const std::vector<float> one = gradient_of(rank);
    if (one.empty()) return false;
    for (std::size_t i = 0; i < tiles; ++i) {
      const auto count = static_cast<std::ptrdiff_t>(inputs.tensors[i].count());
      inputs.gradients[i][rank].assign(one.begin(), one.begin() + count);
    }
  }
  return true;
}

void show(benchmark::State& state, std::span<const Kernel> kernels) {
  const Watch& now = watch();
  for (const Kernel kernel : kernels) {
    const auto k = static_cast<std::size_t>(kernel);
    if (now.seconds[k] == 0) continue;
    state.counters[kNames[k]] = now.bytes[k] / now.seconds[k] / copy_rate();
  }
  state.counters["copy_GBps"] = copy_rate() * 1e-9;
  state.SetLabel(real().name);
}

constexpr std::array kShown{Kernel::measure, Kernel::encode,       Kernel::sum,
                            Kernel::check,   Kernel::decode,       Kernel::keep,
                            Kernel::copy,    Kernel::dense_encode, Kernel::dense_decode};

void device_step(benchmark::State& state, const char* spec, const char* feedback,
                 floats::Format format) {
  support::Inputs inputs(
      {.count = 1, .workers = kWorkers, .data = support::DataKind::zeros, .feedback = feedback});
  if (!tile(inputs)) {
    state.SkipWithError("tests/data/gpt-step300 is not here: run it in the root of the tree");
    return;
  }
  const auto codec = std::move(make_codec(spec)->codec);
  DeviceJob job(watched(), *codec, inputs, {}, support::Wire::carried, format);
  SLUICE_ASSERT(job.run(0).empty());  // Until there is a model, and a residual.
  watch() = {.runs = true};
  for (auto _ : state) {
    SLUICE_ASSERT(job.run(1).empty());
    state.SetIterationTime(1e-3);
  }
  show(state, kShown);
  state.counters["widths"] = static_cast<double>(watch().widths.size());
  watch() = {};
}

// --- sums, of as many workers as there may be ---

void device_sum(benchmark::State& state, std::uint32_t workers, warp::SumOp op, unsigned bits,
                unsigned down_bits, warp::SumForm form) {
  constexpr std::uint32_t kCount = 1u << 20;
  const std::uint32_t items = is_quick() || is_emulated() ? 1 : std::max(1u, 256 / workers);
  const std::size_t stride = std::size_t{kCount} / 8 * bits;
  const std::size_t grain = 256 / 8 * down_bits + (form == warp::SumForm::round ? 1 : 0);
  const device::DeviceMemory source(plain(), stride * workers * items);
  const device::DeviceMemory down(plain(), kCount / 256 * grain * items);
  std::vector<std::byte> bytes(stride);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>((i * 0x9e3779b97f4a7c15u) >> 56);
  }
  for (std::uint32_t i = 0; i < workers * items; ++i) {
    SLUICE_ASSERT(device::to_device(plain(), bytes, source.as<std::byte>() + i * stride));
  }
  device::Bench bench(watched(), nullptr);
  const auto round = [&] {
    SLUICE_ASSERT(bench.begin());
    const auto ranks = bench.list<std::uint32_t>(workers);
    for (std::uint32_t i = 0; i < workers; ++i) ranks.host[i] = i;
    for (std::uint32_t i = 0; i < items; ++i) {
      bench.add(warp::Sum{.source = source.as<std::byte>() + i * workers * stride,
                          .stride = stride,
                          .ranks = ranks.device,
                          .contributors = workers,
                          .count = kCount,
                          .grain = 256,
                          .op = op,
                          .form = form,
                          .bits = static_cast<std::uint8_t>(bits),
                          .down_bits = static_cast<std::uint8_t>(down_bits),
                          .down = down.as<std::byte>() + i * (kCount / 256 * grain)});
    }
    SLUICE_ASSERT(bench.submit() && bench.wait());
  };
  watch() = {.runs = true};
  for (auto _ : state) {
    round();
    state.SetIterationTime(1e-3);
  }
  show(state, std::array{Kernel::sum});
  watch() = {};
}

#define SLUICE_STEP(name, ...) \
  BENCHMARK_CAPTURE(device_step, name, __VA_ARGS__)->Iterations(1)->UseManualTime()
SLUICE_STEP(tide_4, "tide:bits=4", "none", floats::Format::f32);
SLUICE_STEP(tide_4_ef, "tide:bits=4", "ef", floats::Format::f32);
SLUICE_STEP(tide_2_ef, "tide:bits=2", "ef", floats::Format::f32);
SLUICE_STEP(tide_4_full, "tide:bits=4,down=full", "none", floats::Format::f32);
SLUICE_STEP(tide_4_previous, "tide:bits=4,scales=previous", "ef", floats::Format::f32);
SLUICE_STEP(tide_4_from_bf16, "tide:bits=4", "none", floats::Format::bf16);
SLUICE_STEP(tide_4_ef_from_bf16, "tide:bits=4", "ef", floats::Format::bf16);
SLUICE_STEP(bf16, "bf16", "none", floats::Format::f32);
SLUICE_STEP(bf16_from_bf16, "bf16", "none", floats::Format::bf16);
#undef SLUICE_STEP

#define SLUICE_SUM(name, ...) \
  BENCHMARK_CAPTURE(device_sum, name, __VA_ARGS__)->Iterations(1)->UseManualTime()
SLUICE_SUM(n4_4_bits_full, 4, warp::SumOp::lane_sum, 4, 6, warp::SumForm::full);
SLUICE_SUM(n4_4_bits_round, 4, warp::SumOp::lane_sum, 4, 5, warp::SumForm::round);
SLUICE_SUM(n4_3_bits_round, 4, warp::SumOp::lane_sum, 3, 4, warp::SumForm::round);
SLUICE_SUM(n64_4_bits_full, 64, warp::SumOp::lane_sum, 4, 10, warp::SumForm::full);
SLUICE_SUM(n64_4_bits_round, 64, warp::SumOp::lane_sum, 4, 7, warp::SumForm::round);
SLUICE_SUM(n4_max_12_bits, 4, warp::SumOp::max, 12, 12, warp::SumForm::full);
SLUICE_SUM(n4_f32, 4, warp::SumOp::f32_sum, 32, 32, warp::SumForm::full);
SLUICE_SUM(n4_bf16, 4, warp::SumOp::bf16_sum, 16, 16, warp::SumForm::full);
#undef SLUICE_SUM

}  // namespace
}  // namespace sluice
