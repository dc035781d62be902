// Copies that block, for start-up and between steps.
//
// They run on a stream of their own, which waits for no other. So whatever was submitted on other
// streams and has to do with these bytes is done before: a finished bucket's work is.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "device/device_memory.h"

namespace sluice::device {

// Each may throw bad_alloc: what the host has goes through memory that the device reaches.
Status to_device(const Accelerator& on, std::span<const std::byte> from, std::byte* to);
Status to_host(const Accelerator& on, const std::byte* from, std::span<std::byte> to);
Status on_device(const Accelerator& on, const std::byte* from, std::byte* to, std::size_t size);

}  // namespace sluice::device
