// One worker's leg of an exchange, made up by a test of carriers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "round/reduction.h"
#include "round/round.h"

namespace sluice::support {

// One worker's rounds of one leg of one exchange, with the memory behind them.
struct LegByHand {
  using Bytes = std::vector<std::byte>;

  void add(const Reduction& what, std::uint32_t workers, Bytes up) {
    ups.push_back(std::make_unique<Bytes>(std::move(up)));
    downs.push_back(std::make_unique<Bytes>(down_size_max(what, workers)));
    rounds.push_back({what, *ups.back(), *downs.back(), {}});
  }

  std::vector<std::unique_ptr<Bytes>> ups;
  std::vector<std::unique_ptr<Bytes>> downs;
  std::vector<Round> rounds;
};

}  // namespace sluice::support
