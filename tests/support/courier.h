// Carries rounds by hand: what all workers ask for is reduced by the reference implementation and
// laid into everybody's memory, and what went is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "round/round.h"

namespace sluice::support {

using Bytes = std::vector<std::byte>;

// A round as it went: what was asked, of whom, everybody's bytes, the answer.
struct Went {
  Reduction what;
  bool restricted = false;  // the round named its workers
  std::vector<bool> from;   // by rank: who was counted in its first grain
  std::vector<Bytes> ups;   // by rank
  Bytes down;
};
using Legs = std::vector<std::vector<Went>>;  // by leg and round

// Who is counted where a round does not name its workers: by leg of the exchange, round and grain.
using WhoCounts = std::function<WorkerSet(std::size_t, std::size_t, std::uint32_t)>;

WorkerSet set_of(std::uint32_t n, const std::vector<std::uint32_t>& ranks);
WorkerSet set_without(std::uint32_t n, const std::vector<std::uint32_t>& missing);
// The same in every grain.
WhoCounts all_but(std::uint32_t n, const std::vector<std::uint32_t>& missing = {});

// The answer to a whole round of one set of workers. `ups` are everybody's, by rank.
Bytes combined(const Reduction& what, const std::vector<Bytes>& ups, Workers from);

// Lays bytes into Round::down, as a carrier does, and reports them. Bytes that do not fit stay
// where they are.
Answer laid_down(const Round& round, const Bytes& down, std::span<const Part> parts);

// Expects of every round what a carrier may rely on: all ask for the same, which is valid, and have
// the memory for it.
class Courier {
 public:
  explicit Courier(std::uint32_t n) : Courier(n, all_but(n)) {}
  Courier(std::uint32_t n, WhoCounts counted) : n_(n), counted_(std::move(counted)) {}

  // One leg, of which asked[rank] are the rounds: by rank, the answers. Valid until the next call.
  // A round of no lanes is answered by nothing. Appends what went to the log.
  std::vector<std::vector<Answer>> carry(const std::vector<std::vector<Round>>& asked,
                                         std::vector<Went>& log);

 private:
  Went collect(const std::vector<std::vector<Round>>& asked, std::size_t index);
  void reduce(Went& went, const Round& round, std::size_t index);

  std::uint32_t n_;
  WhoCounts counted_;
  std::size_t leg_ = 0;
  // Of the answers that are out.
  std::vector<std::unique_ptr<WorkerSet>> sets_;
  std::vector<std::unique_ptr<std::vector<Part>>> parts_;
};

}  // namespace sluice::support
