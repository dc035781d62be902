// Where an aggregator's frames go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/frame.h"

namespace sluice::protocol {

// Where a worker is, as the network knows it. The protocol only compares addresses, and tells hosts
// apart. The address is a number of 128 bits; IPv4 is mapped into IPv6.
struct Address {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  std::uint32_t port = 0;
  std::uint32_t scope = 0;

  friend bool operator==(const Address&, const Address&) = default;
};

// An aggregator's way to the network. Called on the aggregator's thread, within its receive().
class Outbox {
 public:
  virtual ~Outbox() = default;
  // Header and payload are one datagram, the same for all of `to`. Copied before this returns.
  // Does not fail: what cannot be sent is lost, as datagrams are.
  virtual void send(std::span<const Address> to,
                    std::span<const std::byte, wire::kHeaderSize> header,
                    std::span<const std::byte> payload) = 0;
};

}  // namespace sluice::protocol
