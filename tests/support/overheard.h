// A codec without its fused pass, so that it tells a keeper what it sent, and what it tells.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "codec/codec.h"

namespace sluice::support {

// What the exchanges of one step told, by rank and tensor. Not for several threads.
struct Told {
  struct OfTensor {
    std::vector<double> sent;
    std::vector<std::uint8_t> times;  // that a coordinate was told of
  };
  std::map<std::pair<std::uint32_t, std::uint64_t>, OfTensor> of;  // rank and id
  std::string complaint;  // empty: every mean was written after its coordinate was told of
};

// Both outlive it. Without `told`, nobody listens.
std::unique_ptr<Codec> without_fused_pass(const Codec& codec, Told* told = nullptr);

}  // namespace sluice::support
