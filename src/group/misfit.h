// The words about an entry that does not fit its tensor.
#pragma once

#include <fmt/format.h>

#include <string>

#include "codec/chunk.h"

namespace sluice {

// `index` is of the entry in its bucket. Names what the entry has and what is accepted.
template <class BucketEntry>
std::string misfit(std::size_t index, const BucketEntry& entry, const Tensor& tensor,
                   bool brings_rows) {
  const std::string accepted =
      brings_rows ? fmt::format("rows of {}, at most {} of them", tensor.cols, tensor.rows)
                  : fmt::format("{}, which is {} x {}", tensor.count(), tensor.rows, tensor.cols);
  return fmt::format(
      "entry {} does not fit: {} coordinates of gradient and {} of mean for tensor {} (id {:x}); "
      "accepted: {}",
      index, entry.gradient.size(), entry.mean.size(), entry.tensor, tensor.id, accepted);
}

}  // namespace sluice
