// What a job may have of an aggregator: as a whole or not at all.
//
// How much a job gets depends on the limits alone, so it gets the same at every time: at most a
// quarter of the slots and of the memory. What others hold decides only whether it is admitted. A
// host that has jobs here already leaves a quarter of every limit to other hosts. So nobody can
// lock the aggregator by joining again and again.
//
// Functions have no state and never fail: any thread may call them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "protocol/outbox.h"
#include "protocol/time.h"

namespace sluice::protocol {

// Jobs and slots are at least 1.
struct Limits {
  std::uint32_t jobs_max = 64;
  std::uint32_t slots_max = 8192;                 // of all jobs together
  std::size_t memory_max = std::size_t{1} << 30;  // of all slots of all jobs
  // A job of which nothing was heard for so long is forgotten. Its workers join again when they
  // come back, and bring what they need.
  Time lease = std::chrono::seconds(60);
};

// Whom a job is charged to: a host, or a network of 64 bits in IPv6.
struct Host {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend bool operator==(const Host&, const Host&) = default;
};

Host host_of(const Address& address);

// What is taken, or asked for.
struct Share {
  std::uint32_t jobs = 0;
  std::uint32_t slots = 0;
  std::size_t memory = 0;

  void add(const Share& other) {
    jobs += other.jobs;
    slots += other.slots;
    memory += other.memory;
  }
};

// How many slots a job gets that asks for so many, of so many bytes each; 0: not one fits.
// `slot_size` is not 0.
std::uint32_t slots_of_job(const Limits& limits, std::uint32_t asked, std::size_t slot_size);

// Why there is no room for `asked`, for a person; empty: there is. `all` is what all jobs hold,
// `same_host` the part of it that the asking host holds.
std::string no_room(const Limits& limits, const Share& all, const Share& same_host,
                    const Share& asked);

}  // namespace sluice::protocol
