#include "group/bucket.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/bytes.h"
#include "base/float_environment.h"
#include "base/random.h"
#include "group/flight.h"
#include "group/misfit.h"

namespace sluice {
namespace {

// Ids of what belongs to no single tensor. Exact sums draw no random numbers.
constexpr std::uint64_t kPackId = 0xffffffffu;  // and of what is in it
constexpr std::uint64_t kProbeId = 0xfffffffdu;

// Exact tensors below this share exchanges; above it a copy would cost more than a header.
constexpr std::uint64_t kPackMax = 1u << 15;

std::uint64_t digest_of(const Chunk& chunk) {
  std::uint64_t digest = mix(chunk.extent.tensor.id, chunk.extent.offset);
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

std::uint64_t count_infinite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000u;
  std::uint32_t count = 0;
  for (const float value : values) {
    count += (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1u : 0u;
  }
  return count;
}

Problem invalid(std::string message) { return Problem{Code::invalid_argument, std::move(message)}; }

}  // namespace

Verdict Bucket::load(const BucketOrder& order, std::span<const BucketEntry> entries) {
  order_ = order;
  entries_.assign(entries.begin(), entries.end());
  plan_.clear();
  SLUICE_TRY(check());
  plan_entries();
  plan_pack();
  plan_probe();
  return Nothing{};
}

Verdict Bucket::check() {
  if (order_.on_device && (order_.digest || order_.probe != 0)) {
    return invalid("a digest or probe of a bucket on a device; accepted: neither");
  }
  if (order_.on_device && memory_.accelerator() == nullptr) {
    return invalid("a bucket on a device, of a memory that has none; accepted: options.device");
  }
  for (std::size_t i = 0; i < entries_.size() && memory_.accelerator() != nullptr; ++i) {
    const std::uint32_t tensor = entries_[i].tensor;
    if (tensor >= memory_.tensors().size()) continue;
    const bool rows = memory_.brings_rows(tensor);
    if (order_.on_device != rows) continue;
    return invalid(
        fmt::format("entry {}: tensor {} {} a device; accepted: rows on the host, all "
                    "else on the memory's device",
                    i, tensor, rows ? "brings rows, on" : "is not on"));
  }
  in_bucket_.assign(memory_.tensors().size(), 0);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const BucketEntry& entry = entries_[i];
    if (entry.tensor >= in_bucket_.size()) {
      return invalid(fmt::format("entry {} does not fit: tensor {}; accepted: below {}", i,
                                 entry.tensor, in_bucket_.size()));
    }
    const Tensor tensor = tensor_of(entry);
    if (entry.gradient.size() != tensor.count() || entry.mean.size() != entry.gradient.size()) {
      return invalid(
          misfit(i, entry, memory_.tensors()[entry.tensor], memory_.brings_rows(entry.tensor)));
    }
    // Two chunks of one tensor's residual in flight at once would overwrite each other.
    if (in_bucket_[entry.tensor] != 0) {
      return invalid(fmt::format("entry {}: tensor {} is twice in the bucket; accepted: once", i,
                                 entry.tensor));
    }
    in_bucket_[entry.tensor] = 1;
  }
  return Nothing{};
}

// Of an entry that brings rows: as many as it has.
Tensor Bucket::tensor_of(const BucketEntry& entry) const {
  Tensor tensor = memory_.tensors()[entry.tensor];
  if (memory_.brings_rows(entry.tensor) && tensor.cols != 0) {
    tensor.rows = std::min<std::uint64_t>(tensor.rows, entry.gradient.size() / tensor.cols);
  }
  return tensor;
}

Tensor Bucket::tensor_of(const Planned& planned) const {
  switch (planned.from) {
    case From::entry: break;
    case From::pack: return {.id = pack_id_, .rows = 1, .cols = pack_.size()};
    case From::probe: return {.id = kProbeId, .rows = 1, .cols = probe_.input().size()};
  }
  return tensor_of(entries_[planned.entry]);
}

bool Bucket::is_packed(const BucketEntry& entry) const {
  return !order_.on_device && memory_.choice(entry.tensor) == Memory::kExact &&
         memory_.kind(entry.tensor).kind == nullptr && entry.gradient.size() < kPackMax;
}

void Bucket::plan(From from, Choice choice, std::size_t entry, const Tensor& tensor) {
  const Plan wanted = memory_.codec(choice).plan(tensor, memory_.options().workers);
  const std::uint64_t whole = memory_.chunk_count(tensor, choice);
  if (from == From::entry && memory_.brings_rows(entries_[entry].tensor)) {
    states_[entry].assign(wanted.state_size, std::byte{0});
  }
  // At once, so that what is too much is refused before any of it is touched.
  const std::size_t needed =
      plan_.size() + static_cast<std::size_t>(divide_up(tensor.count(), whole));
  if (needed > plan_.capacity()) plan_.reserve(std::max(needed, 2 * plan_.capacity()));
  for (std::uint64_t at = 0; at < tensor.count(); at += whole) {
    const auto count = static_cast<std::uint32_t>(std::min(whole, tensor.count() - at));
    plan_.push_back({from, choice, entry, at, count});
  }
}

void Bucket::plan_entries() {
  states_.resize(std::max(states_.size(), entries_.size()));
  packed_.clear();
  packed_at_.clear();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (is_packed(entries_[i])) {
      packed_.push_back(i);
      continue;
    }
    plan(From::entry, memory_.choice(entries_[i].tensor), i, tensor_of(entries_[i]));
  }
  if (packed_.size() != 1) return;
  plan(From::entry, Memory::kExact, packed_[0], tensor_of(entries_[packed_[0]]));
  packed_.clear();
}

void Bucket::plan_pack() {
  std::uint64_t size = 0;
  pack_id_ = kPackId;
  for (const std::size_t entry : packed_) {
    packed_at_.push_back(size);
    size += entries_[entry].gradient.size();
    // Ranks that pack other tensors must notice.
    const Tensor tensor = tensor_of(entries_[entry]);
    pack_id_ = mix(mix(mix(pack_id_, tensor.id), tensor.rows), tensor.cols);
  }
  pack_.resize(size);
  if (!packed_.empty()) {
    plan(From::pack, Memory::kExact, 0, {pack_id_, 1, size});
  }
}

// Copied here, before any mean is written over a gradient.
void Bucket::plan_probe() {
  probe_.clear();
  if (order_.probe == 0) return;
  const FloatEnvironment environment;
  for (const Planned& planned : plan_) {
    if (planned.from != From::entry) continue;
    const BucketEntry& entry = entries_[planned.entry];
    if (planned.choice == Memory::kExact || memory_.brings_rows(entry.tensor)) continue;
    Kept kept = memory_.kind(entry.tensor);
    kept.memories = part_of(memory_.memories(entry.tensor), planned.offset, planned.count);
    probe_.look_at({.index = entry.tensor,
                    .tensor = memory_.tensors()[entry.tensor],
                    .offset = planned.offset,
                    .gradient = entry.gradient.subspan(planned.offset, planned.count),
                    .kept = kept,
                    .mean = entry.mean.subspan(planned.offset, planned.count)},
                   order_.probe);
  }
  plan(From::probe, Memory::kExact, 0, {kProbeId, 1, probe_.input().size()});
}

std::vector<TensorProbe> Bucket::probes() const {
  const FloatEnvironment environment;
  return probe_.compare();
}

Extent Bucket::extent(std::size_t index) const {
  const Planned& planned = plan_[index];
  return {tensor_of(planned), planned.offset, planned.count, memory_.options().rank,
          memory_.options().workers};
}

template <class Call>
void Bucket::each_packed(const Planned& planned, Call call) {
  const auto after = std::upper_bound(packed_at_.begin(), packed_at_.end(), planned.offset);
  for (auto i = static_cast<std::size_t>(after - packed_at_.begin()) - 1;
       i < packed_.size() && packed_at_[i] < planned.offset + planned.count; ++i) {
    const BucketEntry& entry = entries_[packed_[i]];
    const std::uint64_t first = std::max(planned.offset, packed_at_[i]);
    const std::uint64_t last =
        std::min(planned.offset + planned.count, packed_at_[i] + entry.gradient.size());
    call(entry, first - packed_at_[i], std::span(pack_).subspan(first, last - first));
  }
}

Chunk Bucket::chunk(std::size_t index, Tally& tally) {
  const Planned& planned = plan_[index];
  if (planned.from == From::entry) return chunk_of_entry(planned, tally);
  Chunk chunk;
  chunk.extent = extent(index);
  chunk.step = order_.step;
  chunk.key = chunk_key(memory_.options().seed, order_.step, chunk.extent.tensor.id);
  if (planned.from == From::probe) {
    chunk.gradient = probe_.input().subspan(planned.offset, planned.count);
    chunk.mean = probe_.mean().subspan(planned.offset, planned.count);
  } else {
    each_packed(planned, [](const BucketEntry& entry, std::uint64_t at, std::span<float> pack) {
      const auto from = entry.gradient.subspan(at, pack.size());
      std::copy(from.begin(), from.end(), pack.begin());
    });
    chunk.gradient = chunk.mean = std::span(pack_).subspan(planned.offset, planned.count);
  }
  return chunk;
}

Chunk Bucket::chunk_of_entry(const Planned& planned, Tally& tally) {
  const BucketEntry& entry = entries_[planned.entry];
  if (order_.on_device) return chunk_on_device(planned, tally);
  const auto gradient = entry.gradient.subspan(planned.offset, planned.count);
  const auto mean = entry.mean.subspan(planned.offset, planned.count);
  if (!memory_.brings_rows(entry.tensor)) {
    return memory_.chunk(order_.step, entry.tensor, planned.offset, gradient, mean, tally);
  }
  return memory_.chunk_of_rows(order_.step, entry.tensor, tensor_of(entry), planned.offset,
                               gradient, mean, states_[planned.entry], tally);
}

Chunk Bucket::chunk_on_device(const Planned& planned, Tally& tally) {
  const BucketEntry& entry = entries_[planned.entry];
  Chunk chunk = memory_.chunk(order_.step, entry.tensor, planned.offset, {}, {}, tally);
  chunk.extent.count = planned.count;
  const std::size_t first = floats::size_of(order_.format) * planned.offset;
  chunk.there = {
      .gradient = reinterpret_cast<const std::byte*>(entry.gradient.data()) + first,
      .mean = reinterpret_cast<std::byte*>(entry.mean.data()) + first,
      .format = order_.format,
  };
  return chunk;
}

Kept Bucket::kept(std::size_t index) {
  const Planned& planned = plan_[index];
  if (planned.from != From::entry) return {};
  return memory_.kept(entries_[planned.entry].tensor, planned.offset, planned.count);
}

Kept Bucket::kind(std::size_t index) const {
  const Planned& planned = plan_[index];
  return planned.from == From::entry ? memory_.kind(entries_[planned.entry].tensor) : Kept{};
}

Ticket Bucket::ticket(std::uint64_t sequence, std::size_t index, const Chunk& chunk) const {
  Topic topic = memory_.topic(chunk, order_.step, choice(index));
  topic.bucket = order_.number;
  return {sequence, mix(memory_.digest(chunk, choice(index)), order_.number), topic};
}

Outcome Bucket::arrived(std::size_t index, const Chunk& chunk) {
  const Planned& planned = plan_[index];
  if (planned.from == From::pack) {
    each_packed(planned,
                [](const BucketEntry& entry, std::uint64_t at, std::span<const float> pack) {
                  std::copy(pack.begin(), pack.end(), entry.mean.subspan(at, pack.size()).begin());
                });
  }
  if (planned.from == From::probe || order_.on_device) return {};
  return {order_.digest ? digest_of(chunk) : 0, count_infinite(chunk.mean)};
}

}  // namespace sluice
