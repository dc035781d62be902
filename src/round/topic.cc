#include "round/topic.h"

#include <fmt/format.h>

namespace sluice {

std::string difference(const Topic& a, std::string_view name_a, const Topic& b,
                       std::string_view name_b) {
  std::string text;
  const auto add = [&](std::string_view more) {
    if (!text.empty()) text += ", ";
    text += more;
  };
  const auto compare = [&](std::string_view what, std::uint64_t mine, std::uint64_t other) {
    if (mine == other) return;
    add(fmt::format("{} ({}: {}, {}: {})", what, name_a, mine, name_b, other));
  };
  compare("step", a.step, b.step);
  compare("seed", a.seed, b.seed);
  compare("bucket", a.bucket, b.bucket);
  if (a.codec != b.codec) add("codec or its options");
  compare("coordinates per chunk", a.chunk, b.chunk);
  if (a.tensor != b.tensor) {
    add(fmt::format("tensor (id {:x} of {}, {:x} of {})", a.tensor, name_a, b.tensor, name_b));
  }
  compare("place in the tensor", a.offset, b.offset);
  compare("coordinates of the chunk", a.count, b.count);
  return text;
}

}  // namespace sluice
