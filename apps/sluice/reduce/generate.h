// Generated gradients: the same for the same seed, whoever makes them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace sluice::cli {

// normal; layers: scales differ by layer, as in a real model; sparse: one in 64 is not zero.
inline constexpr std::array<std::string_view, 3> kGradientKinds{"normal", "layers", "sparse"};

// What the workers share plus what is each one's own, as in data-parallel training. A shorter
// gradient is the beginning of a longer one. The kind is one of kGradientKinds. Any thread.
void generate_gradient(std::string_view kind, std::uint64_t seed, std::uint32_t rank,
                       std::span<float> into);

}  // namespace sluice::cli
