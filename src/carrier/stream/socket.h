// UDP sockets that move many datagrams per call, with the kernel's segmentation where it has it.
//
// Sockets do not block. Receivers and senders refer to a socket that outlives them, and belong to
// one thread each. A datagram that is too large for its path is lost, not cut up.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "carrier/stream/address.h"

namespace sluice::stream {

// A descriptor that closes itself; -1: none.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// Bound to an address (port 0: any), not connected: an aggregator's. Code::io names the address and
// the system's reason.
Checked<Socket> open_bound(const SocketAddress& address);
// Connected: a worker's. Says nothing about whether anybody listens there.
Checked<Socket> open_connected(const SocketAddress& target);
// Where it is bound, port included.
SocketAddress address_of(const Socket& socket);
// The largest datagram, in bytes, that the connected socket's path takes, as far as the kernel
// knows.
std::uint32_t datagram_size(const Socket& socket, const SocketAddress& target);
// Bytes of the receive buffer that the kernel really gave.
std::size_t receive_buffer_size(const Socket& socket);

// One datagram that was received.
struct Received {
  std::span<const std::byte> bytes;
  const SocketAddress* from = nullptr;  // of sockets that are not connected
};

// Receives in batches into memory of its own.
class Receiver {
 public:
  // Datagrams of up to datagram_max bytes; trains of them, where the kernel joins them. Longer
  // datagrams may come cut off. Takes up to 4 MiB; receive() takes next to nothing.
  Receiver(const Socket& socket, std::size_t datagram_max);
  // What is there, without waiting. Valid until the next call. Code::io: the socket's error.
  Result<std::span<const Received>> receive();
  // Of a connected socket: whether the other host has ever said that nobody listens there.
  [[nodiscard]] bool was_refused() const { return refused_; }

 private:
  int descriptor_;
  bool refused_ = false;
  std::size_t room_;
  AlignedBuffer memory_;
  std::vector<SocketAddress> addresses_;
  std::vector<iovec> vectors_;
  std::vector<mmsghdr> messages_;
  AlignedBuffer control_;
  std::vector<Received> received_;
};

// Collects datagrams and sends them in batches. Memory grows to the largest batch.
class Sender {
 public:
  explicit Sender(const Socket& socket);
  // Two extents make one datagram. They and the address stay put until flush(). A null address: the
  // socket is connected.
  void add(std::span<const std::byte> header, std::span<const std::byte> payload,
           const SocketAddress* to);
  // Sends all; what the kernel does not take is lost, as datagrams are. Returns the bytes sent.
  std::size_t flush();
  [[nodiscard]] std::size_t count() const { return entries_.size(); }

 private:
  struct Entry {
    std::span<const std::byte> header;
    std::span<const std::byte> payload;
    const SocketAddress* to = nullptr;
  };

  std::size_t train_at(std::size_t first) const;
  void lay_out();

  int descriptor_;
  bool segments_;  // the kernel cuts trains
  std::vector<Entry> entries_;
  std::vector<iovec> vectors_;
  std::vector<mmsghdr> messages_;
  AlignedBuffer control_;
};

}  // namespace sluice::stream
