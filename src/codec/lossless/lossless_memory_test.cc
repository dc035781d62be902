// What an exchange of the lossless codec reserves: it follows the chunk. Lists of exceptions are
// everybody's, so they alone grow with the number of workers, and only with the chunk's windows.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "codec/lossless/lossless_by_hand_test.h"

namespace sluice::lossless {
namespace {

constexpr std::uint32_t kCount = 100;                // two windows of 64 coordinates
constexpr std::size_t kWindowOfOne = 8 + 64 * 5;     // a message's header and its entries
constexpr std::size_t kRoom = std::size_t{1} << 20;  // for the lists of a step
constexpr std::uint32_t kTeams[] = {1, 2, 8, 64, 100, 2048, 4096};

std::size_t reserved(std::string_view spec, std::uint32_t workers, std::uint32_t count) {
  const NamedCodec codec = *make_codec(spec);
  Arena measuring;
  Chunk chunk;
  chunk.extent = {{1, 1, count}, 0, count, 0, workers};
  codec.codec->begin(chunk, measuring);
  return measuring.host_used() + measuring.place_used();
}

// Bytes that rank 0's exchange has written where the chunk lives, those that were alike aside.
std::size_t bytes_written(const LosslessByHand& group) {
  const auto place = group.worker(0).place.bytes();
  return place.size() - static_cast<std::size_t>(std::ranges::count(place, group.found));
}

// Everything is cut to whole kAlignment bytes; a set of workers is a bit for each.
std::size_t allowed_for_workers(std::uint32_t workers) { return workers / 8 + 2 * kAlignment; }

TEST(LosslessMemory, FloatSumsReserveNothingPerWorkerButItsBit) {
  for (const std::uint32_t n : kTeams) {
    for (const char* spec : {"lossless:sum=float", "lossless:sum=float,index=bloom"}) {
      const std::size_t alone = reserved(spec, 1, kCount);
      EXPECT_LE(alone, 100u * kCount) << spec;
      EXPECT_LE(reserved(spec, n, kCount), alone + allowed_for_workers(n)) << spec << ", " << n;
    }
  }
}

TEST(LosslessMemory, ListsOfExceptionsAreThoseOfTheChunksWindows) {
  for (const std::uint32_t n : kTeams) {
    for (const char* spec : {"lossless", "lossless:mode=packed", "lossless:mode=dense"}) {
      const std::size_t fit = std::max<std::size_t>(1, kRoom / (n * kWindowOfOne));
      const std::size_t lists = std::min<std::size_t>(2, fit) * (n - 1) * kWindowOfOne;
      EXPECT_LE(reserved(spec, n, kCount),
                reserved(spec, 1, kCount) + lists + allowed_for_workers(n))
          << spec << ", " << n;
    }
  }
}

TEST(LosslessMemory, ListsAreNotWrittenToWhereThereAreNoExceptions) {
  Gradients gradients(64, Floats(kCount, 0.0f));
  for (std::size_t rank = 0; rank < 64; ++rank) gradients[rank][rank] = 1.5f;
  LosslessByHand group("lossless:mode=packed", 64, kCount);
  group.found = std::byte{0xa5};
  group.step(gradients);
  const std::size_t alone = reserved("lossless:mode=packed", 1, kCount);
  EXPECT_LE(bytes_written(group), alone);
  for (Floats& gradient : gradients) {
    gradient.assign(kCount, std::numeric_limits<float>::infinity());
  }
  group.step(gradients);
  EXPECT_GT(bytes_written(group), alone) << "everybody's lists are there";
}

}  // namespace
}  // namespace sluice::lossless
