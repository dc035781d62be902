// The meeting of all workers for one leg of one exchange: each lays down its rounds, the last one
// combines them all.
//
// Each worker calls post() on its own thread, and the last one close(). Nothing blocks but
// withdraw(). What a closed meeting says may be read by any worker until that worker posts to the
// meeting again. Two meetings take turns (local.cc), so by then all have read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "carrier/local/local.h"
#include "round/combine.h"
#include "round/round.h"

namespace sluice::local {

// Meetings of one slot are numbered by generation, from 1, the same on all ranks. Memory grows to
// what the job needs during its first steps and is then reused.
class Meeting {
 public:
  explicit Meeting(std::uint32_t workers);

  // Lays down a worker's rounds, which stay put until the meeting is closed or they are withdrawn.
  // Once per worker and generation. True for the last worker, who then calls close().
  bool post(std::uint32_t rank, std::uint64_t generation, const Ticket& ticket,
            std::span<const Round> rounds);

  // Combines all rounds; `leg` counts the legs of the exchange. Wakes nobody. Throws nothing: what
  // goes wrong, memory too, is error() to all workers.
  void close(const Arrangement& arrangement, std::uint32_t leg);

  // Takes a worker's rounds back: they are not looked at when this returns. Waits for the worker
  // that is combining them right now.
  void withdraw(std::uint32_t rank, std::uint64_t generation);

  [[nodiscard]] bool is_closed(std::uint64_t generation) const {
    return closed_.load(std::memory_order_acquire) >= generation;
  }

  // Once it is_closed(): an error, the same for all workers, or the answer's bytes and parts.
  [[nodiscard]] const Error& error() const { return error_; }
  [[nodiscard]] const std::string& complaint() const { return complaint_; }
  [[nodiscard]] std::span<const std::byte> down(std::size_t round) const;
  [[nodiscard]] std::span<const Part> parts(std::size_t round) const;

  // Ranks that have not posted this generation, as text for a person. Any worker, at any time.
  [[nodiscard]] std::string missing(std::uint64_t generation) const;

 private:
  struct Posted {
    Ticket ticket;
    std::span<const Round> rounds;
  };
  struct Outcome {
    AlignedBuffer memory;
    std::size_t size = 0;
    std::vector<Part> parts;
    std::vector<std::uint64_t> words;  // the sets of all parts, end to end
  };

  Status combine_all(const Arrangement& arrangement, std::uint32_t leg);
  Status agree();
  void split(std::size_t index, const Arrangement& arrangement, std::uint32_t leg);
  Status combine_part(std::size_t index, const Part& part, const Arrangement& arrangement);
  Result<std::size_t> combine_tree(const Reduction& what, const Part& part, std::uint32_t fan_in,
                                   std::span<std::byte> into);

  std::uint32_t workers_;
  std::vector<Posted> posted_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> arrived_;  // each rank's last generation
  std::atomic<std::uint32_t> posted_count_{0};
  std::atomic<std::uint64_t> closed_{0};
  std::uint64_t generation_ = 0;
  Error error_;
  std::string complaint_;
  std::vector<Outcome> outcomes_;
  std::vector<Contribution> contributions_;
  std::vector<AlignedBuffer> leaves_;
  std::vector<std::span<const std::byte>> partials_;
  AlignedBuffer scratch_;
};

}  // namespace sluice::local
