// A group is what a user holds: one worker's memory, driver and end of a carrier, bound together.
//
//   group->start(step, entries);              // hands over gradients
//   while (!*group->advance()) { … }       // or finish(), which blocks
//
// Every worker hands over the same tensors in the same order. A group belongs to one thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/codec.h"
#include "group/bucket.h"
#include "group/driver.h"
#include "group/group_options.h"
#include "group/memory.h"
#include "group/stats.h"
#include "round/carrier.h"

namespace sluice {

class Group {
  struct Token {};  // lets make() alone call the constructor

 public:
  Group(Token, std::unique_ptr<Memory> memory, Choice choice, Carrier& carrier);

  // All memory is taken here. `spec` names codec and options in digests and saved state; codec and
  // carrier outlive the group.
  static Checked<std::unique_ptr<Group>> make(const GroupOptions& options, std::string_view spec,
                                              const Codec& codec, Carrier& carrier,
                                              std::span<const Tensor> tensors);

  // Hands over the entries of a step; nothing may be in flight. Their memory stays put until
  // finished.
  Status start(std::uint64_t step, std::span<const BucketEntry> entries);
  // As Driver::advance() and finish().
  Result<bool> advance();
  Status finish(const std::atomic<bool>* stop = nullptr);
  // After an exception in advance() or finish(): nothing of the jobs is touched any more, and the
  // group is dead.
  void give_up() { driver_.give_up(); }
  // Whether a step is in flight.
  [[nodiscard]] bool is_running() const { return driver_.is_running(); }

  // What happened, for a person, after an error. May allocate.
  [[nodiscard]] std::string explain() const {
    return refusal_.empty() ? driver_.explain() : refusal_;
  }
  [[nodiscard]] const Stats& stats() const { return driver_.stats(); }
  // What its codec counted in all steps, by the names of its row in the catalogue.
  [[nodiscard]] std::span<const std::uint64_t> counts() const { return memory_->totals(choice_); }
  [[nodiscard]] std::span<const float> residual(std::size_t tensor) const {
    return std::as_const(*memory_).residual(tensor);
  }
  // Between steps: Memory::memories.
  [[nodiscard]] Memories memories(std::size_t tensor) { return memory_->memories(tensor); }

  [[nodiscard]] const Memory& memory() const { return *memory_; }
  // Between steps: Memory::save and load.
  [[nodiscard]] std::vector<std::byte> save() const;
  Verdict load(std::span<const std::byte> saved);

 private:
  std::unique_ptr<Memory> memory_;
  Choice choice_;  // that all tensors begin with
  Bucket bucket_;
  Driver driver_;
  std::string refusal_;  // of entries that were not begun
};

}  // namespace sluice
