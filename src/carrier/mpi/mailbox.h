// Messages from every rank to every rank, without blocking. From point to point and not through
// MPI's collectives, which cannot tell who is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "carrier/mpi/library.h"

namespace sluice::mpi {

// The end of one rank. Belongs to one thread, which may call MPI. Nothing blocks. Errors of MPI are
// Code::io and have its code as detail; after one the mailbox is of no use. While MPI has sends or
// receives in hand the mailbox must stay (keep() of library.h).
class Mailbox {
 public:
  // The library outlives it.
  Mailbox(const Library& library, Comm comm, std::uint32_t rank, std::uint32_t workers);

  // From now on messages have this tag, and one of each rank is awaited. Nobody may send a second
  // one under a tag before everybody has received the first.
  void open(int tag);
  // Each target once, this rank too. Code::io from 2 GiB on. The bytes stay where they are until
  // sends_are_done(), or to this rank until the next open().
  Status send(std::uint32_t target, std::span<const std::byte> bytes);
  // Receives what has come. `most`: sizes by rank to make room for beforehand, or nothing. Messages
  // come from outside and may have any size; memory grows to it.
  Status receive(std::span<const std::uint64_t> most = {});
  // Whether MPI has sent all of all tags so far.
  Result<bool> sends_are_done();

  // Whether the messages of all ranks under this tag are here.
  [[nodiscard]] bool all_here() const { return here_count_ == workers_; }
  // By rank; only of ranks that are here. Valid until the next open().
  [[nodiscard]] std::span<const std::span<const std::byte>> messages() const { return messages_; }
  // Who has not sent, for a person; if all have, who has not received. Allocates.
  [[nodiscard]] std::string missing() const;

 private:
  // What a rank's message is up to.
  enum class Arrival : std::uint8_t { missing, receiving, here };
  struct Sending {
    std::uint32_t target = 0;
    Request request = nullptr;
  };

  Status accept(const Envelope& envelope, Message message, std::span<const std::uint64_t> most);

  const Library& mpi_;
  Comm comm_;
  std::uint32_t rank_;
  std::uint32_t workers_;
  int tag_ = 0;
  std::vector<Sending> sends_;
  std::vector<Request> receives_;  // by rank
  std::vector<Arrival> arrivals_;  // by rank
  std::uint32_t here_count_ = 0;
  std::vector<AlignedBuffer> buffers_;                // by rank
  std::vector<std::span<const std::byte>> messages_;  // by rank
};

}  // namespace sluice::mpi
