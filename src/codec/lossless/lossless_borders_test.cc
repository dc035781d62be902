// The borders that the README names, one below, at, and one above.
#include <gtest/gtest.h>

#include <cmath>

#include "codec/lossless/lossless_by_hand_test.h"

namespace sluice::lossless {
namespace {

constexpr std::size_t kCount = 6400;

// Values from 2^-10 to 1/2 at every 16th place, so that a sketch of 16-bit integers holds them.
Floats spaced(std::size_t keys) {
  Floats gradient(kCount, 0.0f);
  for (std::size_t i = 0; i < keys; ++i) gradient[16 * i] = i % 2 == 0 ? 0.5f : 0x1p-10f;
  return gradient;
}

// Whether the sketch that goes with the index was used; the mean is right in any case.
bool is_used(LosslessByHand& group, const Gradients& gradients,
             const std::vector<std::uint32_t>& ranks) {
  const std::uint64_t before = group.counted(Count::sketches_again);
  group.step(gradients);
  for (const Floats& mean : group.means) {
    EXPECT_EQ(bits_of(mean), bits_of(paper_mean(gradients, ranks)));
  }
  return group.counted(Count::sketches_again) == before;
}

// A worker says that the format is no good where more than ⌊keys/64⌋ + 1 of its values did not fit.
TEST(LosslessBorders, MisfitsOfASketch) {
  struct Row {
    std::size_t keys;
    std::size_t most;
  };
  for (const Row& row : {Row{63, 1}, {64, 2}, {127, 2}, {128, 3}, {320, 6}}) {
    for (std::size_t misfits = row.most - 1; misfits <= row.most + 1; ++misfits) {
      Gradients gradients{spaced(row.keys), spaced(row.keys)};
      LosslessByHand group("lossless:mode=sketch,index=bitmap", 2, kCount);
      group.step(gradients);
      for (std::size_t i = 0; i < misfits; ++i) gradients[1][16 * (1 + 2 * i)] = 0x1p-100f;
      EXPECT_EQ(is_used(group, gradients, {0, 1}), misfits <= row.most)
          << misfits << " of " << row.keys;
    }
  }
}

// A sketch is made for L + ⌊L/8⌋ + 16 keys of all workers together, L being those of the last step.
TEST(LosslessBorders, KeysOfASketch) {
  for (const std::size_t last : {2u, 7u, 8u, 103u, 200u}) {
    const std::size_t most = last + last / 8 + 16;
    for (std::size_t keys = most - 1; keys <= most + 1; ++keys) {
      LosslessByHand group("lossless:mode=sketch,index=bitmap", 2, kCount);
      group.step({spaced(last), spaced(last / 2)});
      // Some of them are one worker's, some the other's, none has them all.
      Gradients gradients{spaced(keys), spaced(keys)};
      gradients[0][0] = 0.0f;
      gradients[1][16 * (keys - 1)] = 0.0f;
      EXPECT_EQ(is_used(group, gradients, {0, 1}), keys <= most) << keys << " after " << last;
    }
  }
}

// The first `keys` coordinates have values, so samples of empty stretches are few.
bool is_dense(std::size_t count, std::size_t keys) {
  Gradients gradients{Floats(count, 0.0f), Floats(count, 0.0f)};
  // Half of them the one's, half the other's.
  for (std::size_t i = 0; i < keys; ++i) gradients[i % 2][i] = 1.5f;
  LosslessByHand group("lossless", 2, count);
  group.step(gradients);
  EXPECT_EQ(bits_of(group.means[0]), bits_of(paper_mean(gradients, {0, 1})));
  EXPECT_EQ(group.counted(Count::chunks_dense) + group.counted(Count::chunks_packed), 1u);
  return group.counted(Count::chunks_dense) == 1;
}

// A chunk is dense where T > 31/32·N, unless samples say otherwise.
TEST(LosslessBorders, ValuesOfADenseChunk) {
  for (const std::size_t count : {6400u, 6401u, 6431u, 32u, 64u}) {
    const std::size_t most = count * 31 / 32;
    for (std::size_t keys = most - 1; keys <= most + 1; ++keys) {
      EXPECT_EQ(is_dense(count, keys), keys > most) << keys << " of " << count;
    }
  }
}

// However many values there are: 14 empty samples of 64 say that an index pays.
TEST(LosslessBorders, EmptySamplesOfADenseChunk) {
  for (std::size_t empty = 13; empty <= 15; ++empty) {
    Gradients gradients(2, Floats(kCount, 1.5f));
    for (Floats& gradient : gradients) {
      std::fill_n(gradient.begin() + 300, empty * kCount / 64, 0.0f);
    }
    LosslessByHand group("lossless", 2, kCount);
    group.step(gradients);
    EXPECT_EQ(group.counted(Count::chunks_dense), empty < 14 ? 1u : 0u) << empty;
    EXPECT_EQ(group.means[1], gradients[0]);
  }
}

}  // namespace
}  // namespace sluice::lossless
