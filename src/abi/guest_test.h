// A worker's end of collectives as a program in C offers it, which tests can spoil.
#pragma once

#include <gtest/gtest.h>
#include <sluice/sluice.h>

#include <array>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "carrier/collectives.h"

namespace sluice::abi {

inline void says(const std::string& words) {
  EXPECT_NE(std::string(sluice_last_error()).find(words), std::string::npos) << sluice_last_error();
}

inline void refused(sluice_code code, const std::string& words) {
  EXPECT_EQ(code, SLUICE_INVALID_ARGUMENT);
  says(words);
}

// Collectives of a worker that is alone: every one is a copy. It believes the sizes that it is
// told, as networks do.
class Copies final : public Collectives {
 public:
  std::span<std::byte> reserve(Buffer buffer, std::size_t size) override {
    AlignedBuffer& one = buffers_[static_cast<std::size_t>(buffer)];
    grow(one, size);
    return one.bytes();
  }
  Status start(const Call& call) override {
    if (call.from == call.to) return ok();
    const bool all_to_all = call.kind == Kind::all_to_all;
    const std::uint64_t size =
        all_to_all ? std::min(call.send_sizes[0], call.receive_sizes[0]) : call.count;
    std::memcpy(reserve(call.to, 0).data(), reserve(call.from, 0).data(), size);
    return ok();
  }
  Result<bool> test() override { return true; }
  Status wait(std::chrono::nanoseconds /*timeout*/) override { return ok(); }

 private:
  std::array<AlignedBuffer, kBuffers> buffers_;
};

class Guest {
 public:
  Guest(Collectives& inner, std::uint32_t workers) : inner_(inner), workers_(workers) {}
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;

  [[nodiscard]] sluice_collectives calls() {
    return {sizeof(sluice_collectives), this, &reserve, &start, &test, &wait};
  }
  // Collectives that were started.
  [[nodiscard]] std::uint64_t started() const { return started_; }

  // Whether the collective can be started, by its number from 0, and waited for.
  std::function<bool(std::uint64_t)> starts = [](std::uint64_t) { return true; };
  std::function<bool(std::uint64_t)> waits = [](std::uint64_t) { return true; };
  // What becomes of bytes that have come.
  std::function<void(const sluice_collective&, std::span<std::byte>)> spoil;
  // The buffer that there is no memory for, and how far the others are from where they should be.
  std::uint32_t missing = ~std::uint32_t{0};
  std::size_t shift = 0;

 private:
  static Guest& of(void* context) { return *static_cast<Guest*>(context); }
  static Collectives::Buffer buffer(std::uint32_t which) {
    return static_cast<Collectives::Buffer>(which);
  }
  static void* reserve(void* context, std::uint32_t which, std::uint64_t bytes) {
    Guest& guest = of(context);
    if (which == guest.missing) return nullptr;
    return guest.inner_.reserve(buffer(which), bytes + guest.shift).data() + guest.shift;
  }
  static int start(void* context, const sluice_collective* what) {
    Guest& guest = of(context);
    EXPECT_EQ(what->size, sizeof(sluice_collective));
    guest.what_ = *what;
    if (!guest.starts(guest.started_++)) return 1;
    Collectives::Call call{.kind = static_cast<Collectives::Kind>(what->kind),
                           .from = buffer(what->from),
                           .to = buffer(what->to),
                           .count = what->count};
    if (what->kind == SLUICE_ALL_TO_ALL) {
      call.send_sizes = {what->send_sizes, guest.workers_};
      call.receive_sizes = {what->receive_sizes, guest.workers_};
    }
    return guest.inner_.start(call) ? 0 : 2;
  }
  static int test(void* context, std::uint32_t* done) {
    const Result<bool> is_done = of(context).inner_.test();
    if (!is_done) return 3;
    *done = *is_done ? 1 : 0;
    if (*is_done) of(context).arrived();
    return 0;
  }
  static int wait(void* context, double seconds) {
    EXPECT_GT(seconds, 0);
    Guest& guest = of(context);
    if (!guest.inner_.wait(std::chrono::seconds(60))) return 4;
    if (!guest.waits(guest.started_ - 1)) return 5;
    guest.arrived();
    return 0;
  }
  void arrived() {
    if (!spoil) return;
    std::uint64_t size = what_.count;
    if (what_.kind == SLUICE_ALL_TO_ALL) {
      const std::span sizes(what_.receive_sizes, workers_);
      size = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
    } else {
      size *= what_.kind == SLUICE_ALL_GATHER ? workers_ : sizeof(std::int32_t);
    }
    spoil(what_, inner_.reserve(buffer(what_.to), 0).first(size));
  }

  Collectives& inner_;
  std::uint32_t workers_;
  sluice_collective what_{};
  std::uint64_t started_ = 0;
};

}  // namespace sluice::abi
