// The C functions over World and Group: our carriers run the rounds.
#include <fmt/format.h>

#include <algorithm>

#include "abi/edge.h"
#include "catalog/carriers.h"

using sluice::Nothing;
using sluice::Problem;
using sluice::Status;
using sluice::Verdict;
using sluice::abi::invalid;
using sluice::abi::report;

struct sluice_world {
  std::unique_ptr<sluice::World> world;
  std::uint32_t workers;
};

struct sluice_group {
  std::unique_ptr<sluice::Group> group;
};

namespace {

sluice::Checked<sluice_world> make_world(const char* carrier, std::uint32_t workers,
                                         std::uint32_t window) {
  if (carrier == nullptr) return sluice::abi::null("carrier", "the name of a carrier");
  SLUICE_TRY_ASSIGN(const sluice::CarrierInfo* const info, sluice::find_carrier(carrier));
  if (workers == 0 && info->launched == nullptr) {
    return invalid(fmt::format("workers is 0; carrier '{}' accepts 1 to {}", info->name,
                               info->workers_max));
  }
  if (workers == 0) {
    SLUICE_TRY_ASSIGN(workers, info->launched());
  }
  sluice::WorldOptions options;
  options.workers = workers;
  if (window != 0) options.window = window;
  SLUICE_TRY_ASSIGN(auto world, info->make_world(options));
  return sluice_world{std::move(world), workers};
}

Verdict check_rank(const sluice_world& world, const sluice::GroupOptions& options) {
  const auto here = world.world->here();
  if (options.workers != world.workers) {
    return invalid(fmt::format("options.workers is {}; accepted: {}, as the world has",
                               options.workers, world.workers));
  }
  if (std::find(here.begin(), here.end(), options.rank) == here.end()) {
    return invalid(fmt::format("rank {} does not live in this process; accepted: {}", options.rank,
                               fmt::join(here, ", ")));
  }
  return Nothing{};
}

sluice_code outcome(const sluice_group* group, const sluice::Error& error) {
  const std::string cause = group->group->explain();
  return report(Problem{error.code, cause.empty() ? std::string(error.what) : cause});
}

sluice_code outcome(const sluice_group* group, const Status& status) {
  return status ? report(Nothing{}) : outcome(group, status.error());
}

}  // namespace

extern "C" {

sluice_code sluice_world_make(const char* carrier, uint32_t workers, uint32_t window,
                              sluice_world** world) {
  if (world == nullptr) return report(sluice::abi::null("the output", "a pointer to fill"));
  auto made = make_world(carrier, workers, window);
  if (!made) return report(made.error());
  *world = std::make_unique<sluice_world>(std::move(*made)).release();
  return report(Nothing{});
}

void sluice_world_free(sluice_world* world) { std::unique_ptr<sluice_world>{world}; }

uint32_t sluice_world_workers(const sluice_world* world) { return world->workers; }

size_t sluice_world_here(const sluice_world* world, const uint32_t** ranks) {
  const auto here = world->world->here();
  *ranks = here.data();
  return here.size();
}

sluice_code sluice_group_make(sluice_world* world, const sluice_codec* codec,
                              const sluice_options* options, const sluice_tensor* tensors,
                              size_t tensor_count, sluice_group** group) {
  if (world == nullptr || codec == nullptr || group == nullptr ||
      (tensors == nullptr && tensor_count != 0)) {
    return report(sluice::abi::null("world, codec, tensors or output", "all four"));
  }
  const auto parsed = sluice::abi::options_from(options);
  if (!parsed) return report(parsed.error());
  if (const Verdict here = check_rank(*world, *parsed); !here) return report(here);
  auto made = sluice::Group::make(*parsed, codec->named.spec, *codec->named.codec,
                                  world->world->port(parsed->rank),
                                  sluice::abi::tensors_from(tensors, tensor_count));
  if (!made) return report(made.error());
  *group = std::make_unique<sluice_group>(sluice_group{std::move(*made)}).release();
  return report(Nothing{});
}

void sluice_group_free(sluice_group* group) { std::unique_ptr<sluice_group>{group}; }

sluice_code sluice_group_start(sluice_group* group, uint64_t step, const sluice_job* jobs,
                               size_t job_count) {
  const auto parsed = sluice::abi::jobs_from(jobs, job_count);
  if (!parsed) return report(parsed.error());
  return outcome(group, group->group->start(step, *parsed));
}

sluice_code sluice_group_advance(sluice_group* group, uint32_t* finished) {
  const auto moved = group->group->advance();
  if (!moved) return outcome(group, moved.error());
  *finished = *moved ? 1 : 0;
  return report(Nothing{});
}

sluice_code sluice_group_reduce(sluice_group* group, uint64_t step, const sluice_job* jobs,
                                size_t job_count) {
  const sluice_code started = sluice_group_start(group, step, jobs, job_count);
  return started == SLUICE_OK ? outcome(group, group->group->finish()) : started;
}

void sluice_group_stats(const sluice_group* group, sluice_stats* stats) {
  *stats = sluice::abi::stats_from(group->group->stats());
}

sluice_code sluice_group_save(const sluice_group* group, void* bytes, size_t capacity,
                              size_t* size) {
  const std::vector<std::byte> saved = group->group->save();
  *size = saved.size();
  if (capacity == 0) return report(Nothing{});
  if (bytes == nullptr || capacity < saved.size()) {
    return report(invalid(fmt::format("room for {} bytes; accepted: {} or more, or none", capacity,
                                      saved.size())));
  }
  std::copy(saved.begin(), saved.end(), static_cast<std::byte*>(bytes));
  return report(Nothing{});
}

sluice_code sluice_group_load(sluice_group* group, const void* bytes, size_t size) {
  if (bytes == nullptr) return report(sluice::abi::null("bytes", "what sluice_group_save wrote"));
  return report(group->group->load({static_cast<const std::byte*>(bytes), size}));
}

}  // extern "C"
