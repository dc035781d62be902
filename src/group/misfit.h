// The words about a job that does not fit its tensor.
#pragma once

#include <fmt/format.h>

#include <string>

#include "codec/chunk.h"

namespace sluice {

template <class Job>
std::string misfit(std::size_t index, const Job& job, const Tensor& tensor) {
  return fmt::format(
      "job {} does not fit: {} coordinates of gradient and {} of mean for tensor {} (id {:x}); "
      "accepted: {}, "
      "which is {} x {}",
      index, job.gradient.size(), job.mean.size(), job.tensor, tensor.id, tensor.count(),
      tensor.rows, tensor.cols);
}

}  // namespace sluice
