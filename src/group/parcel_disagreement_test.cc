// Ranks that are at different parcels of equal size: all of them must notice, or those that do not
// take sums of two things for a mean.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <string>

#include "group/parcel.h"
#include "group/parcel_test.h"

namespace sluice {
namespace {

using Parcels = std::vector<std::unique_ptr<Parcel>>;
using Bytes = std::vector<std::byte>;

// Maxima over all ranks, as an all-reduce gives them to everybody.
std::vector<Status> all_reduce(const Parcels& parcels) {
  const std::size_t count = parcels[0]->fusion().native_count();
  std::vector<std::int32_t> largest(count, std::numeric_limits<std::int32_t>::min());
  std::vector<std::int32_t> lanes(count);
  for (const auto& parcel : parcels) {
    parcel->fusion().pack_native(lanes);
    for (std::size_t i = 0; i < count; ++i) largest[i] = std::max(largest[i], lanes[i]);
  }
  std::vector<Status> said;
  for (const auto& parcel : parcels) said.push_back(parcel->fusion().spread_native(largest));
  return said;
}

// The first collective of a step, in which ranks show each other what they reduce; what each says.
std::vector<Status> meet(const Parcels& parcels) {
  std::vector<Bytes> sent;
  for (const auto& parcel : parcels) {
    EXPECT_TRUE(parcel->fusion().seal());
    EXPECT_EQ(parcel->fusion().native(), parcels[0]->fusion().native());
  }
  if (parcels[0]->fusion().native() == Fusion::Native::max) return all_reduce(parcels);
  for (const auto& parcel : parcels) {
    const auto sizes = parcel->fusion().send_sizes();
    parcel->fusion().pack(
        sent.emplace_back(std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0})));
  }
  std::vector<Status> said;
  for (std::size_t target = 0; target < parcels.size(); ++target) {
    std::vector<std::span<const std::byte>> received;
    for (std::size_t source = 0; source < parcels.size(); ++source) {
      const auto sizes = parcels[source]->fusion().send_sizes();
      const auto at =
          std::accumulate(sizes.begin(), sizes.begin() + std::ptrdiff_t(target), std::uint64_t{0});
      received.push_back(std::span(sent[source]).subspan(at, sizes[target]));
    }
    said.push_back(parcels[target]->fusion().combine(received));
  }
  return said;
}

struct Case {
  std::string_view spec;
  std::uint64_t rows = 0;  // of 4096, a chunk each
  bool whole = false;      // everybody gets everything
  Fusion::Native native = Fusion::Native::none;
};

constexpr Case kCases[] = {
    {"f32", 4, false},
    {"tide", 2, true},
    {"thc:rotation=16", 44, false, Fusion::Native::max},
};

// Two tensors of equal shape; a parcel is one of them, or half of one.
class ParcelDisagreement : public ::testing::TestWithParam<Case> {
 protected:
  ParcelDisagreement()
      : job_(GetParam().spec, {{11, GetParam().rows, 4096}, {12, GetParam().rows, 4096}}) {}

  // Every rank starts with `usual` but for `odd_rank`, which starts with `odd`.
  void expect_seen_by_all(const ParcelOrder& usual, const ParcelOrder& odd, bool other_tensor) {
    for (std::size_t odd_rank = 0; odd_rank < 4; ++odd_rank) {
      SCOPED_TRACE("rank " + std::to_string(odd_rank));
      Parcels parcels;
      for (std::size_t rank = 0; rank < 4; ++rank) {
        const bool is_odd = rank == odd_rank;
        const std::uint32_t tensor = is_odd && other_tensor ? 1 : 0;
        const Job job{tensor, job_.gradients[rank][tensor], job_.means[rank][tensor]};
        parcels.push_back(std::make_unique<Parcel>(*job_.memories[rank], *job_.exact.codec));
        ASSERT_TRUE(parcels.back()->begin(is_odd ? odd : usual, {&job, 1}));
      }
      const std::vector<Status> said = meet(parcels);
      EXPECT_EQ(parcels[0]->fusion().whole(), GetParam().whole);
      EXPECT_EQ(parcels[0]->fusion().native(), GetParam().native);
      for (std::size_t rank = 0; rank < 4; ++rank) {
        ASSERT_FALSE(said[rank].has_value()) << "not seen by rank " << rank;
        EXPECT_EQ(said[rank].error().code, Code::mismatch);
        EXPECT_EQ(parcels[rank]->advance().error().code, Code::mismatch) << rank;
        const std::string why = parcels[rank]->explain(said[rank].error());
        const ParcelOrder& mine = rank == odd_rank ? odd : usual;
        EXPECT_EQ(why.rfind(fmt::format("step {}, parcel {}, worker {} of 4, codec ", mine.step,
                                        mine.sequence, rank),
                            0),
                  0u)
            << why;
      }
    }
  }

  Workers4 job_;
};

TEST_P(ParcelDisagreement, AnotherTensorOfTheSameShape) {
  expect_seen_by_all({.step = 1}, {.step = 1}, true);
}

TEST_P(ParcelDisagreement, AnotherPartOfTheSameTensor) {
  expect_seen_by_all({.step = 1, .part = 0, .parts = 2}, {.step = 1, .part = 1, .parts = 2}, false);
}

TEST_P(ParcelDisagreement, AnotherStep) { expect_seen_by_all({.step = 1}, {.step = 2}, false); }

TEST_P(ParcelDisagreement, AnotherNumber) {
  expect_seen_by_all({.step = 1, .sequence = 4}, {.step = 1, .sequence = 5}, false);
}

INSTANTIATE_TEST_SUITE_P(Ways, ParcelDisagreement, ::testing::ValuesIn(kCases),
                         [](const auto& row) {
                           if (row.param.native != Fusion::Native::none) return "native";
                           return row.param.whole ? "whole" : "cut";
                         });

}  // namespace
}  // namespace sluice
