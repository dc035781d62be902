// The outbox of an aggregator on a socket: frames of one batch, sent at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "carrier/stream/socket.h"
#include "protocol/outbox.h"

namespace sluice::stream {

// Frames are sent by target, so that trains form; frames to one target keep their order. A batch
// costs what it has: nothing is remembered of targets, or searched, from one batch to the next.
// Belongs to one thread. Memory grows to the largest batch and is then reused.
class Post final : public protocol::Outbox {
 public:
  // The socket outlives it, and is not connected.
  explicit Post(const Socket& socket);

  void send(std::span<const protocol::Address> to,
            std::span<const std::byte, wire::kHeaderSize> header,
            std::span<const std::byte> payload) override;
  // Sends the batch; the next one begins. What the kernel does not take is lost.
  void flush();

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  using Copy = std::vector<std::byte>;
  struct Target {
    protocol::Address address;
    SocketAddress socket_address;
    std::size_t place = 0;  // in the table
    std::vector<const Copy*> waiting;
  };

  Copy& next_copy();
  Target& target_of(const protocol::Address& address);
  // Where in the table it is, or is to be.
  [[nodiscard]] std::size_t place_of(const protocol::Address& address) const;
  void grow_table();

  Sender sender_;
  int family_;
  // Both keep the memory of their elements; so many are of this batch.
  std::vector<std::unique_ptr<Copy>> copies_;
  std::size_t copies_used_ = 0;
  std::vector<Target> targets_;
  std::size_t targets_used_ = 0;
  // Indices of targets, at the hash of their addresses or behind: a power of two, half of it free.
  std::vector<std::uint32_t> table_;
};

}  // namespace sluice::stream
