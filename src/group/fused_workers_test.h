// Workers whose drivers run over collectives in one process, stepped by one thread.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "carrier/fused_port.h"
#include "carrier/local/local.h"
#include "group/bucket.h"
#include "group/driver.h"
#include "group/fleet.h"
#include "group/workers_test.h"
#include "tests/support/hall.h"

namespace sluice {

// One worker's end.
struct FusedWorker {
  FusedWorker(Memory& memory, Collectives& collectives, std::uint32_t window = 0)
      : port(memory.options().rank, memory.options().workers, collectives),
        bucket(memory),
        driver(memory, port, window) {}

  Verdict load(const BucketOrder& order, std::span<const BucketEntry> entries) {
    SLUICE_TRY(bucket.load(order, entries));
    return Nothing{};
  }
  // Chunks [first, last) of what is loaded.
  Status start(std::size_t first, std::size_t last) {
    const Load part{.bucket = &bucket, .first = first, .last = last};
    return driver.start({&part, 1});
  }
  Status start() { return start(0, bucket.count()); }
  [[nodiscard]] const Outcome& outcome() const { return driver.loads()[0].outcome; }

  FusedPort port;
  Bucket bucket;
  Driver driver;
};

// All workers of a job.
class FusedWorkers {
 public:
  explicit FusedWorkers(Workers4& of, std::uint32_t window = 0)
      : workers_(of), hall_(static_cast<std::uint32_t>(of.memories.size())) {
    for (const auto& memory : of.memories) {
      ends.emplace_back(*memory, hall_.of(memory->options().rank), window);
    }
  }

  // Everybody's, in turn, until all are done; the outcome of the first.
  Status finish() {
    for (bool done = false; !done;) {
      done = true;
      for (FusedWorker& one : ends) {
        SLUICE_TRY_ASSIGN(const bool mine, one.driver.advance());
        done = done && mine;
      }
    }
    return ok();
  }
  // The whole job in one bucket, its chunks in so many parts, one after the other.
  Outcome run(const BucketOrder& order, std::size_t parts = 1) {
    std::vector<std::vector<BucketEntry>> entries;
    for (std::size_t rank = 0; rank < ends.size(); ++rank)
      entries.push_back(workers_.entries(rank));
    return run(order, entries, parts);
  }
  Outcome run(const BucketOrder& order, std::span<const std::vector<BucketEntry>> entries,
              std::size_t parts = 1) {
    Outcome outcome;
    for (std::size_t rank = 0; rank < ends.size(); ++rank) {
      const Verdict loaded = ends[rank].load(order, entries[rank]);
      EXPECT_TRUE(loaded.has_value()) << loaded.error().message;
    }
    const std::size_t count = ends[0].bucket.count();
    for (std::size_t part = 0; part < parts; ++part) {
      for (FusedWorker& one : ends) {
        EXPECT_TRUE(one.start(count * part / parts, count * (part + 1) / parts));
      }
      const Status ran = finish();
      EXPECT_TRUE(ran.has_value()) << ends[0].driver.explain();
      for (const FusedWorker& one : ends) {
        EXPECT_EQ(one.outcome().digest, ends[0].outcome().digest);
        EXPECT_EQ(one.outcome().infinite, ends[0].outcome().infinite);
      }
      outcome.add(ends[0].outcome());
    }
    return outcome;
  }
  [[nodiscard]] support::Hall& hall() { return hall_; }

 private:
  Workers4& workers_;
  support::Hall hall_;

 public:
  std::deque<FusedWorker> ends;
};

// What groups on the local carrier make of the gradients of the tensors that are coded.
inline std::vector<std::vector<float>> local_means(const Workers4& entry, std::uint32_t steps = 1) {
  const auto tensors = entry.coded_tensors();
  const auto codec = std::move(*make_codec(entry.spec));
  const auto fleet = std::move(
      *Fleet::make({.make_world = local::kInfo.make_world, .group = entry.memories[0]->options()},
                   codec, tensors));
  auto means = entry.gradients;
  for (std::uint32_t step = 0; step < steps; ++step) {
    const Verdict ran = fleet->step(kStep + step, [&](std::uint32_t rank) {
      std::vector<BucketEntry> entries;
      for (std::uint32_t i = 0; i < tensors.size(); ++i) {
        entries.push_back({i, entry.gradients[rank][i], means[rank][i]});
      }
      return entries;
    });
    EXPECT_TRUE(ran.has_value()) << ran.error().message;
  }
  return {means[0].begin(), means[0].begin() + static_cast<std::ptrdiff_t>(tensors.size())};
}

inline std::vector<std::vector<float>> coded_means(const Workers4& entry, std::size_t rank) {
  const auto& all = entry.means[rank];
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(entry.coded)};
}

}  // namespace sluice
