// A group is what a user holds: one worker's codec, feedback and end of a carrier, bound together.
// It cuts tensors into chunks and keeps a window of them in flight, so that encoding, rounds and
// decoding of different chunks overlap.
//
//   group->start(step, jobs);              // hands over gradients; encodes the first chunks
//   while (!*group->advance()) { … }       // or finish(), which blocks
//
// Every worker hands over the same tensors in the same order. A group belongs to one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "codec/codec.h"
#include "feedback/feedback.h"
#include "group/flight.h"
#include "group/stats.h"
#include "round/carrier.h"

namespace sluice {

struct GroupOptions {
  std::uint32_t rank = 0;
  std::uint32_t workers = 1;
  std::uint64_t seed = 0;
  FeedbackKind feedback = FeedbackKind::none;
  std::uint32_t chunk_count = 1u << 16;  // coordinates per chunk, fitted to the codec's plan
  std::uint32_t window = 4;              // chunks in flight
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);
};

// One tensor of a step. The mean may be the gradient's own memory.
struct Job {
  std::uint32_t tensor = 0;  // index into the group's tensors
  std::span<const float> gradient;
  std::span<float> mean;
};

class Group {
  struct Token {};  // lets make() alone call the constructor

 public:
  Group(Token, const GroupOptions& options, std::string_view spec, const Codec& codec,
        Carrier& carrier, std::span<const Tensor> tensors);
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
  // Blocks until the step is finished. A time-out names who is missing in explain().
  Status finish();

  // What happened, for a person, after an error. May allocate.
  [[nodiscard]] std::string explain() const { return explanation_; }
  [[nodiscard]] const Stats& stats() const { return stats_; }
  [[nodiscard]] std::span<const float> residual(std::size_t tensor) const {
    return feedback_.residual(tensor);
  }

  // Codec state, model state and residuals, between steps. load() refuses what another codec,
  // rank, number of workers or list of tensors saved, and bytes that are damaged; on refusal
  // nothing has changed.
  [[nodiscard]] std::vector<std::byte> save() const;
  Verdict load(std::span<const std::byte> saved);

 private:
  [[nodiscard]] std::uint32_t chunk_count(const Tensor& tensor) const;
  void reserve_flights();
  Result<bool> admit();
  Result<Nothing> launch(Flight& flight);
  Error fail(const Error& error, const Ticket& ticket);
  void end_step();
  std::uint64_t identity() const;

  GroupOptions options_;
  std::string spec_;
  const Codec& codec_;
  Carrier& carrier_;
  std::vector<Tensor> tensors_;
  Feedback feedback_;
  std::vector<std::vector<std::byte>> states_;
  std::vector<std::byte> model_;
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
