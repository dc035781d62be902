#include "group/group.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/float_environment.h"
#include "group/misfit.h"

namespace sluice {

Checked<std::unique_ptr<Group>> Group::make(const GroupOptions& options, std::string_view spec,
                                            const Codec& codec, Carrier& carrier,
                                            std::span<const Tensor> tensors) {
  SLUICE_TRY_ASSIGN(auto memory, Memory::make(options, spec, codec, tensors));
  return std::make_unique<Group>(Token{}, std::move(memory), carrier);
}

Group::Group(Token, std::unique_ptr<Memory> memory, Carrier& carrier)
    : memory_(std::move(memory)), carrier_(carrier) {
  tally_.resize(memory_->tally_count());
  in_step_.resize(memory_->tensors().size());
  reserve_flights();
}

Group::~Group() {
  if (running_) carrier_.abandon();
}

void Group::reserve_flights() {
  FlightSize size;
  const GroupOptions& options = memory_->options();
  for (const Tensor& tensor : memory_->tensors()) {
    const std::uint32_t whole = memory_->chunk_count(tensor);
    const auto tail = static_cast<std::uint32_t>(tensor.count() % whole);
    for (const std::uint32_t count : {whole, tail}) {
      if (count == 0 || count > tensor.count()) continue;
      size.cover(memory_->codec(),
                 {tensor, tensor.count() - count, count, options.rank, options.workers});
    }
  }
  for (std::uint32_t i = 0; i < options.window; ++i) {
    flights_.push_back(std::make_unique<Flight>(size));
  }
}

// A job of a step that is not begun for it; the group goes on.
Status Group::refuse(std::string explanation, const char* what) {
  explanation_ = std::move(explanation);
  return Error{Code::invalid_argument, 0, what};
}

Status Group::start(std::uint64_t step, std::span<const Job> jobs) {
  if (dead_) return Error{Code::unavailable, 0, "group: dead after an error"};
  explanation_.clear();
  if (running_) return Error{Code::invalid_argument, 0, "group: a step is in flight"};
  std::fill(in_step_.begin(), in_step_.end(), false);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const Job& job = jobs[i];
    if (job.tensor >= in_step_.size()) {
      return refuse(fmt::format("job {} does not fit: tensor {}; accepted: below {}", i, job.tensor,
                                in_step_.size()),
                    "group: a job of a tensor that is not there");
    }
    if (job.gradient.size() != tensor_of(job).count() || job.mean.size() != job.gradient.size()) {
      return refuse(misfit(i, job, tensor_of(job)), "group: a job does not fit its tensor");
    }
    // Two chunks of one tensor's residual in flight at once would overwrite each other.
    if (in_step_[job.tensor]) {
      return refuse(
          fmt::format("job {}: tensor {} is twice in the step; accepted: once", i, job.tensor),
          "group: a tensor is twice in the step");
    }
    in_step_[job.tensor] = true;
  }
  jobs_.assign(jobs.begin(), jobs.end());
  step_ = step;
  job_next_ = 0;
  offset_next_ = 0;
  running_ = true;
  return ok();
}

// Starts chunks while the window has room; true if any was.
Result<bool> Group::admit() {
  bool moved = false;
  while (job_next_ < jobs_.size()) {
    if (offset_next_ == tensor_of(jobs_[job_next_]).count()) {
      ++job_next_;
      offset_next_ = 0;
      continue;
    }
    // The window slides: no chunk starts before the one a window earlier is finished, so slots of
    // a carrier can be reused in turn.
    if (sequence_next_ >= sequence_base_ + options().window) break;
    Flight& flight = *flights_[sequence_next_ % options().window];
    if (flight.busy()) break;
    SLUICE_TRY(launch(flight));
    moved = true;
  }
  return moved;
}

Result<Nothing> Group::launch(Flight& flight) {
  const Job& job = jobs_[job_next_];
  const Tensor& tensor = tensor_of(job);
  const std::uint64_t count =
      std::min<std::uint64_t>(memory_->chunk_count(tensor), tensor.count() - offset_next_);
  const Chunk chunk =
      memory_->chunk(step_, job.tensor, offset_next_, job.gradient.subspan(offset_next_, count),
                     job.mean.subspan(offset_next_, count), tally_);
  const Ticket ticket{sequence_next_, memory_->digest(chunk), memory_->topic(chunk, step_)};
  ++sequence_next_;
  offset_next_ += count;
  const Status begun = flight.begin(memory_->codec(), chunk, ticket, carrier_, stats_);
  if (!begun) return fail(begun.error(), ticket);
  return Nothing{};
}

Result<bool> Group::advance() {
  if (dead_) return Error{Code::unavailable, 0, "group: dead after an error"};
  if (!running_) return true;
  const FloatEnvironment environment;
  while (true) {
    SLUICE_TRY_ASSIGN(bool moved, admit());
    for (const auto& flight : flights_) {
      if (!flight->busy()) continue;
      const Ticket ticket = flight->ticket();
      const Result<bool> went = flight->advance(carrier_, stats_);
      if (!went) return fail(went.error(), ticket);
      moved = moved || *went;
    }
    while (sequence_base_ < sequence_next_ &&
           !flights_[sequence_base_ % options().window]->busy()) {
      ++sequence_base_;
    }
    if (sequence_base_ == sequence_next_ && job_next_ == jobs_.size()) {
      end_step();
      return true;
    }
    if (!moved) return false;
  }
}

Status Group::finish(const std::atomic<bool>* stop) {
  constexpr std::chrono::nanoseconds kGlance = std::chrono::milliseconds(20);
  const auto deadline = std::chrono::steady_clock::now() + options().timeout;
  while (true) {
    SLUICE_TRY_ASSIGN(const bool finished, advance());
    if (finished) return ok();
    const std::chrono::nanoseconds left = deadline - std::chrono::steady_clock::now();
    const bool glances = stop != nullptr && left > kGlance;
    Status waited = Error{Code::timeout, 0, "step timed out"};
    if (left.count() > 0) waited = carrier_.wait(glances ? kGlance : left);
    if (!waited && glances && waited.error().code == Code::timeout) waited = ok();
    if (waited && stop != nullptr && stop->load()) waited = kElsewhere;
    if (!waited) return fail(waited.error(), flights_[sequence_base_ % options().window]->ticket());
  }
}

void Group::give_up() {
  dead_ = true;
  running_ = false;
  explanation_.clear();
  carrier_.abandon();
}

Error Group::fail(const Error& error, const Ticket& ticket) {
  dead_ = true;
  running_ = false;
  const std::string cause = carrier_.explain(ticket);
  explanation_ = fmt::format("step {}, exchange {}, worker {} of {}, codec {}: {} ({}){}{}", step_,
                             ticket.sequence, options().rank, options().workers, memory_->spec(),
                             error.what, name_of(error.code), cause.empty() ? "" : ": ", cause);
  carrier_.abandon();
  return error;
}

void Group::end_step() {
  running_ = false;
  memory_->count(tally_);
  memory_->end_step();
  std::fill(tally_.begin(), tally_.end(), std::uint64_t{0});
}

std::vector<std::byte> Group::save() const {
  SLUICE_ASSERT(!running_);
  return memory_->save();
}

Verdict Group::load(std::span<const std::byte> saved) {
  SLUICE_ASSERT(!running_);
  if (dead_) return Problem{Code::unavailable, "group: dead after an error; accepted: a new one"};
  return memory_->load(saved);
}

}  // namespace sluice
