// sluice_reduce_local: all workers of a job are arrays of this process.
#include <algorithm>
#include <string>
#include <vector>

#include "abi/edge.h"
#include "base/limits.h"
#include "base/result.h"
#include "catalog/carriers.h"
#include "catalog/codecs.h"
#include "group/fleet.h"
#include "group/group.h"

namespace {

using namespace sluice;  // NOLINT(google-build-using-namespace): the file is the C edge of it

using sluice::abi::invalid;

struct Request {
  std::string_view codec;
  std::uint32_t workers;
  std::uint64_t count;
  std::span<const float* const> gradients;
  std::uint64_t seed;
  std::uint64_t step;
};

// Everything is of this process: wrong bytes and ranks that disagree are nobody's outside.
Verdict step_outcome(Verdict stepped) {
  if (stepped) return stepped;
  const Code code = stepped.error().code;
  const bool is_of_others = code == Code::malformed || code == Code::mismatch;
  return is_of_others ? Problem{Code::lost, stepped.error().message}
                      : sluice::abi::fatal(stepped.error());
}

Verdict reduce_local(const Request& request, std::span<float> mean) {
  SLUICE_TRY_ASSIGN(const NamedCodec codec, make_codec(request.codec));
  // All workers read their gradients to the end: only then may the mean be one of them. At once, so
  // that what is too much is refused before any of it is touched.
  std::vector<float> means(request.workers * request.count);
  FleetOptions options;
  options.make_world = local::kInfo.make_world;
  options.group.workers = request.workers;
  options.group.seed = request.seed;
  options.group.chunk_count = chunk_count_of_one_call(codec.codec->traits(request.workers));
  const Tensor tensor{0, 1, request.count};
  SLUICE_TRY_ASSIGN(const auto fleet, Fleet::make(options, codec, std::span(&tensor, 1)));
  SLUICE_TRY(step_outcome(fleet->step(request.step, [&](std::uint32_t rank) {
    return std::vector<BucketEntry>{
        {0,
         {request.gradients[rank], request.count},
         std::span(means).subspan(rank * request.count, request.count)}};
  })));
  std::copy_n(means.begin(), request.count, mean.begin());
  return Nothing{};
}

Verdict check_reduce(const char* codec, std::uint32_t workers, std::uint64_t count,
                     const float* const* gradients, const float* mean) {
  if (codec == nullptr) return invalid("codec is NULL; accepted: a codec SPEC");
  if (workers < 1 || workers > kWorkersMax) {
    return invalid("workers is " + std::to_string(workers) + "; accepted: 1 to 4096");
  }
  if (count > std::uint64_t{1} << 40) {
    return invalid("count is " + std::to_string(count) + "; accepted: at most 2^40");
  }
  SLUICE_TRY(sluice::abi::check_pointers({{gradients, "gradients"}}));
  SLUICE_TRY(sluice::abi::check_array(mean, count, "mean"));
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    if (gradients[rank] == nullptr && count != 0) {
      return invalid("gradients[" + std::to_string(rank) +
                     "] is NULL; accepted: an array of count floats");
    }
  }
  return Nothing{};
}

}  // namespace

extern "C" {

sluice_code sluice_reduce_local(const char* codec, uint32_t workers, uint64_t count,
                                const float* const* gradients, uint64_t seed, uint64_t step,
                                float* mean) {
  // Checked before it can overflow anything but this number of a message.
  const sluice::abi::Task task{__func__, sizeof(float) * count * workers,
                               "the means of all workers"};
  return sluice::abi::call(task, [&]() -> Verdict {
    SLUICE_TRY(check_reduce(codec, workers, count, gradients, mean));
    const Request request{codec, workers, count, {gradients, workers}, seed, step};
    return reduce_local(request, {mean, static_cast<std::size_t>(count)});
  });
}

}  // extern "C"
