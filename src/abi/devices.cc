// The C functions over devices.
#include <fmt/format.h>

#include <string>

#include "abi/edge.h"
#include "device/cuda_library.h"

using sluice::Code;
using sluice::Nothing;
using sluice::Problem;
using sluice::Verdict;
using sluice::abi::call;
using sluice::abi::check_pointers;
using sluice::abi::invalid;

extern "C" {

const char* sluice_gpu_status(void) {
  return sluice::abi::value("out of memory", [] {
    static const std::string status = [] {
      const auto found = sluice::device::cuda();
      return found ? std::string() : found.error().message;
    }();
    return status.c_str();
  });
}

sluice_code sluice_device_open(uint32_t number, sluice_device** device) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{device, "device"}}));
    SLUICE_TRY_ASSIGN(const sluice::device::Table* const table, sluice::device::cuda());
    int count = 0;
    static_cast<void>(table->count(&count));
    if (static_cast<std::int64_t>(number) >= count) {
      return invalid(fmt::format("device {}; accepted: below {}", number, count));
    }
    const int error = table->open(static_cast<int>(number));
    if (error != 0) {
      return Problem{Code::io, fmt::format("device {}: {}", number, table->describe(error))};
    }
    auto made = std::make_unique<sluice_device>();
    made->on = std::make_shared<const sluice::device::Accelerator>(
        sluice::device::Accelerator{table, static_cast<int>(number)});
    *device = made.release();
    return Nothing{};
  });
}

void sluice_device_free(sluice_device* device) { std::unique_ptr<sluice_device>{device}; }

}  // extern "C"
