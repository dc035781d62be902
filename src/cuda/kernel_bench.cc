// How fast every kernel is, next to a copy on the same device in the same run: medians of 20, over
// 64 Mi coordinates tiled from the gradients that are named (.npy, float32).
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>

#include "cuda/arena_image.h"
#include "device/device_table.h"
#include "kernels/warp/tide_numbers.h"

extern "C" const sluice::device::Table* sluice_cuda_table(void);

namespace sluice::cuda {
namespace {

using device::Kernel;
using device::Table;
using warp::TideChunk;

constexpr std::uint32_t kChunk = 1u << 20;
constexpr std::uint32_t kChunks = 64;
constexpr std::uint64_t kCount = std::uint64_t{kChunk} * kChunks;
constexpr std::uint32_t kBlock = 256;
constexpr std::uint32_t kBlocks = kChunk / kBlock;
constexpr int kRuns = 20;

void say(const std::string& line) { std::fputs((line + "\n").c_str(), stdout); }

void must(int error, const char* what) {
  if (error == 0) return;
  say(fmt::format("{}: {}", what, sluice_cuda_table()->describe(error)));
  std::exit(2);
}

std::byte* allocate(std::size_t size) {
  void* memory = nullptr;
  must(sluice_cuda_table()->allocate(&memory, size), "allocate");
  return static_cast<std::byte*>(memory);
}
template <class T>
T* upload(std::span<const T> values) {
  std::byte* const memory = allocate(values.size_bytes());
  must(cudaMemcpy(memory, values.data(), values.size_bytes(), cudaMemcpyHostToDevice), "upload");
  return reinterpret_cast<T*>(memory);
}

// Median of the times of so many runs, in seconds.
double timed(const std::function<void()>& run) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  must(cudaEventCreate(&begin), "event");
  must(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = 0; i < kRuns + 3; ++i) {
    must(cudaEventRecord(begin), "record");
    run();
    must(cudaEventRecord(end), "record");
    must(cudaEventSynchronize(end), "synchronize");
    float milliseconds = 0;
    must(cudaEventElapsedTime(&milliseconds, begin, end), "time");
    if (i >= 3) times.push_back(milliseconds);
  }
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2] * 1e-3;
}

double copy_rate = 0;

void report(const std::string& name, double bytes, double seconds) {
  const double rate = bytes / seconds;
  say(fmt::format("{:34} {:8.1f} GB/s  {:5.1f} %  {:8.1f} us", name, rate * 1e-9,
                  100 * rate / copy_rate, seconds * 1e6));
}

template <class Item>
void bench(const std::string& name, Kernel kernel, std::uint32_t block, std::uint32_t tile,
           std::span<const Item> items, const std::function<std::uint64_t(const Item&)>& units,
           double bytes) {
  std::vector<warp::Tile> tiles;
  for (std::uint32_t i = 0; i < items.size(); ++i) {
    for (std::uint64_t at = 0; at < units(items[i]); at += tile) {
      tiles.push_back({i, static_cast<std::uint32_t>(at)});
    }
  }
  const device::Launch launch{kernel, block, upload(items),
                              upload(std::span<const warp::Tile>(tiles)),
                              static_cast<std::uint32_t>(tiles.size())};
  const double seconds =
      timed([&] { must(sluice_cuda_table()->launch(&launch, nullptr), "launch"); });
  report(name, bytes, seconds);
}

std::vector<float> read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  if (bytes.size() < 128) {
    say("cannot read " + path);
    std::exit(2);
  }
  const std::size_t start =
      10u + static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  std::vector<float> values((bytes.size() - start) / sizeof(float));
  std::memcpy(values.data(), bytes.data() + start, values.size() * sizeof(float));
  return values;
}

// Everything of one worker on the device, in chunks.
struct Worker {
  floats::Format format = floats::Format::f32;
  std::byte* values = nullptr;
  std::byte* mean = nullptr;
  std::byte* residual = nullptr;
  std::byte* up = nullptr;    // a byte per coordinate
  std::byte* down = nullptr;  // four
  std::uint16_t* codes = nullptr;
  std::vector<TideChunk> chunks;
  double code_bytes = 0;
  double down_bytes = 0;
};

std::byte* element(std::byte* memory, floats::Format format, std::uint64_t index) {
  return memory + floats::size_of(format) * index;
}

Worker make_worker(std::span<const float> data, floats::Format format) {
  Worker worker;
  worker.format = format;
  std::vector<float> values(kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) values[i] = data[i % data.size()];
  std::vector<std::byte> stored(floats::size_of(format) * kCount);
  floats::encode(format, values, 1.0f, stored);
  worker.values = upload(std::span<const std::byte>(stored));
  worker.mean = allocate(stored.size());
  worker.residual = allocate(4 * kCount);
  must(cudaMemset(worker.residual, 0, 4 * kCount), "memset");
  worker.up = allocate(kCount);
  worker.down = allocate(4 * kCount);
  must(cudaMemset(worker.up, 0x35, kCount), "memset");
  must(cudaMemset(worker.down, 0x3d, 4 * kCount), "memset");
  worker.codes = reinterpret_cast<std::uint16_t*>(allocate(2 * kCount / kBlock));
  const warp::Finding none;
  auto* const finding = upload(std::span<const warp::Finding>(&none, 1));
  warp::TideAffines affines;
  for (auto& row : affines.factor) row.fill(1e-3f);
  for (auto& row : affines.centre) row.fill(-1.0f);
  auto* const tables = upload(std::span<const warp::TideAffines>(&affines, 1));
  for (std::uint32_t c = 0; c < kChunks; ++c) {
    TideChunk chunk;
    chunk.values = element(worker.values, format, std::uint64_t{c} * kChunk);
    chunk.mean = element(worker.mean, format, std::uint64_t{c} * kChunk);
    chunk.values_format = chunk.mean_format = format;
    chunk.count = kChunk;
    chunk.block = kBlock;
    chunk.element = std::uint64_t{c} * kChunk;
    chunk.dithers = 0x123456789;
    chunk.signs.fill(0x9e3779b9);
    chunk.codes = worker.codes + std::size_t{c} * kBlocks;
    chunk.affines = chunk.own_affines = tables;
    chunk.finding = finding;
    worker.chunks.push_back(chunk);
  }
  return worker;
}

std::uint64_t blocks_of(const TideChunk& chunk) { return chunk.count / chunk.block; }

// Widths as tide gives them to 4 bits a coordinate, from the codes that were measured.
void allot(Worker& worker, std::uint32_t contributors, std::uint8_t extra) {
  std::vector<std::uint16_t> codes(kCount / kBlock);
  must(cudaMemcpy(codes.data(), worker.codes, 2 * codes.size(), cudaMemcpyDeviceToHost), "codes");
  constexpr int kOffsets[] = {3, 7, 14, 21, 28, 35, 42, 49};
  const auto width_at = [&](int code, int waterline) {
    int width = 1;
    for (int w = 2; w <= 8; ++w) width = code - waterline >= kOffsets[w - 1] ? w : width;
    return width;
  };
  int waterline = 607;
  for (double total = 1e9; waterline < 1696 && total > 3.95; ++waterline) {
    total = 0;
    for (const std::uint16_t code : codes) total += width_at(code, waterline);
    total /= static_cast<double>(codes.size());
  }
  worker.code_bytes = worker.down_bytes = 0;
  for (std::uint32_t c = 0; c < kChunks; ++c) {
    TideChunk& chunk = worker.chunks[c];
    std::vector<warp::TideBlock> blocks(kBlocks);
    std::size_t lanes[9] = {};
    for (std::uint32_t b = 0; b < kBlocks; ++b) {
      const std::uint16_t code = codes[std::size_t{c} * kBlocks + b];
      const auto width = static_cast<std::uint8_t>(code == 0 ? 0 : width_at(code, waterline));
      blocks[b] = {code, width, 0, 0};
      if (width == 0) continue;
      blocks[b].lane = static_cast<std::uint32_t>(lanes[width]);
      lanes[width] += kBlock;
    }
    chunk.blocks = upload(std::span<const warp::TideBlock>(blocks));
    chunk.contributors = contributors;
    chunk.dither_times = contributors;
    chunk.extra = extra;
    std::byte* up = worker.up + std::size_t{c} * kChunk;
    std::byte* down = worker.down + std::size_t{4} * c * kChunk;
    for (unsigned w = 1; w <= 8; ++w) {
      const auto full = static_cast<unsigned>(std::bit_width(contributors * ((1u << w) - 1)));
      chunk.full_bits[w - 1] = static_cast<std::uint8_t>(full);
      chunk.rounded[w - 1] = extra != 0 && w + extra < full ? 1 : 0;
      const std::size_t bits = chunk.rounded[w - 1] != 0 ? w + extra : full;
      chunk.sendings[0].up[w - 1] = up;
      chunk.sendings[0].down[w - 1] = down;
      up += lanes[w] / 8 * w;
      const std::size_t size =
          lanes[w] / 8 * bits + (chunk.rounded[w - 1] != 0 ? lanes[w] / kBlock : 0);
      down += (size + 255) / 256 * 256;
      worker.code_bytes += static_cast<double>(lanes[w] / 8 * w);
      worker.down_bytes += static_cast<double>(size);
    }
  }
}

void bench_tide(std::span<const float> data, floats::Format format, const std::string& name) {
  Worker worker = make_worker(data, format);
  const auto all = [&] { return std::span<const TideChunk>(worker.chunks); };
  const double in = static_cast<double>(floats::size_of(format)) * kCount;
  const auto run = [&](const std::string& what, Kernel kernel, double bytes) {
    bench<TideChunk>(name + " " + what, kernel, kBlock, warp::kTideTile, all(), blocks_of, bytes);
  };
  run("measure", Kernel::measure, in);
  allot(worker, 4, 0);
  run("encode", Kernel::encode, in + worker.code_bytes);
  for (TideChunk& chunk : worker.chunks) chunk.measures = 1;
  run("encode and measure", Kernel::encode, in + worker.code_bytes);
  for (TideChunk& chunk : worker.chunks) chunk.measures = 0;
  run("check, full, n=4", Kernel::check, worker.down_bytes);
  must(cudaMemset(worker.chunks[0].finding, 0, sizeof(warp::Finding)), "memset");
  run("decode, full, n=4", Kernel::decode, in + worker.down_bytes);
  allot(worker, 4, 1);
  run("decode, round, n=4", Kernel::decode, in + worker.down_bytes);
  allot(worker, 64, 0);
  run("decode, full, n=64", Kernel::decode, in + worker.down_bytes);
  allot(worker, 4, 0);
  for (std::uint32_t c = 0; c < kChunks; ++c) {
    worker.chunks[c].residual =
        reinterpret_cast<float*>(worker.residual) + std::uint64_t{c} * kChunk;
  }
  run("measure, feedback", Kernel::measure, in + 4.0 * kCount);
  run("encode, feedback", Kernel::encode, in + 4.0 * kCount + worker.code_bytes);
  run("keep and decode, full, n=4", Kernel::keep,
      2 * in + 8.0 * kCount + worker.code_bytes + worker.down_bytes);
  for (std::byte* memory : {worker.values, worker.mean, worker.residual, worker.up, worker.down}) {
    must(sluice_cuda_table()->release(memory), "release");
  }
}

void bench_sums() {
  constexpr std::size_t kSource = std::size_t{1} << 31;
  std::byte* const source = allocate(kSource);
  std::byte* const down = allocate(std::size_t{1} << 29);
  must(cudaMemset(source, 0x5a, kSource), "memset");
  std::vector<std::uint32_t> ranks(64);
  for (std::uint32_t i = 0; i < 64; ++i) ranks[i] = i;
  auto* const rank_list = upload(std::span<const std::uint32_t>(ranks));
  struct Case {
    const char* name;
    std::uint32_t workers;
    std::uint8_t bits;
    std::uint8_t down_bits;
    warp::SumForm form;
    warp::SumOp op;
  };
  constexpr Case kCases[] = {
      {"sum 4 bits, n=4, full", 4, 4, 6, warp::SumForm::full, warp::SumOp::lane_sum},
      {"sum 4 bits, n=4, round", 4, 4, 5, warp::SumForm::round, warp::SumOp::lane_sum},
      {"sum 3 bits, n=4, round", 4, 3, 4, warp::SumForm::round, warp::SumOp::lane_sum},
      {"sum 4 bits, n=64, full", 64, 4, 10, warp::SumForm::full, warp::SumOp::lane_sum},
      {"sum 4 bits, n=64, round", 64, 4, 7, warp::SumForm::round, warp::SumOp::lane_sum},
      {"max 12 bits, n=4", 4, 12, 12, warp::SumForm::full, warp::SumOp::max},
      {"f32_sum, n=4", 4, 32, 32, warp::SumForm::full, warp::SumOp::f32_sum},
      {"bf16_sum, n=4", 4, 16, 16, warp::SumForm::full, warp::SumOp::bf16_sum}};
  for (const Case& one : kCases) {
    // As many coordinates as all else, where they fit.
    const std::uint64_t room = kSource / one.workers * 8 / one.bits / kChunk * kChunk;
    const std::uint64_t lanes = std::min(room, kCount);
    const std::uint64_t per_worker = lanes / 8 * one.bits;
    const std::uint64_t grain_size =
        kBlock / 8 * one.down_bits + (one.form == warp::SumForm::round ? 1 : 0);
    std::vector<warp::Sum> items;
    for (std::uint64_t at = 0; at < lanes; at += kChunk) {
      warp::Sum sum;
      sum.source = source + at / 8 * one.bits;
      sum.stride = per_worker;
      sum.ranks = rank_list;
      sum.contributors = one.workers;
      sum.count = static_cast<std::uint32_t>(std::min<std::uint64_t>(kChunk, lanes - at));
      sum.grain = kBlock;
      sum.op = one.op;
      sum.form = one.form;
      sum.bits = one.bits;
      sum.down_bits = one.down_bits;
      sum.down = down + at / kBlock * grain_size;
      items.push_back(sum);
    }
    bench<warp::Sum>(
        one.name, Kernel::sum, 0, warp::kSumTile, items,
        [](const warp::Sum& sum) -> std::uint64_t { return (sum.count + kBlock - 1) / kBlock; },
        static_cast<double>(per_worker * one.workers + lanes / kBlock * grain_size));
  }
  must(sluice_cuda_table()->release(source), "release");
  must(sluice_cuda_table()->release(down), "release");
}

void bench_dense(std::span<const float> data, floats::Format values, floats::Format wire,
                 const std::string& name) {
  Worker worker = make_worker(data, values);
  std::vector<warp::Dense> items;
  for (std::uint32_t c = 0; c < kChunks; ++c) {
    const std::uint64_t at = std::uint64_t{c} * kChunk;
    warp::Dense dense;
    dense.values = element(worker.values, values, at);
    dense.mean = element(worker.mean, values, at);
    dense.values_format = dense.mean_format = values;
    dense.wire_format = wire;
    dense.count = kChunk;
    dense.divisor = 3;
    dense.up = dense.values_format == wire ? element(worker.residual, wire, at)
                                           : element(worker.down, wire, at);
    dense.down = element(worker.down, wire, at);
    dense.finding = worker.chunks[c].finding;
    items.push_back(dense);
  }
  const double bytes =
      static_cast<double>(floats::size_of(values) + floats::size_of(wire)) * kCount;
  const auto units = [](const warp::Dense& dense) { return dense.count; };
  bench<warp::Dense>(name + " encode", Kernel::dense_encode, 0, warp::kDenseTile, items, units,
                     bytes);
  bench<warp::Dense>(name + " decode", Kernel::dense_decode, 0, warp::kDenseTile, items, units,
                     bytes);
  for (std::byte* memory : {worker.values, worker.mean, worker.residual, worker.up, worker.down}) {
    must(sluice_cuda_table()->release(memory), "release");
  }
}

void bench_copies() {
  constexpr std::size_t kSize = std::size_t{1} << 28;
  std::byte* const from = allocate(kSize + 64);
  std::byte* const to = allocate(kSize + 64);
  const double driver =
      timed([&] { must(cudaMemcpyAsync(to, from, kSize, cudaMemcpyDeviceToDevice), "copy"); });
  copy_rate = 2.0 * kSize / driver;
  report("cudaMemcpy", 2.0 * kSize, driver);
  for (const std::size_t skew : {0u, 3u}) {
    std::vector<warp::Copy> items;
    for (std::size_t at = 0; at < kSize; at += kChunk) {
      items.push_back({from + at + skew, to + at, kChunk});
    }
    bench<warp::Copy>(
        skew == 0 ? "copy" : "copy, misaligned", Kernel::copy, 0, warp::kCopyTile, items,
        [](const warp::Copy& one) { return one.size; }, 2.0 * kSize);
  }
  must(sluice_cuda_table()->release(from), "release");
  must(sluice_cuda_table()->release(to), "release");
}

void bench_all(std::span<const float> data) {
  must(sluice_cuda_table()->open(0), "open");
  bench_copies();
  bench_tide(data, floats::Format::f32, "f32");
  bench_tide(data, floats::Format::bf16, "bf16");
  bench_sums();
  bench_dense(data, floats::Format::f32, floats::Format::f32, "dense f32 as f32");
  bench_dense(data, floats::Format::f32, floats::Format::bf16, "dense f32 as bf16");
  bench_dense(data, floats::Format::bf16, floats::Format::bf16, "dense bf16 as bf16");
}

}  // namespace
}  // namespace sluice::cuda

int main(int argc, char** argv) {
  std::vector<float> data;
  for (int i = 1; i < argc; ++i) {
    const auto more = sluice::cuda::read_npy(argv[i]);
    data.insert(data.end(), more.begin(), more.end());
  }
  if (data.empty()) {
    sluice::cuda::say("kernel_bench w0.npy …");
    return 2;
  }
  sluice::cuda::bench_all(data);
  return 0;
}
