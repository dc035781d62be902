// What a network of processes offers to a FusedPort: three collectives, one at a time.
//
// Every rank starts the same ones in the same order. Bytes lie in four buffers of the network's
// own, so that it decides what memory they are.
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
  enum class Buffer : std::uint8_t { send, received, answer, gathered };
  static constexpr std::size_t kBuffers = 4;
  enum class Kind : std::uint8_t {
    all_to_all = 1,  // send_sizes[r] bytes to rank r, receive_sizes[r] from it, back to back
    all_gather = 2,  // `count` bytes of every rank, in order of rank
    max = 3,         // of `count` int32 lanes, in place
    sum = 4,         // the same, modulo 2^32
  };
  struct Call {
    Kind kind = Kind::all_to_all;
    Buffer from = Buffer::send;  // from its first byte on
    Buffer to = Buffer::received;
    std::span<const std::uint64_t> send_sizes = {};
    std::span<const std::uint64_t> receive_sizes = {};
    std::uint64_t count = 0;
    bool is_small = false;  // 64 KiB at most, on every rank alike
    Topic topic = {};       // what it is about, for the words of a failure
  };

  virtual ~Collectives() = default;
  // At least so many bytes; what was there may be lost. Fewer: there is no memory.
  virtual std::span<std::byte> reserve(Buffer buffer, std::size_t size) = 0;
  // What the call names stays put until it is done.
  virtual Status start(const Call& call) = 0;
  // Whether it is done: then the bytes are there.
  virtual Result<bool> test() = 0;
  // Blocks until it is. Code::timeout, or whatever the network says.
  virtual Status wait(std::chrono::nanoseconds timeout) = 0;
};

}  // namespace sluice
