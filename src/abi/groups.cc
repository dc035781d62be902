// The C functions over World and Group: our carriers run the rounds.
#include <fmt/format.h>

#include <algorithm>

#include "abi/edge.h"
#include "catalog/carriers.h"

using sluice::Nothing;
using sluice::Problem;
using sluice::Status;
using sluice::Verdict;
using sluice::abi::call;
using sluice::abi::check_pointers;
using sluice::abi::invalid;

struct sluice_world {
  std::shared_ptr<sluice::World> world;  // shared with the groups' handles
  std::uint32_t workers;
  std::uint32_t window;
};

// The group goes first, before what it uses.
struct sluice_group {
  std::shared_ptr<sluice::World> world;
  std::shared_ptr<const sluice::NamedCodec> codec;
  std::unique_ptr<sluice::Group> group;
};

namespace {

sluice::Checked<sluice_world> make_world(const char* carrier, std::uint32_t workers,
                                         std::uint32_t window) {
  SLUICE_TRY_ASSIGN(const sluice::CarrierInfo* const info, sluice::find_carrier(carrier));
  if (workers == 0 && info->launched == nullptr) {
    return invalid(
        fmt::format("workers is 0; carrier '{}' accepts 1 to {}", info->name, info->workers_max));
  }
  if (workers == 0) {
    SLUICE_TRY_ASSIGN(workers, info->launched());
  }
  sluice::WorldOptions options;
  options.workers = workers;
  if (window != 0) options.window = window;
  SLUICE_TRY_ASSIGN(auto world, info->make_world(options));
  return sluice_world{std::move(world), workers, options.window};
}

Verdict check_rank(const sluice_world& world, const sluice::GroupOptions& options) {
  const auto here = world.world->here();
  if (options.workers != world.workers) {
    return invalid(fmt::format("options.workers is {}; accepted: {}, as the world has",
                               options.workers, world.workers));
  }
  if (options.window > world.window) {
    return invalid(fmt::format("options.window is {}; accepted: at most {}, as the world has",
                               options.window, world.window));
  }
  if (std::find(here.begin(), here.end(), options.rank) == here.end()) {
    return invalid(fmt::format("rank {} does not live in this process; accepted: {}", options.rank,
                               fmt::join(here, ", ")));
  }
  return Nothing{};
}

Verdict outcome(const sluice::Group& group, const Status& status) {
  if (status) return Nothing{};
  const std::string cause = group.explain();
  return Problem{status.error().code, cause.empty() ? std::string(status.error().what) : cause};
}

// Of a step that began, after which the group is dead.
Verdict outcome_of_step(const sluice::Group& group, const Status& status) {
  Verdict verdict = outcome(group, status);
  if (!verdict) return sluice::abi::fatal(verdict.error());
  return verdict;
}

// A step that an exception stopped in the middle cannot go on.
class Attempt {
 public:
  explicit Attempt(sluice::Group& group) : group_(group) {}
  ~Attempt() {
    if (!ended_) group_.give_up();
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  void ended() { ended_ = true; }

 private:
  sluice::Group& group_;
  bool ended_ = false;
};

Verdict start(sluice_group* group, std::uint64_t step, const sluice_entry* entries,
              std::size_t count) {
  SLUICE_TRY(check_pointers({{group, "group"}}));
  SLUICE_TRY_ASSIGN(const auto parsed, sluice::abi::entries_from(entries, count));
  return outcome(*group->group, group->group->start(step, parsed));
}

Verdict check_between_steps(const sluice::Group& group, const char* what) {
  if (!group.is_running()) return Nothing{};
  return invalid(fmt::format("{} while a step is in flight; accepted: when it is finished", what));
}

}  // namespace

extern "C" {

sluice_code sluice_world_make(const char* carrier, uint32_t workers, uint32_t window,
                              sluice_world** world) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{carrier, "carrier"}, {world, "world"}}));
    SLUICE_TRY_ASSIGN(sluice_world made, make_world(carrier, workers, window));
    *world = std::make_unique<sluice_world>(std::move(made)).release();
    return Nothing{};
  });
}

void sluice_world_free(sluice_world* world) { std::unique_ptr<sluice_world>{world}; }

uint32_t sluice_world_workers(const sluice_world* world) {
  return world == nullptr ? 0 : world->workers;
}

size_t sluice_world_here(const sluice_world* world, const uint32_t** ranks) {
  if (world == nullptr || ranks == nullptr) return 0;
  const auto here = world->world->here();
  *ranks = here.data();
  return here.size();
}

sluice_code sluice_group_make(sluice_world* world, const sluice_codec* codec,
                              const sluice_options* options, const sluice_tensor* tensors,
                              size_t tensor_count, sluice_group** group) {
  const sluice::abi::Task task{__func__, sluice::abi::bytes_of(tensors, tensor_count),
                               "residuals, or a window of chunks"};
  return call(task, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{world, "world"}, {codec, "codec"}, {group, "group"}}));
    SLUICE_TRY_ASSIGN(const auto known, sluice::abi::read_sized("options", options));
    SLUICE_TRY_ASSIGN(auto parsed, sluice::abi::options_from(known));
    if (known.device != nullptr) {
      return invalid("options.device of a group; accepted: NULL, devices are of memories");
    }
    if (known.window == 0) parsed.window = world->window;
    SLUICE_TRY(check_rank(*world, parsed));
    SLUICE_TRY_ASSIGN(const auto listed, sluice::abi::tensors_from(tensors, tensor_count));
    auto made = std::make_unique<sluice_group>(sluice_group{world->world, codec->named, nullptr});
    SLUICE_TRY_ASSIGN(made->group,
                      sluice::Group::make(parsed, made->codec->spec, *made->codec->codec,
                                          world->world->port(parsed.rank), listed));
    *group = made.release();
    return Nothing{};
  });
}

void sluice_group_free(sluice_group* group) { std::unique_ptr<sluice_group>{group}; }

sluice_code sluice_group_start(sluice_group* group, uint64_t step, const sluice_entry* entries,
                               size_t entry_count) {
  return call({__func__}, [&] { return start(group, step, entries, entry_count); });
}

sluice_code sluice_group_advance(sluice_group* group, uint32_t* finished) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{group, "group"}, {finished, "finished"}}));
    Attempt attempt(*group->group);
    const auto moved = group->group->advance();
    attempt.ended();
    if (!moved) return outcome_of_step(*group->group, moved.error());
    *finished = *moved ? 1 : 0;
    return Nothing{};
  });
}

sluice_code sluice_group_reduce(sluice_group* group, uint64_t step, const sluice_entry* entries,
                                size_t entry_count) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(start(group, step, entries, entry_count));
    Attempt attempt(*group->group);
    const Status finished = group->group->finish();
    attempt.ended();
    return outcome_of_step(*group->group, finished);
  });
}

sluice_code sluice_group_stats(const sluice_group* group, sluice_stats* stats) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{group, "group"}}));
    return sluice::abi::write_sized("stats", sluice::abi::stats_from(group->group->stats()), stats);
  });
}

sluice_code sluice_group_save(const sluice_group* group, void* bytes, size_t capacity,
                              size_t* size) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{group, "group"}, {size, "size"}}));
    SLUICE_TRY(check_between_steps(*group->group, "save"));
    return sluice::abi::write_saved(group->group->memory(), bytes, capacity, size);
  });
}

sluice_code sluice_group_load(sluice_group* group, const void* bytes, size_t size) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{group, "group"}, {bytes, "bytes"}}));
    SLUICE_TRY(check_between_steps(*group->group, "load"));
    return group->group->load({static_cast<const std::byte*>(bytes), size});
  });
}

}  // extern "C"
