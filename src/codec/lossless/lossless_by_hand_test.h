// Steps of codec lossless by hand, and what they count.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "codec/lossless/lossless_settings.h"
#include "tests/support/group_by_hand.h"
#include "tests/support/paper_sum.h"
#include "tests/support/sparse_job.h"

namespace sluice::lossless {

using support::all_but;
using support::bits_of;
using support::Bytes;
using support::Floats;
using support::Gradients;
using support::Legs;
using support::Lie;
using support::OwnAnswer;
using support::WhoCounts;

// A gradient with these values, zero elsewhere.
inline Floats sparse(std::size_t count,
                     std::initializer_list<std::pair<std::size_t, float>> values) {
  Floats gradient(count, 0.0f);
  for (const auto& [at, value] : values) gradient[at] = value;
  return gradient;
}

// The mean of these workers' exact sums.
inline Floats paper_mean(const Gradients& gradients, const std::vector<std::uint32_t>& ranks) {
  Floats mean(gradients[0].size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    support::PaperSum sum;
    for (const std::uint32_t rank : ranks) sum.add(gradients[rank][i]);
    mean[i] = sum.mean(static_cast<std::uint32_t>(ranks.size()));
  }
  return mean;
}

// Coordinates that a worker has.
inline std::uint32_t union_size(const Gradients& gradients) {
  std::uint32_t keys = 0;
  for (std::size_t i = 0; i < gradients[0].size(); ++i) {
    bool has = false;
    for (const Floats& gradient : gradients) has = has || gradient[i] != 0;
    keys += has ? 1 : 0;
  }
  return keys;
}

inline bool is(const support::Went& went, Op op, unsigned bits, std::uint32_t count) {
  return went.what.op == op && went.what.bits == bits && went.what.count == count;
}

// Workers and what a group would keep for them.
class LosslessByHand : public support::GroupByHand {
 public:
  LosslessByHand(std::string_view spec, std::uint32_t n, const Tensor& tensor,
                 bool feedback = false)
      : GroupByHand(std::move(make_codec(spec)->codec), n, tensor, feedback) {
    key = 11;
  }
  LosslessByHand(std::string_view spec, std::uint32_t n, std::size_t count, bool feedback = false)
      : LosslessByHand(spec, n, Tensor{1, 1, count}, feedback) {}

  [[nodiscard]] std::uint64_t counted(Count what, std::uint32_t rank = 0) const {
    return tallies[rank][static_cast<std::size_t>(what)];
  }
};

}  // namespace sluice::lossless
