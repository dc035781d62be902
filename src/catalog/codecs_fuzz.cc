// Any text as a codec's spec: a codec whose canonical spec names itself, or one clear line.
#include "catalog/codecs.h"

#include "base/assert.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace sluice;
  const std::string spec(bytes, bytes + size);
  const auto made = make_codec(spec);
  if (!made) {
    SLUICE_ASSERT(made.error().code == Code::invalid_argument);
    SLUICE_ASSERT(!made.error().message.empty() && made.error().message.size() < 4096);
    for (const char c : made.error().message) {
      SLUICE_ASSERT(static_cast<unsigned char>(c) >= 32 && c != 127);
    }
    return 0;
  }
  SLUICE_ASSERT(made->codec != nullptr);
  const auto again = make_codec(made->spec);
  SLUICE_ASSERT(again.has_value() && again->spec == made->spec && again->info == made->info);
  const Plan plan = made->codec->plan({1, 3, 5}, 2);
  const Plan same = again->codec->plan({1, 3, 5}, 2);
  SLUICE_ASSERT(plan.multiple_of == same.multiple_of && plan.count_max == same.count_max);
  return 0;
}
