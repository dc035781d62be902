#include "group/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "base/random.h"
#include "catalog/codecs.h"
#include "catalog/feedbacks.h"
#include "group/flight.h"

namespace sluice {
namespace {

constexpr std::uint64_t kTensorMax = std::uint64_t{1} << 40;  // coordinates

std::uint64_t digest_of(std::string_view text, std::uint64_t digest) {
  for (const char c : text) digest = mix(digest, static_cast<unsigned char>(c));
  return digest;
}

std::uint64_t identity_of(std::string_view spec, const GroupOptions& options) {
  return digest_of(spec, mix(options.workers, options.chunk_count));
}

Verdict check_tensors(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    if (tensor.rows > kTensorMax || (tensor.rows != 0 && tensor.cols > kTensorMax / tensor.rows)) {
      return Problem{Code::invalid_argument,
                     fmt::format("tensor {:x} of {} x {} coordinates; accepted: at most 2^40",
                                 tensor.id, tensor.rows, tensor.cols)};
    }
  }
  return Nothing{};
}

}  // namespace

Checked<std::unique_ptr<Memory>> Memory::make(const GroupOptions& options, std::string_view spec,
                                              const Codec& codec, std::span<const Tensor> tensors) {
  SLUICE_TRY(check(options));
  SLUICE_TRY(check_feedback(options.feedback, codec.traits(options.workers), spec));
  SLUICE_TRY_ASSIGN(const std::string settled,
                    settle_spec(spec, options.feedback != FeedbackKind::none));
  auto memory = std::make_unique<Memory>(Token{}, options, settled, codec);
  SLUICE_TRY(memory->add(tensors));
  return memory;
}

Memory::Memory(Token, const GroupOptions& options, std::string_view spec, const Codec& codec)
    : options_(options),
      spec_(spec),
      codec_(codec),
      identity_(identity_of(spec, options)),
      codec_name_(static_cast<std::uint32_t>(digest_of(spec, 0) >> 32)),
      feedback_(options.feedback),
      before_(options.keep_before ? options.feedback : FeedbackKind::none) {
  const Traits traits = codec.traits(options.workers);
  model_.resize(traits.model_size);
  tally_.resize(traits.tally_count);
  totals_.resize(traits.tally_count);
}

Verdict Memory::add(std::span<const Tensor> tensors) {
  SLUICE_TRY(check_tensors(tensors));
  // Where something is refused in the middle, memory too, all is as it was.
  struct Addition {
    explicit Addition(Memory& of) : memory(of), count(of.tensors_.size()) {}
    ~Addition() { memory.cut(count); }
    Memory& memory;
    std::size_t count;  // that stay
  } addition(*this);
  tensors_.insert(tensors_.end(), tensors.begin(), tensors.end());
  SLUICE_TRY(add_ids());
  SLUICE_TRY(codec_.accepts(tensors_, options_.workers));
  for (const Tensor& tensor : tensors) {
    feedback_.add(tensor);
    before_.add(tensor);
    in_step_.push_back(0);
    states_.emplace_back(codec_.plan(tensor, options_.workers).state_size);
  }
  addition.count = tensors_.size();
  return Nothing{};
}

// An id names all randomness of a tensor, and the tensor to the other ranks.
Verdict Memory::add_ids() {
  while (ids_.size() < tensors_.size()) {
    const std::uint64_t id = tensors_[ids_.size()].id;
    if (ids_.insert(id).second) continue;
    return Problem{Code::invalid_argument,
                   fmt::format("two tensors with id {:x}; accepted: different ids", id)};
  }
  return Nothing{};
}

void Memory::cut(std::size_t count) {
  while (ids_.size() > count) ids_.erase(tensors_[ids_.size() - 1].id);
  tensors_.resize(std::min(count, tensors_.size()));
  feedback_.cut(count);
  before_.cut(count);
  if (in_step_.size() > count) in_step_.resize(count);
  if (states_.size() > count) states_.resize(count);
}

std::uint32_t Memory::chunk_count(const Tensor& tensor) const {
  return fit_chunk(codec_.plan(tensor, options_.workers), options_.chunk_count);
}

Chunk Memory::chunk(std::uint64_t step, std::size_t tensor, std::uint64_t offset,
                    std::span<const float> gradient, std::span<float> mean,
                    std::span<std::uint64_t> tally) {
  const Tensor& whole = tensors_[tensor];
  const auto count = static_cast<std::uint32_t>(gradient.size());
  Chunk chunk;
  chunk.piece = {whole, offset, count, options_.rank, options_.workers};
  chunk.step = step;
  chunk.key = chunk_key(options_.seed, step, whole.id);
  chunk.gradient = gradient;
  chunk.mean = mean;
  chunk.state = states_[tensor];
  chunk.model = model_;
  chunk.tally = tally;
  if (feedback_.residual(tensor).empty()) return chunk;
  chunk.residual = feedback_.residual(tensor).subspan(offset, count);
  if (options_.keep_before) {
    std::atomic_ref(in_step_[tensor]).store(1, std::memory_order_relaxed);
    std::copy(chunk.residual.begin(), chunk.residual.end(),
              before_.residual(tensor).subspan(offset, count).begin());
  }
  return chunk;
}

std::uint64_t Memory::digest(const Chunk& chunk) const {
  return mix(mix(mix(identity_, chunk.key), chunk.piece.offset), chunk.piece.count);
}

Topic Memory::topic(const Chunk& chunk, std::uint64_t step) const {
  return {.step = step,
          .seed = options_.seed,
          .tensor = chunk.piece.tensor.id,
          .offset = chunk.piece.offset,
          .count = chunk.piece.count,
          .chunk = options_.chunk_count,
          .codec = codec_name_};
}

void Memory::count(std::span<const std::uint64_t> tally) {
  SLUICE_ASSERT(tally.size() == tally_.size());
  for (std::size_t i = 0; i < tally.size(); ++i) {
    std::atomic_ref(tally_[i]).fetch_add(tally[i], std::memory_order_relaxed);
  }
}

void Memory::end_step() {
  if (!tally_.empty() || !model_.empty()) codec_.end_step(tally_, model_);
  for (std::size_t i = 0; i < tally_.size(); ++i) totals_[i] += tally_[i];
  std::fill(tally_.begin(), tally_.end(), std::uint64_t{0});
  std::fill(in_step_.begin(), in_step_.end(), std::uint8_t{0});
}

void Memory::undo_step() {
  SLUICE_ASSERT(options_.keep_before);
  std::fill(tally_.begin(), tally_.end(), std::uint64_t{0});
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (in_step_[i] == 0) continue;
    in_step_[i] = 0;
    const auto before = before_.residual(i);
    std::copy(before.begin(), before.end(), feedback_.residual(i).begin());
  }
}

}  // namespace sluice
