// One exchange at a time among the ranks of an MPI job: a leg is fused by itself, and its shards
// travel from every rank to every rank.
//
// Two stages: everybody's bytes for my lanes come to me, my answer goes to everybody.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/aligned_buffer.h"
#include "carrier/fusion.h"
#include "carrier/mpi/mailbox.h"

namespace sluice::mpi {

// The end of one rank. Belongs to the port's thread, which may call MPI. Nothing blocks. Errors of
// MPI are Code::io; after one the slot is of no use.
class Slot {
 public:
  // Uses tags `tag` and `tag + 1` of the communicator for itself. The library outlives it.
  Slot(const Library& library, Comm comm, std::uint32_t rank, std::uint32_t workers, int tag);

  // As Carrier says, of one exchange: Code::exhausted while is_busy().
  Status post(const Ticket& ticket, const Place& place, std::span<const Round> leg);
  Result<std::span<const Answer>> take(const Ticket& ticket);
  // Goes as far as possible without blocking.
  void advance();

  // Posted and not taken.
  [[nodiscard]] bool is_busy() const { return busy_; }
  // take() has something, be it an error.
  [[nodiscard]] bool is_ready() const { return busy_ && stage_ == Stage::idle; }
  // MPI has nothing of this slot in hand.
  [[nodiscard]] bool is_settled() const { return settled_; }
  [[nodiscard]] double combine_seconds() const { return combine_seconds_; }
  [[nodiscard]] std::string explain(const Ticket& ticket);

  // Takes back what is posted: rounds are not looked at any more. MPI may still write into this
  // slot's own memory, so that stays until the process ends.
  static void abandon(std::unique_ptr<Slot> slot);

 private:
  enum class Stage : std::uint8_t { idle, gathering, spreading };

  Status go_on();
  Status begin(Stage stage);
  Status send_shards();
  Status send_answer();
  Status receive();

  const Library& mpi_;
  std::uint32_t rank_;
  std::uint32_t workers_;
  int tag_;
  Mailbox mail_;
  Fusion fusion_;
  Stage stage_ = Stage::idle;
  bool busy_ = false;
  bool settled_ = true;
  Error error_;  // of MPI; those of a leg are the fusion's
  double combine_seconds_ = 0;
  AlignedBuffer sent_;
};

}  // namespace sluice::mpi
