// How a block_sum travels: which blocks there are first, then their sums alone.
//
// All workers unite one bit per block. The blocks of that union, in order, are fused into pieces:
// as many blocks as fit into a frame whatever their form. So all workers have the same schedule and
// know all of it. A piece is a block_sum by itself: its blocks are numbered from 0, and a worker
// sends those that it has. A block that is larger than a frame is cut into parts, a piece each.
//
// Belongs to one thread. Call in this order: begin, plan, accept for every piece, finish. Memory
// grows to the largest round and is then reused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "round/lists.h"
#include "round/reduction.h"

namespace sluice::protocol {

class BlockWay {
 public:
  // A block_sum. `up` has passed check_up() and stays put until plan() is over. What a worker
  // brings that is not counted does not matter. `payload_max` is at least kPayloadMin (assembly.h).
  void begin(const Reduction& what, std::span<const std::byte> up, bool is_counted,
             std::size_t payload_max);

  // --- which blocks there are ---

  // The reduction that unites a bit per block.
  [[nodiscard]] Reduction presence() const;
  // This worker's bits. Both spans live until the next begin().
  [[nodiscard]] std::span<const std::byte> present() const { return present_; }
  // Where the caller puts the answer, before plan().
  [[nodiscard]] std::span<std::byte> united() { return united_; }

  // --- their sums ---

  // When united() is there, from outside. Code::malformed where blocks of this worker are missing.
  Status plan();
  // 0 before plan(), and where nobody has a block. Pieces that follow are below it.
  [[nodiscard]] std::uint32_t pieces() const { return pieces_; }
  [[nodiscard]] Reduction what_of(std::uint32_t piece) const;
  // What this worker sends; nothing where it has no block of the piece. Lives until the next
  // plan().
  [[nodiscard]] std::span<const std::byte> up_of(std::uint32_t piece) const;
  // The answer to a piece, from outside: all its blocks, or Code::malformed. `down` is the round's,
  // of down_size_max() bytes, the same in all calls. After an error its bytes are anything, and
  // the piece has no answer. Once per piece.
  Status accept(std::uint32_t piece, std::span<const std::byte> payload, std::span<std::byte> down);
  // When all pieces are there: writes the round's answer and says its size.
  std::size_t finish(std::span<std::byte> down);

 private:
  // Where the bytes of a piece are.
  struct Run {
    std::size_t at = 0;
    std::size_t size = 0;
  };

  [[nodiscard]] bool is_cut() const { return fused_ == 0; }
  [[nodiscard]] std::uint32_t first_of(std::uint32_t piece) const { return piece * fused_; }
  [[nodiscard]] std::uint32_t count_of(std::uint32_t piece) const;
  [[nodiscard]] std::span<std::byte> sums_of(std::uint32_t piece);
  void add_up(std::uint32_t piece, const Block& block, std::uint32_t number);
  void add_parts(std::uint32_t place, const Block& block);
  Status accept_part(std::uint32_t piece, std::span<const std::byte> payload);

  Reduction what_;
  std::span<const std::byte> up_;
  bool is_counted_ = false;
  std::uint32_t fused_ = 0;       // blocks of a piece; 0: blocks are cut
  std::uint32_t part_lanes_ = 0;  // of a block that is cut
  std::uint32_t parts_ = 1;       // of a block
  std::vector<std::byte> present_;
  std::vector<std::byte> united_;
  std::vector<std::uint32_t> union_;  // block numbers
  std::uint32_t pieces_ = 0;
  std::vector<Run> ups_;    // by piece, in memory_
  std::vector<Run> downs_;  // by piece, in the round's answer
  std::size_t used_ = 0;    // of memory_
  AlignedBuffer memory_;    // what this worker sends
  AlignedBuffer sums_;      // integers of all blocks, where they are cut
  AlignedBuffer integers_;  // of one block
};

}  // namespace sluice::protocol
