// Workers with gradients of their own, for tests of what moves parcels.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "catalog/codecs.h"
#include "group/cargo.h"
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

// All workers of a job, each with its memory.
struct Workers4 {
  explicit Workers4(std::string_view spec, std::vector<Tensor> shapes, GroupOptions options = {},
                    std::uint32_t workers = 4)
      : codec(std::move(*make_codec(spec))),
        exact(std::move(*make_codec("f32"))),
        tensors(std::move(shapes)) {
    options.workers = workers;
    options.chunk_count = 4096;
    for (options.rank = 0; options.rank < workers; ++options.rank) {
      memories.push_back(
          std::move(*Memory::make(options, codec.spec, *codec.codec, tensors)));
      gradients.emplace_back();
      for (const Tensor& tensor : tensors) {
        gradients.back().push_back(values(options.rank, tensor.id, tensor.count()));
      }
      loose.push_back(values(options.rank, 1000, 777));
    }
    means = gradients;
    loose_means = loose;
  }

  [[nodiscard]] std::vector<Job> jobs(std::size_t rank) {
    std::vector<Job> made;
    for (std::uint32_t i = 0; i < tensors.size(); ++i) {
      made.push_back({i, gradients[rank][i], means[rank][i]});
    }
    made.push_back({kExactTensor, loose[rank], loose_means[rank]});
    return made;
  }

  NamedCodec codec;
  NamedCodec exact;
  std::vector<Tensor> tensors;
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<std::vector<std::vector<float>>> gradients;  // by rank, by tensor
  std::vector<std::vector<std::vector<float>>> means;
  std::vector<std::vector<float>> loose;  // exact ones
  std::vector<std::vector<float>> loose_means;
};

}  // namespace sluice
