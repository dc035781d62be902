// Hypergraphs to peel, and an independent peeling by rounds: for the tests of peeling.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "kernels/peeling/peeling.h"

namespace sluice::peeling {

using Keys = std::vector<Buckets>;

enum class Draws { with_replacement, sub_tables, distinct };

inline std::uint32_t below(std::uint64_t word, std::uint32_t count) {
  return static_cast<std::uint32_t>(((word >> 32) * count) >> 32);
}

inline Buckets draw_buckets(Draws draws, std::uint64_t stream, std::uint32_t key,
                            std::uint32_t bucket_count) {
  Buckets drawn{};
  for (std::uint32_t j = 0; j < 3; ++j) {
    const std::uint64_t word = mix(stream, 3 * std::uint64_t{key} + j);
    if (draws == Draws::sub_tables) {
      drawn[j] = j * (bucket_count / 3) + below(word, bucket_count / 3);
    } else {
      drawn[j] = below(word, bucket_count);
    }
  }
  return drawn;
}

inline bool has_repeats(const Buckets& key) {
  return key[0] == key[1] || key[0] == key[2] || key[1] == key[2];
}

inline void draw_keys(Draws draws, std::uint64_t seed, std::uint32_t bucket_count, Keys& keys) {
  for (std::uint32_t key = 0; key < keys.size(); ++key) {
    std::uint64_t stream = mix(seed, 0);
    keys[key] = draw_buckets(draws, stream, key, bucket_count);
    while (draws == Draws::distinct && has_repeats(keys[key])) {
      stream = mix(stream, 0);
      keys[key] = draw_buckets(draws, stream, key, bucket_count);
    }
  }
}

inline Keys drawn_keys(Draws draws, std::uint64_t seed, std::uint32_t count,
                       std::uint32_t bucket_count) {
  Keys keys(count);
  draw_keys(draws, seed, bucket_count, keys);
  return keys;
}

inline std::uint32_t buckets_at(double gamma, std::uint32_t keys) {
  return static_cast<std::uint32_t>(std::lround(gamma * keys));
}

// Peels again and again without asking for memory.
class Peeler {
 public:
  std::size_t peel(const Keys& keys, std::uint32_t bucket_count) {
    cells_.resize(std::max<std::size_t>(cells_.size(), bucket_count));
    queue_.resize(cells_.size());
    order_.resize(keys.size());
    stuck_.resize(keys.size());
    peeled_ = order(keys, bucket_count, {cells_, queue_}, order_, stuck_);
    return peeled_;
  }
  [[nodiscard]] std::span<const Peeled> in_order() const {
    return std::span(order_).first(peeled_);
  }
  [[nodiscard]] std::span<const std::uint32_t> stuck() const {
    return std::span(stuck_).first(order_.size() - peeled_);
  }
  [[nodiscard]] std::span<const Cell> cells() const { return cells_; }

 private:
  std::vector<Cell> cells_;
  std::vector<std::uint32_t> queue_;
  std::vector<Peeled> order_;
  std::vector<std::uint32_t> stuck_;
  std::size_t peeled_ = 0;
};

// Round by round, everything that can be read at once, by looking at all keys every time.
struct ByRounds {
  std::uint32_t rounds = 0;
  std::vector<std::uint32_t> stuck;
};

inline ByRounds peel_by_rounds(const Keys& keys, std::uint32_t bucket_count) {
  std::vector<std::uint32_t> degrees(bucket_count);
  for (const Buckets& key : keys) {
    for (const std::uint32_t bucket : key) ++degrees[bucket];
  }
  ByRounds result;
  result.stuck.resize(keys.size());
  for (std::uint32_t key = 0; key < keys.size(); ++key) result.stuck[key] = key;
  for (bool any = true; any; result.rounds += any ? 1 : 0) {
    std::vector<std::uint32_t> read;
    std::vector<std::uint32_t> left;
    for (const std::uint32_t key : result.stuck) {
      const bool alone = std::any_of(keys[key].begin(), keys[key].end(),
                                     [&](std::uint32_t bucket) { return degrees[bucket] == 1; });
      (alone ? read : left).push_back(key);
    }
    for (const std::uint32_t key : read) {
      for (const std::uint32_t bucket : keys[key]) --degrees[bucket];
    }
    any = !read.empty();
    result.stuck = left;
  }
  return result;
}

}  // namespace sluice::peeling
