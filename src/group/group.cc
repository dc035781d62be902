#include "group/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/float_environment.h"
#include "base/random.h"

namespace sluice {
namespace {

Problem invalid(std::string message) { return Problem{Code::invalid_argument, std::move(message)}; }

std::uint64_t digest_of(std::string_view text, std::uint64_t digest) {
  for (const char c : text) digest = mix(digest, static_cast<unsigned char>(c));
  return digest;
}

Verdict check_options(const GroupOptions& options) {
  if (options.workers < 1 || options.workers > kWorkersMax) {
    return invalid(fmt::format("{} workers; accepted: 1 to {}", options.workers, kWorkersMax));
  }
  if (options.rank >= options.workers) {
    return invalid(fmt::format("rank {} of {} workers; accepted: 0 to {}", options.rank,
                               options.workers, options.workers - 1));
  }
  if (options.window < 1 || options.window > 1024) {
    return invalid(fmt::format("window {}; accepted: 1 to 1024", options.window));
  }
  if (options.chunk_count < 1 || options.chunk_count > kLanesMax) {
    return invalid(
        fmt::format("chunks of {} coordinates; accepted: 1 to {}", options.chunk_count, kLanesMax));
  }
  return Nothing{};
}

Verdict check_tensors(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    const std::uint64_t most = std::uint64_t{1} << 40;
    if (tensor.rows > most || (tensor.rows != 0 && tensor.cols > most / tensor.rows)) {
      return invalid(fmt::format("tensor {:x} of {} x {} coordinates; accepted: at most 2^40",
                                 tensor.id, tensor.rows, tensor.cols));
    }
  }
  return Nothing{};
}

}  // namespace

Checked<std::unique_ptr<Group>> Group::make(const GroupOptions& options, std::string_view spec,
                                            const Codec& codec, Carrier& carrier,
                                            std::span<const Tensor> tensors) {
  SLUICE_TRY(check_options(options));
  SLUICE_TRY(check_tensors(tensors));
  SLUICE_TRY(check_feedback(options.feedback, codec.traits(options.workers), spec));
  SLUICE_TRY(codec.accepts(tensors, options.workers));
  return std::make_unique<Group>(Token{}, options, spec, codec, carrier, tensors);
}

Group::Group(Token, const GroupOptions& options, std::string_view spec, const Codec& codec,
             Carrier& carrier, std::span<const Tensor> tensors)
    : options_(options),
      spec_(spec),
      codec_(codec),
      carrier_(carrier),
      tensors_(tensors.begin(), tensors.end()),
      feedback_(options.feedback, tensors) {
  const Traits traits = codec.traits(options.workers);
  model_.resize(traits.model_size);
  tally_.resize(traits.tally_count);
  for (const Tensor& tensor : tensors_) {
    states_.emplace_back(codec.plan(tensor, options.workers).state_size);
  }
  in_step_.resize(tensors_.size());
  reserve_flights();
}

Group::~Group() {
  if (running_) carrier_.abandon();
}

// Chunks follow the tensor and the codec's plan, never threads or buckets.
std::uint32_t Group::chunk_count(const Tensor& tensor) const {
  return fit_chunk(codec_.plan(tensor, options_.workers), options_.chunk_count);
}

void Group::reserve_flights() {
  FlightSize size;
  for (const Tensor& tensor : tensors_) {
    const std::uint32_t whole = chunk_count(tensor);
    const auto tail = static_cast<std::uint32_t>(tensor.count() % whole);
    for (const std::uint32_t count : {whole, tail}) {
      if (count == 0 || count > tensor.count()) continue;
      size.cover(codec_, {tensor, tensor.count() - count, count, options_.rank, options_.workers});
    }
  }
  for (std::uint32_t i = 0; i < options_.window; ++i) {
    flights_.push_back(std::make_unique<Flight>(size));
  }
}

Status Group::start(std::uint64_t step, std::span<const Job> jobs) {
  if (dead_) return Error{Code::unavailable, 0, "group: dead after an error"};
  if (running_) return Error{Code::invalid_argument, 0, "group: a step is in flight"};
  std::fill(in_step_.begin(), in_step_.end(), false);
  for (const Job& job : jobs) {
    if (job.tensor >= tensors_.size() || job.gradient.size() != tensors_[job.tensor].count() ||
        job.mean.size() != job.gradient.size()) {
      return Error{Code::invalid_argument, 0, "group: a job does not fit its tensor"};
    }
    // Two chunks of one tensor's residual in flight at once would overwrite each other.
    if (in_step_[job.tensor]) {
      return Error{Code::invalid_argument, 0, "group: a tensor is twice in the step"};
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
    const Tensor& tensor = tensors_[jobs_[job_next_].tensor];
    if (offset_next_ == tensor.count()) {
      ++job_next_;
      offset_next_ = 0;
      continue;
    }
    // The window slides: no chunk starts before the one a window earlier is finished, so slots of
    // a carrier can be reused in turn.
    if (sequence_next_ >= sequence_base_ + options_.window) break;
    Flight& flight = *flights_[sequence_next_ % options_.window];
    if (flight.busy()) break;
    SLUICE_TRY(launch(flight));
    moved = true;
  }
  return moved;
}

Result<Nothing> Group::launch(Flight& flight) {
  const Job& job = jobs_[job_next_];
  const Tensor& tensor = tensors_[job.tensor];
  const auto count = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(chunk_count(tensor), tensor.count() - offset_next_));
  Chunk chunk;
  chunk.piece = {tensor, offset_next_, count, options_.rank, options_.workers};
  chunk.key = chunk_key(options_.seed, step_, tensor.id);
  chunk.gradient = job.gradient.subspan(offset_next_, count);
  chunk.mean = job.mean.subspan(offset_next_, count);
  const auto residual = feedback_.residual(job.tensor);
  if (!residual.empty()) chunk.residual = residual.subspan(offset_next_, count);
  chunk.state = states_[job.tensor];
  chunk.model = model_;
  chunk.tally = tally_;
  Ticket ticket{sequence_next_, mix(identity(), chunk.key)};
  ticket.digest = mix(mix(ticket.digest, offset_next_), count);
  ++sequence_next_;
  offset_next_ += count;
  const Status begun = flight.begin(codec_, chunk, ticket, carrier_, stats_);
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
    while (sequence_base_ < sequence_next_ && !flights_[sequence_base_ % options_.window]->busy()) {
      ++sequence_base_;
    }
    if (sequence_base_ == sequence_next_ && job_next_ == jobs_.size()) {
      end_step();
      return true;
    }
    if (!moved) return false;
  }
}

Status Group::finish() {
  const auto deadline = std::chrono::steady_clock::now() + options_.timeout;
  while (true) {
    SLUICE_TRY_ASSIGN(const bool finished, advance());
    if (finished) return ok();
    const auto left = deadline - std::chrono::steady_clock::now();
    const Status waited =
        left.count() <= 0 ? Status(Error{Code::timeout, 0, "step timed out"}) : carrier_.wait(left);
    if (!waited) return fail(waited.error(), flights_[sequence_base_ % options_.window]->ticket());
  }
}

Error Group::fail(const Error& error, const Ticket& ticket) {
  dead_ = true;
  running_ = false;
  const std::string cause = carrier_.explain(ticket);
  explanation_ = fmt::format("step {}, exchange {}, worker {} of {}: {} ({}){}{}", step_,
                             ticket.sequence, options_.rank, options_.workers, error.what,
                             name_of(error.code), cause.empty() ? "" : ": ", cause);
  carrier_.abandon();
  return error;
}

void Group::end_step() {
  running_ = false;
  if (!tally_.empty() || !model_.empty()) codec_.end_step(tally_, model_);
  std::fill(tally_.begin(), tally_.end(), std::uint64_t{0});
}

std::uint64_t Group::identity() const {
  return digest_of(spec_, mix(options_.workers, options_.chunk_count));
}

}  // namespace sluice
