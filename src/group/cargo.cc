#include "group/cargo.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/bytes.h"
#include "base/random.h"
#include "group/flight.h"
#include "group/misfit.h"

namespace sluice {
namespace {

std::uint64_t digest_of(const Chunk& chunk) {
  std::uint64_t digest = mix(chunk.piece.tensor.id, chunk.piece.offset);
  // Four chains, because one would wait for its own multiplications.
  std::array<std::uint64_t, 4> chains{1, 2, 3, 4};
  std::size_t i = 0;
  for (; i + 4 <= chunk.mean.size(); i += 4) {
    for (std::size_t k = 0; k < 4; ++k) {
      chains[k] =
          (chains[k] ^ std::bit_cast<std::uint32_t>(chunk.mean[i + k])) * 0x9e3779b97f4a7c15u;
      chains[k] ^= chains[k] >> 32;
    }
  }
  for (; i < chunk.mean.size(); ++i) {
    digest = mix(digest, std::bit_cast<std::uint32_t>(chunk.mean[i]));
  }
  for (const std::uint64_t chain : chains) digest = mix(digest, chain);
  return digest;
}

bool is_loose(const Job& job) { return job.tensor == kExactTensor || job.tensor == kSparseTensor; }

std::uint64_t count_infinite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000u;
  std::uint32_t count = 0;
  for (const float value : values) {
    count += (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1u : 0u;
  }
  return count;
}

}  // namespace

Cargo::Cargo(Memory& memory, const Codec& exact, const Codec* sparse)
    : memory_(memory), exact_(exact), sparse_(sparse), tally_(memory.tally_count()) {
  if (sparse != nullptr) sparse_tally_.resize(sparse->traits(memory.options().workers).tally_count);
}

Verdict Cargo::load(const ParcelOrder& order, std::span<const Job> jobs) {
  order_ = order;
  jobs_.assign(jobs.begin(), jobs.end());
  plan_.clear();
  SLUICE_TRY(check());
  report_ = {};
  std::fill(tally_.begin(), tally_.end(), std::uint64_t{0});
  plan();
  return Nothing{};
}

Tensor Cargo::tensor_of(const Job& job) const {
  if (is_loose(job)) return {.id = job.tensor, .rows = 1, .cols = job.gradient.size()};
  return memory_.tensors()[job.tensor];
}

const Codec& Cargo::codec_of(const Job& job) const {
  if (job.tensor == kExactTensor) return exact_;
  return job.tensor == kSparseTensor ? *sparse_ : memory_.codec();
}

Verdict Cargo::check() const {
  const auto invalid = [](std::string message) {
    return Problem{Code::invalid_argument, std::move(message)};
  };
  if (order_.parts < 1 || order_.part >= order_.parts) {
    return invalid(fmt::format("parcel: part {} of {}; accepted: a part below the parts",
                               order_.part, order_.parts));
  }
  std::vector<bool> in_parcel(memory_.tensors().size());
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const Job& job = jobs_[i];
    if (job.tensor == kSparseTensor && sparse_ == nullptr) {
      return invalid(fmt::format("job {}: a sparse job; accepted: with a codec for those", i));
    }
    if (!is_loose(job) && job.tensor >= memory_.tensors().size()) {
      return invalid(
          fmt::format("job {} does not fit: tensor {}; accepted: below {}, or exact, or sparse", i,
                      job.tensor, memory_.tensors().size()));
    }
    if (job.gradient.size() != tensor_of(job).count() || job.mean.size() != job.gradient.size()) {
      return invalid(misfit(i, job, tensor_of(job)));
    }
    if (is_loose(job)) continue;
    // Two chunks of one tensor's residual in flight at once would overwrite each other.
    if (in_parcel[job.tensor]) {
      return invalid(
          fmt::format("job {}: tensor {} is twice in the parcel; accepted: once", i, job.tensor));
    }
    in_parcel[job.tensor] = true;
  }
  return Nothing{};
}

// The chunks of all jobs, laid end to end, and of them those of this part.
void Cargo::plan() {
  plan_.clear();
  states_.assign(jobs_.size(), {});
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const Tensor tensor = tensor_of(jobs_[i]);
    const Codec& codec = codec_of(jobs_[i]);
    const Plan plan = codec.plan(tensor, memory_.options().workers);
    const std::uint64_t whole = fit_chunk(plan, memory_.options().chunk_count);
    if (is_loose(jobs_[i])) states_[i].resize(plan.state_size);
    // At once, so that what is too much is refused before any of it is touched.
    const std::size_t needed =
        plan_.size() + static_cast<std::size_t>(divide_up(tensor.count(), whole));
    if (needed > plan_.capacity()) plan_.reserve(std::max(needed, 2 * plan_.capacity()));
    for (std::uint64_t at = 0; at < tensor.count(); at += whole) {
      plan_.push_back({&codec, i, at, std::min(whole, tensor.count() - at), false});
    }
  }
  const std::size_t first = plan_.size() * order_.part / order_.parts;
  const std::size_t last = plan_.size() * (order_.part + std::size_t{1}) / order_.parts;
  plan_.erase(plan_.begin() + static_cast<std::ptrdiff_t>(last), plan_.end());
  plan_.erase(plan_.begin(), plan_.begin() + static_cast<std::ptrdiff_t>(first));
  plan_probe();
}

// Ahead of the others, whose means may be written over the gradients.
void Cargo::plan_probe() {
  probe_.clear();
  if (order_.probe == 0) return;
  for (const Planned& planned : plan_) {
    if (planned.codec != &memory_.codec()) continue;
    const Job& job = jobs_[planned.job];
    const auto residual = memory_.residual(job.tensor);
    probe_.look_at(
        {.index = job.tensor,
         .tensor = memory_.tensors()[job.tensor],
         .offset = planned.offset,
         .gradient = job.gradient.subspan(planned.offset, planned.count),
         .residual = residual.empty() ? residual : residual.subspan(planned.offset, planned.count),
         .mean = job.mean.subspan(planned.offset, planned.count)},
        order_.probe);
  }
  std::vector<Planned> exact;
  Planned one{.codec = &exact_, .probe = true};
  const std::uint64_t count = probe_.input().size();
  const Plan plan = exact_.plan(tensor_of(one), memory_.options().workers);
  const std::uint64_t whole = fit_chunk(plan, memory_.options().chunk_count);
  for (; one.offset < count; one.offset += whole) {
    one.count = std::min(whole, count - one.offset);
    exact.push_back(one);
  }
  plan_.insert(plan_.begin(), exact.begin(), exact.end());
}

Tensor Cargo::tensor_of(const Planned& planned) const {
  if (planned.probe) return {.id = kProbeTensor, .rows = 1, .cols = probe_.input().size()};
  return tensor_of(jobs_[planned.job]);
}

Piece Cargo::piece(std::size_t index) const {
  const Planned& planned = plan_[index];
  return {tensor_of(planned), planned.offset, static_cast<std::uint32_t>(planned.count),
          memory_.options().rank, memory_.options().workers};
}

Chunk Cargo::chunk(std::size_t index) {
  const Planned& planned = plan_[index];
  Chunk chunk;
  chunk.piece = piece(index);
  chunk.key = chunk_key(memory_.options().seed, order_.step, chunk.piece.tensor.id);
  if (planned.probe) {
    chunk.gradient = probe_.input().subspan(planned.offset, planned.count);
    chunk.mean = probe_.mean().subspan(planned.offset, planned.count);
    return chunk;
  }
  const Job& job = jobs_[planned.job];
  chunk.gradient = job.gradient.subspan(planned.offset, planned.count);
  chunk.mean = job.mean.subspan(planned.offset, planned.count);
  if (planned.codec == &memory_.codec()) {
    return memory_.chunk(order_.step, job.tensor, planned.offset, chunk.gradient, chunk.mean,
                         tally_);
  }
  chunk.state = states_[planned.job];
  if (planned.codec == sparse_) chunk.tally = sparse_tally_;
  return chunk;
}

std::uint64_t Cargo::digest(const Chunk& chunk) const {
  return mix(memory_.digest(chunk), order_.sequence);
}

Topic Cargo::topic(const Chunk& chunk) const {
  Topic topic = memory_.topic(chunk, order_.step);
  topic.parcel = order_.sequence;
  return topic;
}

void Cargo::arrived(const Chunk& chunk) {
  report_.infinite += count_infinite(chunk.mean);
  if (order_.digest) report_.digest += digest_of(chunk);
}

void Cargo::unload() {
  memory_.count(tally_);
  report_.probes = probe_.compare();
}

}  // namespace sluice
