// The C functions of sluice/sluice.h over group.
#include <sluice/sluice.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "catalog/carriers.h"
#include "catalog/codecs.h"
#include "group/crew.h"
#include "group/group.h"

namespace {

using namespace sluice;  // NOLINT(google-build-using-namespace): the file is the C edge of it

thread_local std::string t_last_error;

sluice_code report(const Verdict& verdict) {
  t_last_error = verdict ? std::string() : verdict.error().message;
  if (verdict) return SLUICE_OK;
  return verdict.error().code == Code::invalid_argument ? SLUICE_INVALID_ARGUMENT : SLUICE_FAILED;
}

Problem invalid(std::string message) { return Problem{Code::invalid_argument, std::move(message)}; }

struct Request {
  std::string_view codec;
  std::uint32_t workers;
  std::uint64_t count;
  std::span<const float* const> gradients;
  std::uint64_t seed;
  std::uint64_t step;
};

Verdict reduce_local(const Request& request, std::span<float> mean) {
  SLUICE_TRY_ASSIGN(const NamedCodec codec, make_codec(request.codec));
  const Crew crew = crew_for(request.workers);
  WorldOptions world_options;
  world_options.workers = request.workers;
  world_options.window = crew == Crew::threads ? 4 : 1;
  SLUICE_TRY_ASSIGN(const auto world, local::make_world(world_options));
  const Tensor tensor{0, 1, request.count};
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<std::vector<float>> means(request.workers);
  for (std::uint32_t rank = 0; rank < request.workers; ++rank) {
    GroupOptions options;
    options.rank = rank;
    options.workers = request.workers;
    options.seed = request.seed;
    options.window = world_options.window;
    SLUICE_TRY_ASSIGN(auto group, Group::make(options, codec.spec, *codec.codec, world->port(rank),
                                              std::span(&tensor, 1)));
    groups.push_back(std::move(group));
    means[rank].resize(request.count);
  }
  SLUICE_TRY(run_step(crew, groups, request.step, [&](std::uint32_t rank) {
    return std::vector<Job>{{0, {request.gradients[rank], request.count}, means[rank]}};
  }));
  std::copy(means[0].begin(), means[0].end(), mean.begin());
  return Nothing{};
}

// Null-terminated copies of the names, made once.
const std::array<std::string, kCodecs.size()>& codec_names() {
  static const auto names = [] {
    std::array<std::string, kCodecs.size()> made;
    std::transform(kCodecs.begin(), kCodecs.end(), made.begin(),
                   [](const Info& info) { return std::string(info.name); });
    return made;
  }();
  return names;
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
  if (gradients == nullptr || (mean == nullptr && count != 0)) {
    return invalid("gradients or mean is NULL; accepted: arrays of count floats");
  }
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

const char* sluice_version(void) { return SLUICE_VERSION; }

uint32_t sluice_abi_version(void) { return SLUICE_ABI_VERSION; }

size_t sluice_codec_count(void) { return kCodecs.size(); }

const char* sluice_codec_name(size_t index) {
  return index < kCodecs.size() ? codec_names()[index].c_str() : nullptr;
}

const char* sluice_last_error(void) { return t_last_error.c_str(); }

sluice_code sluice_reduce_local(const char* codec, uint32_t workers, uint64_t count,
                                const float* const* gradients, uint64_t seed, uint64_t step,
                                float* mean) {
  const Verdict checked = check_reduce(codec, workers, count, gradients, mean);
  if (!checked) return report(checked);
  const Request request{codec, workers, count, {gradients, workers}, seed, step};
  return report(reduce_local(request, {mean, static_cast<std::size_t>(count)}));
}

}  // extern "C"
