// Takes the rounds of one leg apart into pieces that fit into frames, and puts the answers
// together.
//
// How a round travels depends on it and on the frames' size alone, never on what anybody sends. So
// all workers give their pieces the same numbers:
//
//   lanes   cut on borders of segments; each piece's answer is a part of the round's answer
//   full    sums with headers whose grains are larger than a frame: full sums are asked for, and
//           the headers are made here
//   list    sizes first, then everybody's bytes piece by piece
//   blocks  which blocks there are first, then their sums (block_way.h)
//
// The last two make a second phase: pieces() are new then.
//
// Belongs to one thread. No I/O. Memory grows to the largest leg and is then reused.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "protocol/block_way.h"
#include "round/combine.h"
#include "round/lists.h"
#include "round/round.h"
#include "round/segment.h"

namespace sluice::protocol {

// Payload of a frame that is enough for everybody's sizes and a few bytes of each of 64 workers.
inline constexpr std::size_t kPayloadMin = std::size_t{64} * 16;
static_assert(kPayloadMin >= 64 * (kMessageHeader + sizeof(std::uint32_t)),
              "everybody's sizes must fit one frame, or lists cannot begin");
static_assert(kPayloadMin / 64 > kMessageHeader, "a frame must bring a byte of every worker");

// What one frame asks for. `at`, sizes and `accepted` are for the assembly itself.
struct Piece {
  Reduction what;
  std::uint32_t round = 0;        // of the leg
  std::span<const std::byte> up;  // stays put until the phase is done
  std::uint64_t only = 0;         // bits of the workers to count
  std::size_t at = 0;             // where its answer goes, bytes into what the round collects
  std::size_t size_max = 0;       // of the answer
  std::size_t size = 0;           // as it came
  bool accepted = false;
  bool is_sparse = false;  // who has nothing sends nothing: `up` is empty then
};

class Assembly {
 public:
  // 1 to 64 workers; a rank below them.
  Assembly(std::uint32_t workers, std::uint32_t rank);

  // Forgets the leg before. Rounds have passed check() and check_up(). They have lanes, and `down`
  // of down_size_max(). What they name stays put until the answers are taken. `payload_max` is at
  // least kPayloadMin, and the same on all workers.
  void begin(std::span<const Round> rounds, std::size_t payload_max);

  // Of this phase; none where nothing is left to ask. Valid until advance() or begin().
  [[nodiscard]] std::span<const Piece> pieces() const { return pieces_; }

  // The answer to a piece that has none yet; both come from outside. Code::malformed: the piece has
  // no answer; bytes of its round's `down` may have been written.
  Status accept(std::size_t piece, std::span<const std::byte> payload, std::uint64_t counted);
  // Whether all pieces of this phase have their answer.
  [[nodiscard]] bool is_phase_done() const { return left_ == 0; }
  // Once is_phase_done(): true when answers() are there, false when a phase with new pieces has
  // begun. Code::malformed: what came makes no answer; only begin() may follow.
  Result<bool> advance();
  // One for each round, in order; empty until advance() is true. Valid until the next begin().
  [[nodiscard]] std::span<const Answer> answers() const { return answers_; }

 private:
  enum class Way : std::uint8_t { lanes, full, list, blocks };
  // What is collected of a round.
  struct Collected {
    Way way = Way::lanes;
    std::uint64_t only = 0;
    std::size_t first = 0;  // its pieces of this phase
    std::size_t count = 0;
    AlignedBuffer memory;                 // full: the sums; list: everybody's bytes
    std::vector<std::uint32_t> sizes;     // list: of every rank's message
    std::size_t stride = 0;               // list: between messages in memory
    std::array<std::byte, 4> own_size{};  // list: what this worker says
    BlockWay blocks;
    std::size_t size = 0;                  // of the answer
    std::array<std::uint64_t, 1> words{};  // of the answer's part
    Part part;
  };

  [[nodiscard]] std::uint64_t everyone() const;
  void cut(std::uint32_t round);
  void cut_lanes(std::uint32_t round, const Reduction& what, std::span<const std::byte> up);
  void ask_sizes(std::uint32_t round);
  void ask_bytes(std::uint32_t round);
  void ask_blocks(std::uint32_t round);
  Result<bool> begin_second_phase();
  void add(Piece piece);
  Status accept_sizes(const Piece& piece, std::span<const std::byte> payload);
  Status accept_bytes(const Piece& piece, std::span<const std::byte> payload);
  Status each_message(const Piece& piece, std::span<const std::byte> payload,
                      const std::function<Status(const Message&)>& visit) const;
  Result<std::size_t> finish(std::uint32_t round);
  std::size_t finish_lanes(std::uint32_t round);
  Result<std::size_t> finish_full(std::uint32_t round);
  Result<std::size_t> finish_list(std::uint32_t round);
  [[nodiscard]] std::span<std::byte> room_for(const Piece& piece);
  [[nodiscard]] bool has_second_phase(std::uint32_t round) const;

  std::uint32_t workers_;
  std::uint32_t rank_;
  std::size_t payload_max_ = 0;
  bool in_second_phase_ = false;
  std::vector<Round> rounds_;
  std::vector<Collected> collected_;
  std::vector<Piece> pieces_;
  std::size_t left_ = 0;
  std::vector<Answer> answers_;
  std::vector<Contribution> contributions_;
  AlignedBuffer scratch_;
};

}  // namespace sluice::protocol
