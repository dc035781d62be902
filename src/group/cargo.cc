#include "group/cargo.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/random.h"
#include "group/flight.h"

namespace sluice {
namespace {

std::uint64_t digest_of(const Chunk& chunk) {
  std::uint64_t digest = mix(chunk.piece.tensor.id, chunk.piece.offset);
  // Four chains, because one would wait for its own multiplications.
  std::array<std::uint64_t, 4> chains{1, 2, 3, 4};
  std::size_t i = 0;
  for (; i + 4 <= chunk.mean.size(); i += 4) {
    for (std::size_t k = 0; k < 4; ++k) {
      chains[k] = (chains[k] ^ std::bit_cast<std::uint32_t>(chunk.mean[i + k])) *
                  0x9e3779b97f4a7c15u;
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
  for (const Job& job : jobs_) {
    if (job.tensor == kSparseTensor && sparse_ == nullptr) {
      return invalid("parcel: a sparse job; accepted: with a codec for those");
    }
    if (!is_loose(job) && job.tensor >= memory_.tensors().size()) {
      return invalid(fmt::format("parcel: tensor {}; accepted: below {}, or exact, or sparse",
                                 job.tensor, memory_.tensors().size()));
    }
    if (job.gradient.size() != tensor_of(job).count() || job.mean.size() != job.gradient.size()) {
      return invalid(fmt::format("parcel: a job of {} coordinates for tensor {} of {}",
                                 job.gradient.size(), job.tensor, tensor_of(job).count()));
    }
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
    for (std::uint64_t at = 0; at < tensor.count(); at += whole) {
      plan_.push_back({&codec, i, at, std::min(whole, tensor.count() - at), false});
    }
  }
  const std::size_t first = plan_.size() * order_.part / order_.parts;
  const std::size_t last = plan_.size() * (order_.part + std::size_t{1}) / order_.parts;
  plan_.erase(plan_.begin() + static_cast<std::ptrdiff_t>(last), plan_.end());
  plan_.erase(plan_.begin(), plan_.begin() + static_cast<std::ptrdiff_t>(first));
  if (!order_.probe) return;
  // The probe's twin comes first, so that compare_probe() knows where to look.
  const auto probed = std::find_if(plan_.begin(), plan_.end(), [&](const Planned& planned) {
    return planned.codec == &memory_.codec();
  });
  if (probed == plan_.end()) return;
  Planned twin = *probed;
  twin.codec = &exact_;
  twin.probe = true;
  std::swap(*probed, plan_.front());
  plan_.insert(plan_.begin(), twin);
}

Piece Cargo::piece(std::size_t index) const {
  const Planned& planned = plan_[index];
  return {tensor_of(jobs_[planned.job]), planned.offset, static_cast<std::uint32_t>(planned.count),
          memory_.options().rank, memory_.options().workers};
}

Chunk Cargo::chunk(std::size_t index) {
  const Planned& planned = plan_[index];
  const Job& job = jobs_[planned.job];
  auto gradient = job.gradient.subspan(planned.offset, planned.count);
  auto mean = job.mean.subspan(planned.offset, planned.count);
  if (planned.codec == &memory_.codec()) {
    return memory_.chunk(order_.step, job.tensor, planned.offset, gradient, mean, tally_);
  }
  if (planned.probe) {
    // What the codec encodes is the gradient and the residual; a copy, since the codec's mean may
    // be written over the gradient.
    probe_input_.assign(gradient.begin(), gradient.end());
    const auto residual = memory_.residual(job.tensor);
    for (std::size_t i = 0; i < probe_input_.size() && !residual.empty(); ++i) {
      probe_input_[i] += residual[planned.offset + i];
    }
    probe_mean_.resize(probe_input_.size());
    gradient = probe_input_;
    mean = probe_mean_;
  }
  Chunk chunk;
  chunk.piece = piece(index);
  chunk.key = chunk_key(memory_.options().seed, order_.step, chunk.piece.tensor.id);
  chunk.gradient = gradient;
  chunk.mean = mean;
  chunk.state = states_[planned.job];
  if (planned.codec == sparse_) chunk.tally = sparse_tally_;
  return chunk;
}

std::uint64_t Cargo::digest(const Chunk& chunk) const {
  return mix(memory_.digest(chunk), order_.sequence);
}

void Cargo::arrived(const Chunk& chunk) {
  report_.infinite += count_infinite(chunk.mean);
  if (order_.digest) report_.digest += digest_of(chunk);
}

void Cargo::unload() {
  memory_.count(tally_);
  compare_probe();
}

void Cargo::compare_probe() {
  if (plan_.empty() || !plan_.front().probe) return;
  const Planned& probed = plan_[1];
  const auto mean = jobs_[probed.job].mean.subspan(probed.offset, probed.count);
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const double exact = probe_mean_[i];
    const double error = mean[i] - exact;
    report_.error_energy += error * error;
    report_.exact_energy += exact * exact;
  }
}

}  // namespace sluice
