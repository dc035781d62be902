// What one worker keeps between steps: residuals, codec state per tensor and per model, and the
// counts of the step in hand. Cuts tensors into chunks.
//
// Chunks of one step may be worked on by several threads: they never share a byte of it but the
// counts, which each hands over by count().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "codec/codec.h"
#include "feedback/feedback.h"
#include "group/options.h"
#include "round/carrier.h"

namespace sluice {

class Memory {
  struct Token {};  // lets make() alone call the constructor

 public:
  Memory(Token, const GroupOptions& options, std::string_view spec, const Codec& codec);

  // `spec` names codec and options in digests and saved state, where options that follow the
  // feedback have their meaning. The codec outlives this.
  static Checked<std::unique_ptr<Memory>> make(const GroupOptions& options, std::string_view spec,
                                               const Codec& codec, std::span<const Tensor> tensors);

  // More tensors, between steps, the same on every rank.
  Verdict add(std::span<const Tensor> tensors);

  [[nodiscard]] const GroupOptions& options() const { return options_; }
  [[nodiscard]] const Codec& codec() const { return codec_; }
  [[nodiscard]] const std::string& spec() const { return spec_; }
  [[nodiscard]] std::span<const Tensor> tensors() const { return tensors_; }
  [[nodiscard]] std::size_t tally_count() const { return tally_.size(); }
  // Coordinates per chunk. Chunks follow the tensor and the codec's plan, never threads or buckets.
  [[nodiscard]] std::uint32_t chunk_count(const Tensor& tensor) const;

  // The chunk at `offset` of a tensor, with all that belongs to it; spans as given, of the chunk
  // alone. Counts go to `tally`.
  Chunk chunk(std::uint64_t step, std::size_t tensor, std::uint64_t offset,
              std::span<const float> gradient, std::span<float> mean,
              std::span<std::uint64_t> tally);
  // Names that chunk alike on every rank, but for the sequence number: as one number, and in parts.
  [[nodiscard]] std::uint64_t digest(const Chunk& chunk) const;
  [[nodiscard]] Topic topic(const Chunk& chunk, std::uint64_t step) const;

  // Any thread: adds a chunk's counts to the step's.
  void count(std::span<const std::uint64_t> tally);
  // The counts of all steps that have ended.
  [[nodiscard]] std::span<const std::uint64_t> totals() const { return totals_; }
  // Nothing in flight: turns the counts into the model's state.
  void end_step();
  // Instead of end_step(): the step's result is thrown away by the user, so what residuals booked
  // as sent comes back. Needs options.keep_before.
  void undo_step();

  [[nodiscard]] std::span<float> residual(std::size_t tensor) { return feedback_.residual(tensor); }
  [[nodiscard]] std::span<const float> residual(std::size_t tensor) const {
    return feedback_.residual(tensor);
  }
  [[nodiscard]] std::span<std::byte> state(std::size_t tensor) { return states_[tensor]; }
  [[nodiscard]] std::span<std::byte> model() { return model_; }

  // Codec state, model state and residuals, between steps. load() refuses what another codec,
  // rank, number of workers or list of tensors saved, and bytes that are damaged; on refusal
  // nothing has changed.
  [[nodiscard]] std::vector<std::byte> save() const;
  Verdict load(std::span<const std::byte> saved);

 private:
  // Forgets what tensors from this one on keep.
  void cut(std::size_t count);
  Verdict add_ids();

  GroupOptions options_;
  std::string spec_;
  const Codec& codec_;
  std::uint64_t identity_;
  std::uint32_t codec_name_;  // of the spec, for those who have another
  std::vector<Tensor> tensors_;
  std::unordered_set<std::uint64_t> ids_;  // of the first so many tensors
  Feedback feedback_;
  Feedback before_;  // residuals as they were before the step, with keep_before …
  std::vector<std::uint8_t> in_step_;  // … of the tensors that are in it
  std::vector<std::vector<std::byte>> states_;
  std::vector<std::byte> model_;
  std::vector<std::uint64_t> tally_;
  std::vector<std::uint64_t> totals_;
};

}  // namespace sluice
