// Runs exchanges by hand, without groups and carriers: for tests of one codec that look at its
// bytes, choose who is counted, or lie in an answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "codec/codec.h"
#include "feedback/feedback.h"
#include "tests/support/courier.h"

namespace sluice::support {

using Floats = std::vector<float>;

std::vector<std::uint32_t> bits_of(const Floats& values);

// One worker's side of one exchange, with all memory of it. The codec outlives it.
struct WorkerByHand {
  // With error feedback, where something is kept.
  WorkerByHand(const Codec& of, std::uint32_t rank, std::uint32_t n, const Floats& values,
               const Floats& kept = {});
  // Begins the exchange anew, after a change of the chunk or its memory.
  void restart();

  // For a leg of one round: the round, and the answer to it.
  Round ask();
  Result<Leg> answer(std::span<const std::byte> down, std::span<const Part> parts);
  // Nothing of the caller's is written since the exchange began.
  void expect_untouched() const;

  const Codec* codec;
  Floats gradient;
  Floats mean;
  Floats residual;
  std::vector<std::uint64_t> tally;
  std::vector<std::byte> state;
  Chunk chunk;
  AlignedBuffer host;
  AlignedBuffer place;
  std::byte found{};  // what the exchange finds in `place`
  Exchange* exchange = nullptr;

 private:
  struct Caller {
    std::vector<std::uint32_t> gradient;  // bits
    std::vector<std::uint32_t> residual;
    std::vector<std::uint64_t> tally;
    std::vector<std::byte> state;
  };
  Chunk seen(Arena& arena);

  std::unique_ptr<Feedback> error_feedback_;
  Caller before_;  // when the exchange began
};

using WorkersByHand = std::vector<std::unique_ptr<WorkerByHand>>;  // by rank

WorkersByHand workers_of(const Codec& codec, const std::vector<Floats>& gradients,
                         const std::vector<Floats>& residuals = {});

// A worker without the others, who has asked for its first leg and hears what a test likes.
struct LoneWorker {
  LoneWorker(std::unique_ptr<const Codec> of, std::uint32_t n, const Floats& gradient,
             const Floats& kept);
  Result<Leg> answer(const Bytes& down, std::span<const Part> parts) {
    return worker.answer(down, parts);
  }
  void expect_untouched() const { worker.expect_untouched(); }

  std::unique_ptr<const Codec> codec;
  WorkerByHand worker;
};
void expect_malformed(const Result<Leg>& leg, const std::string& why = "");

// Runs everybody's exchange to its end, which all reach at once; gives what went.
Legs run(WorkersByHand& workers, const WhoCounts& counted);
// The same without those of `missing`. After the first leg every round names the others.
Legs run(WorkersByHand& workers, const std::vector<std::uint32_t>& missing = {});

// Means that are written over the gradients are those written elsewhere, and so are residuals.
void expect_same_in_place(const Codec& codec, const std::vector<Floats>& gradients,
                          const std::vector<Floats>& residuals);

// An answer that one worker alone sees, to be changed.
struct OwnAnswer {
  Bytes down;
  std::vector<Part> parts;
};
using Lie = std::function<void(std::vector<OwnAnswer>&)>;

// When rank 0 hears a lie, and whether it hears the truth again afterwards; else it is asked once.
struct LieAt {
  std::size_t leg = 0;
  bool to_end = false;
};
// What rank 0 says in the end when the answers of a leg are lied about.
Result<Leg> deceive(WorkersByHand& workers, const WhoCounts& counted, const LieAt& when,
                    const Lie& lie);

}  // namespace sluice::support
