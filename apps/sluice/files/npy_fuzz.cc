// Feeds arbitrary bytes to the .npy parser.
#include <cstddef>
#include <cstdint>
#include <span>

#include "apps/sluice/files/npy.h"
#include "base/assert.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto array = sluice::cli::parse_npy(std::as_bytes(std::span(data, size)), "fuzz.npy");
  if (array) {
    SLUICE_ASSERT(array->values.size() * 2 <= size);
  } else {
    SLUICE_ASSERT(array.error().message.find('\n') == std::string::npos);
  }
  return 0;
}
