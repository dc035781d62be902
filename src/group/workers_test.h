// Workers with gradients of their own, for tests of what moves buckets.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "catalog/codecs.h"
#include "group/bucket.h"
#include "group/memory.h"

namespace sluice {

inline constexpr std::uint64_t kStep = 7;

inline std::vector<float> values(std::uint32_t rank, std::uint64_t tensor, std::size_t count) {
  std::vector<float> made(count);
  const RandomStream stream(mix(tensor, 99), Purpose::data, rank);
  for (std::size_t i = 0; i < count; ++i) {
    made[i] = static_cast<float>(static_cast<std::int32_t>(stream.word(i))) * 0x1p-34f;
  }
  return made;
}

// The choice of a codec of the catalogue.
inline Choice offered(Memory& memory, std::string_view spec) {
  NamedCodec named = std::move(*make_codec(spec));
  const auto choice =
      memory.offer(named.spec, std::shared_ptr<const Codec>(std::move(named.codec)));
  EXPECT_TRUE(choice.has_value()) << choice.error().message;
  return *choice;
}

// All workers of a job, each with its memory: tensors of one codec, and behind them two small ones
// that are exact.
struct Workers4 {
  explicit Workers4(std::string_view codec, std::vector<Tensor> shapes, GroupOptions options = {},
                    std::uint32_t workers = 4)
      : spec(codec), tensors(std::move(shapes)), coded(tensors.size()) {
    const std::vector<Tensor> small{{1000, 1, 777}, {1001, 3, 11}};
    options.workers = workers;
    options.chunk_count = 4096;
    for (options.rank = 0; options.rank < workers; ++options.rank) {
      auto memory = std::move(*Memory::make(options));
      const Choice choice = offered(*memory, spec);
      EXPECT_TRUE(memory->add(tensors, choice).has_value());
      EXPECT_TRUE(memory->add(small, offered(*memory, "f32")).has_value());
      memories.push_back(std::move(memory));
    }
    tensors.insert(tensors.end(), small.begin(), small.end());
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      gradients.emplace_back();
      for (const Tensor& tensor : tensors) {
        gradients.back().push_back(values(rank, tensor.id, tensor.count()));
      }
    }
    means = gradients;
  }

  // The entries of tensors [first, last); of all by default.
  [[nodiscard]] std::vector<BucketEntry> entries(std::size_t rank, std::size_t first = 0,
                                                 std::size_t last = 1u << 20) {
    std::vector<BucketEntry> made;
    for (std::size_t i = first; i < std::min(last, tensors.size()); ++i) {
      made.push_back({static_cast<std::uint32_t>(i), gradients[rank][i], means[rank][i]});
    }
    return made;
  }
  [[nodiscard]] std::vector<Tensor> coded_tensors() const {
    return {tensors.begin(), tensors.begin() + static_cast<std::ptrdiff_t>(coded)};
  }

  std::string_view spec;
  std::vector<Tensor> tensors;
  std::size_t coded;  // the first so many
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<std::vector<std::vector<float>>> gradients;  // by rank, by tensor
  std::vector<std::vector<std::vector<float>>> means;
};

}  // namespace sluice
