// What a worker of a job is told once. All but the rank is the same on every rank.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "codec/codec.h"
#include "device/device_memory.h"

namespace sluice {

struct GroupOptions {
  std::uint32_t rank = 0;
  std::uint32_t workers = 1;
  std::uint64_t seed = 0;
  std::string feedback = "none";         // its SPEC (catalog/feedbacks.h)
  std::uint32_t chunk_count = 1u << 16;  // coordinates per chunk, fitted to the codec's plan
  std::uint32_t window = 4;              // chunks in flight
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);
  // Feedback's memories can be taken back to what they were before a step, for a copy of them.
  bool keep_before = false;
  // Where feedback's memories are; null: on the host. Outlives the memory.
  const device::Accelerator* accelerator = nullptr;
};

// Code::invalid_argument names a number that is out of range. The feedback is not looked at.
Verdict check(const GroupOptions& options);

// Coordinates per chunk where one call reduces one tensor. A codec with a budget for the whole
// model learns it between steps; in a first step the budget is the chunk's, so the tensor is one
// chunk as far as the codec's plan allows.
std::uint32_t chunk_count_of_one_call(const Traits& traits);

}  // namespace sluice
