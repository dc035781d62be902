// Feedback: what a worker remembers of a tensor between steps, and how it makes the codec's input
// of that and the gradient. A kind is arithmetic without state; the memories are the caller's.
//
// Any thread may call, on memories that no other thread uses meanwhile, inside a FloatEnvironment.
// Nothing fails, and nothing but `make` allocates. Spans are used for the call alone. Sizes that go
// together are the caller's promise.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "codec/info.h"

namespace sluice {

inline constexpr std::size_t kMemoriesMax = 2;  // of one kind

// One float per coordinate each; memories that the kind does not have are empty. They do not
// overlap.
using Memories = std::array<std::span<float>, kMemoriesMax>;

// The memories of coordinates [first, first + count), which are there.
Memories part_of(const Memories& memories, std::size_t first, std::size_t count);

// Immutable; one object serves all tensors and threads. All spans of a call have the same number of
// coordinates. Results depend on each coordinate alone, so a call may be cut into several.
class Feedback {
 public:
  virtual ~Feedback() = default;
  // Writes the codec's input, which overlaps nothing else. The memories stay as they are.
  virtual void before(std::span<const float> gradient, const Memories& memories,
                      std::span<float> input) const = 0;
  // Takes into the memories what is left. `gradient` and `input` are as before() had them, and the
  // memories have not changed since. `sent` is what was sent of the input and counted; empty:
  // nothing was. The memories of a coordinate stay as they were where anything new is not finite.
  virtual void after(std::span<const float> gradient, std::span<const float> input,
                     std::span<const double> sent, const Memories& memories) const = 0;
};

// A kind's row in the catalogue (catalog/feedbacks.h). What it refers to lives as long as the
// program.
struct FeedbackInfo {
  std::uint32_t id = 0;  // in saved state; never reused
  std::string_view name;
  std::string_view summary;
  std::span<const OptionInfo> options = {};
  // Names of its memories. The first is the residual: what was given and not yet sent.
  std::span<const std::string_view> memories = {};
  bool plain = false;  // a codec's fused pass (Traits::fuses_feedback) may stand for it
  std::unique_ptr<Feedback> (*make)(const OptionValues& options) = nullptr;  // null: no feedback
};

inline constexpr FeedbackInfo kNoFeedback{
    .id = 0, .name = "none", .summary = "what a step loses is lost"};

// Adds mean − delivered to a residual, but never Inf or NaN: what rounding the mean for the user
// took off. Every worker adds all of it, because it is a part of the mean of all. The other spans
// are as long as the mean.
void keep_lost(std::span<const float> mean, std::span<const float> delivered,
               std::span<float> residual);

}  // namespace sluice
