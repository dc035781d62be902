// What a network of processes offers to a FusedPort: three collectives, one at a time.
//
// Every rank starts the same ones in the same order. Bytes lie in four buffers of the network's
// own, so that it decides what memory they are. An implementation is called by one port, on the
// thread that is in the port. Any error ends the port.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "round/topic.h"

namespace sluice {

class Collectives {
 public:
  // The last four lie on the device of the port's bench, where the port has one. Collectives from
  // and to these follow the bench's stream: what was submitted before is done first, and the bytes
  // are there for what is submitted once the collective is `done`. Beside a device buffers may
  // share memory: `gathered` with `received`, on either side, and `device_answer` with
  // `device_send`. So a port looks at one no more once it has reserved the other.
  enum class Buffer : std::uint8_t {
    send,
    received,
    answer,
    gathered,
    device_send,
    device_received,
    device_answer,
    device_gathered
  };
  static constexpr std::size_t kBuffers = 8;
  enum class Kind : std::uint8_t {
    all_to_all = 1,  // send_sizes[r] bytes to rank r, receive_sizes[r] from it, back to back
    all_gather = 2,  // `count` bytes of every rank, in order of rank
    max = 3,         // of `count` int32 lanes, in place
    sum = 4,         // the same, modulo 2^32
  };
  // What one collective is. Both ends are read and written from their first byte on.
  struct Call {
    Kind kind = Kind::all_to_all;
    Buffer from = Buffer::send;
    Buffer to = Buffer::received;
    std::span<const std::uint64_t> send_sizes = {};
    std::span<const std::uint64_t> receive_sizes = {};
    std::uint64_t count = 0;
    bool is_small = false;  // 64 KiB at most; the same on every rank
    Topic topic = {};       // what it is about, for the words of a failure
  };

  virtual ~Collectives() = default;
  // At least so many bytes, aligned to 4; what was there may be lost. Fewer: there is no memory.
  // The bytes stay put until the next reserve() of the same buffer. Nothing is on its way.
  virtual std::span<std::byte> reserve(Buffer buffer, std::size_t size) = 0;
  // Begins a collective and does not wait for others. The sizes that the call names stay put until
  // it is done; the call itself does not. The one before is done.
  virtual Status start(const Call& call) = 0;
  // Whether what was started is done: then the bytes are there. Does not wait for others.
  virtual Result<bool> test() = 0;
  // Blocks until what was started is done. Code::timeout, or whatever the network says.
  virtual Status wait(std::chrono::nanoseconds timeout) = 0;
};

}  // namespace sluice
