// Any bytes in any pieces as the head of a request: the same outcome as in one piece, and what is
// accepted has a path of visible letters.
#include "http_request.h"

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>

#include "base/assert.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using sluice::daemon::RequestHead;
  FuzzedDataProvider data(bytes, size);
  const std::size_t piece = data.ConsumeIntegralInRange<std::size_t>(1, 64);
  // Longer than what is read of the input, so that the limit is met.
  std::string text(data.PickValueInArray<std::size_t>({0, 0, 0, 8100, 8192, 70000}), 'x');
  text.insert(data.ConsumeIntegralInRange<std::size_t>(0, text.size()),
              data.ConsumeRemainingBytesAsString());
  const auto whole = RequestHead().add(text);
  RequestHead head;
  std::optional<sluice::daemon::Request> request;
  for (std::size_t at = 0; at < text.size() && !request; at += piece) {
    request = head.add(std::string_view(text).substr(at, piece));
  }
  SLUICE_ASSERT(request.has_value() == whole.has_value());
  if (!request) return 0;
  SLUICE_ASSERT(request->refusal == whole->refusal && request->path == whole->path);
  const int refusal = request->refusal;
  SLUICE_ASSERT(refusal == 0 || refusal == 400 || refusal == 405 || refusal == 431);
  SLUICE_ASSERT(refusal == 431 || text.find('\n') != std::string::npos);
  SLUICE_ASSERT(std::ranges::all_of(request->path, [](char c) { return c > ' ' && c < '\x7f'; }));
  return 0;
}
