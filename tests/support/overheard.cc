#include "tests/support/overheard.h"

#include <fmt/format.h>

#include <bit>

namespace sluice::support {
namespace {

// Between an exchange and the keeper of its chunk.
class Listener final : public Keeper {
 public:
  Listener(const Chunk& chunk, Told* told)
      : keeper_(chunk.keeper),
        told_(told),
        rank_(chunk.extent.rank),
        tensor_(chunk.extent.tensor),
        offset_(chunk.extent.offset),
        given_(chunk.given()),
        mean_(chunk.mean),
        unwritten_(chunk.mean.empty() ? 0.0f : chunk.mean[0]) {}

  void sent(std::uint32_t first, std::span<const double> values) override {
    Told::OfTensor& of = listen(first, static_cast<std::uint32_t>(values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) of.sent[offset_ + first + i] = values[i];
    keeper_->sent(first, values);
  }
  void held(std::uint32_t first, std::uint32_t count) override {
    static_cast<void>(listen(first, count));
    keeper_->held(first, count);
  }

 private:
  Told::OfTensor& listen(std::uint32_t first, std::uint32_t count) {
    Told::OfTensor& of = told_->of[{rank_, tensor_.id}];
    of.sent.resize(tensor_.count());
    of.times.resize(tensor_.count());
    for (std::uint32_t i = first; i < first + count; ++i) {
      ++of.times[offset_ + i];
      if (given_.data() != mean_.data() && !is_unwritten(mean_[i])) {
        told_->complaint = fmt::format("worker {}, tensor {:x}: the mean of {} was there before",
                                       rank_, tensor_.id, offset_ + i);
      }
    }
    return of;
  }
  [[nodiscard]] bool is_unwritten(float mean) const {
    return std::bit_cast<std::uint32_t>(mean) == std::bit_cast<std::uint32_t>(unwritten_);
  }

  Keeper* keeper_;
  Told* told_;
  std::uint32_t rank_;
  Tensor tensor_;
  std::uint64_t offset_;
  std::span<const float> given_;
  std::span<const float> mean_;
  float unwritten_;  // what a test left in the whole mean
};

class Overheard final : public Codec {
 public:
  Overheard(const Codec& codec, Told* told) : codec_(codec), told_(told) {}

  [[nodiscard]] Traits traits(std::uint32_t workers) const override {
    Traits traits = codec_.traits(workers);
    traits.fuses_feedback = false;
    return traits;
  }
  [[nodiscard]] Plan plan(const Tensor& tensor, std::uint32_t workers) const override {
    return codec_.plan(tensor, workers);
  }
  [[nodiscard]] Verdict accepts(std::span<const Tensor> tensors,
                                std::uint32_t workers) const override {
    return codec_.accepts(tensors, workers);
  }
  [[nodiscard]] std::uint64_t heard_within(std::span<const Tensor> tensors,
                                           std::uint32_t workers) const override {
    return codec_.heard_within(tensors, workers);
  }
  Exchange* begin(const Chunk& chunk, Arena& arena) const override {
    if (told_ == nullptr) return codec_.begin(chunk, arena);
    Chunk seen = chunk;
    auto* const listener = arena.make<Listener>(chunk, told_);
    if (chunk.keeper != nullptr) seen.keeper = listener;
    return codec_.begin(seen, arena);
  }
  void end_step(std::span<const std::uint64_t> tally, std::span<std::byte> model) const override {
    codec_.end_step(tally, model);
  }

 private:
  const Codec& codec_;
  Told* told_;
};

}  // namespace

std::unique_ptr<Codec> without_fused_pass(const Codec& codec, Told* told) {
  return std::make_unique<Overheard>(codec, told);
}

}  // namespace sluice::support
