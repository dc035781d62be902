// A group is what a user holds: one worker's codec, feedback and end of a carrier, bound together.
// It cuts tensors into chunks and keeps a window of them in flight, so that encoding, rounds and
// decoding of different chunks overlap.
//
//   group->start(step, jobs);              // hands over gradients; encodes the first chunks
//   while (!*group->advance()) { … }       // or finish(), which blocks
//
// Every worker hands over the same tensors in the same order. A group belongs to one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "codec/codec.h"
#include "group/flight.h"
#include "group/memory.h"
#include "group/options.h"
#include "group/stats.h"
#include "round/carrier.h"

namespace sluice {

// One tensor of a step. The mean may be the gradient's own memory.
struct Job {
  std::uint32_t tensor = 0;  // index into the group's tensors
  std::span<const float> gradient;
  std::span<float> mean;
};

class Group {
  struct Token {};  // lets make() alone call the constructor

 public:
  Group(Token, std::unique_ptr<Memory> memory, Carrier& carrier);
  ~Group();  // Abandons what is in flight.
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // All memory is taken here. `spec` names codec and options in digests and saved state; codec and
  // carrier outlive the group.
  static Checked<std::unique_ptr<Group>> make(const GroupOptions& options, std::string_view spec,
                                              const Codec& codec, Carrier& carrier,
                                              std::span<const Tensor> tensors);

  // Hands over the jobs of a step; nothing may be in flight. The memory stays put until finished.
  Status start(std::uint64_t step, std::span<const Job> jobs);
  // Does what can be done without blocking; true when the step is finished. After an error the
  // group is dead: chunks that were done keep their effect, the others have none.
  Result<bool> advance();
  // Blocks until the step is finished. A time-out names who is missing in explain(). Ends soon, as
  // an error of kElsewhere, once another thread has set `stop`.
  Status finish(const std::atomic<bool>* stop = nullptr);
  static constexpr Error kElsewhere{Code::unavailable, 0, "another worker of this process failed"};
  // After an exception in advance() or finish(): nothing of the jobs is touched any more, and the
  // group is dead.
  void give_up();
  // Whether a step is in flight.
  [[nodiscard]] bool is_running() const { return running_; }

  // What happened, for a person, after an error. May allocate.
  [[nodiscard]] std::string explain() const { return explanation_; }
  [[nodiscard]] const Stats& stats() const { return stats_; }
  // What the codec counted in all steps, by the names of its row in the catalogue.
  [[nodiscard]] std::span<const std::uint64_t> counts() const { return memory_->totals(); }
  [[nodiscard]] std::span<const float> residual(std::size_t tensor) const {
    return std::as_const(*memory_).residual(tensor);
  }

  // Between steps: Memory::save and load.
  [[nodiscard]] std::vector<std::byte> save() const;
  Verdict load(std::span<const std::byte> saved);

 private:
  void reserve_flights();
  Status refuse(std::string explanation, const char* what);
  Result<bool> admit();
  Result<Nothing> launch(Flight& flight);
  Error fail(const Error& error, const Ticket& ticket);
  void end_step();
  [[nodiscard]] const GroupOptions& options() const { return memory_->options(); }
  [[nodiscard]] const Tensor& tensor_of(const Job& job) const {
    return memory_->tensors()[job.tensor];
  }

  std::unique_ptr<Memory> memory_;
  Carrier& carrier_;
  std::vector<std::uint64_t> tally_;
  std::vector<std::unique_ptr<Flight>> flights_;
  Stats stats_;
  std::string explanation_;

  // The step in flight. Chunks are numbered by sequence, over all steps, alike on every rank.
  std::vector<Job> jobs_;
  std::vector<bool> in_step_;  // by tensor
  std::uint64_t step_ = 0;
  std::size_t job_next_ = 0;
  std::uint64_t offset_next_ = 0;
  std::uint64_t sequence_next_ = 0;
  std::uint64_t sequence_base_ = 0;  // the oldest unfinished one
  bool running_ = false;
  bool dead_ = false;
};

}  // namespace sluice
