#include "group/crew.h"

#include <fmt/format.h>

#include <thread>

#include "base/limits.h"

namespace sluice {
namespace {

Problem problem_of(const Group& group, const Error& error) {
  const std::string cause = group.explain();
  return Problem{error.code, cause.empty() ? std::string(error.what) : cause};
}

Verdict run_threads(std::span<const std::unique_ptr<Group>> groups, std::uint64_t step,
                    const std::function<std::vector<Job>(std::uint32_t rank)>& jobs) {
  std::vector<Error> errors(groups.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < groups.size(); ++rank) {
    threads.emplace_back([&, rank] {
      Group& group = *groups[rank];
      const std::vector<Job> mine = jobs(static_cast<std::uint32_t>(rank));
      const Status started = group.start(step, mine);
      const Status finished = started ? group.finish() : started;
      if (!finished) errors[rank] = finished.error();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t rank = 0; rank < groups.size(); ++rank) {
    if (errors[rank].code != Code::ok) return problem_of(*groups[rank], errors[rank]);
  }
  return Nothing{};
}

Verdict run_stepped(std::span<const std::unique_ptr<Group>> groups, std::uint64_t step,
                    const std::function<std::vector<Job>(std::uint32_t rank)>& jobs) {
  for (std::size_t rank = 0; rank < groups.size(); ++rank) {
    const std::vector<Job> mine = jobs(static_cast<std::uint32_t>(rank));
    if (const Status started = groups[rank]->start(step, mine); !started) {
      return problem_of(*groups[rank], started.error());
    }
  }
  // Nothing else can happen while this thread is the only one, so two idle rounds are a hang.
  for (std::uint64_t idle = 0; idle < 2; ++idle) {
    bool all_finished = true;
    for (const auto& group : groups) {
      const std::uint64_t before = group->stats().rounds + group->stats().chunks;
      const Result<bool> finished = group->advance();
      if (!finished) return problem_of(*group, finished.error());
      all_finished = all_finished && *finished;
      if (group->stats().rounds + group->stats().chunks != before) idle = 0;
    }
    if (all_finished) return Nothing{};
  }
  return Problem{Code::timeout, "the workers wait for each other and none can go on"};
}

}  // namespace

Crew crew_for(std::uint32_t workers) {
  return workers <= kWorkerThreadsMax ? Crew::threads : Crew::stepped;
}

Verdict run_step(Crew crew, std::span<const std::unique_ptr<Group>> groups, std::uint64_t step,
                 const std::function<std::vector<Job>(std::uint32_t rank)>& jobs) {
  return crew == Crew::threads ? run_threads(groups, step, jobs) : run_stepped(groups, step, jobs);
}

}  // namespace sluice
