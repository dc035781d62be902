// The bytes of a saved memory: the one form in which C, C++ and Python save what a worker keeps.
//
//   magic "SLUICEGS"  version u32 (2)  rank u32  workers u32
//   feedback: id u32, spec: size u32, bytes
//   codecs that tensors have chosen, in the order of the first that did: count u32
//   per codec: spec: size u32, bytes    model: size u64, bytes
//   tensors: count u64
//   per tensor: id u64, rows u64, cols u64, codec u32 (place in that list), kind u32 (0, or 1:
//   brings
//     rows), state: size u64, bytes    memories: count u32, per memory: count u64, float32*
//   checksum u64 over everything before it
// All little-endian. Version 1 is read too. It had one codec and at most one memory:
//   magic  version u32 (1)  rank u32  workers u32  feedback: id u32
//   spec: size u32, bytes          model: size u64, bytes          tensors: count u64
//   per tensor: id u64, rows u64, cols u64, state size u64, bytes, residual count u64, float32*
//   checksum u64
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/codec.h"

namespace sluice {

struct SavedCodec {
  std::string_view spec;
  std::span<const std::byte> model;
};

struct SavedTensor {
  Tensor tensor;
  std::uint32_t codec = 0;  // its place in the list
  bool rows = false;
  std::span<const std::byte> state;
  std::vector<std::span<const std::byte>> memories;  // float32*, finite; none or one per name

  // Whether it had memories at all, whatever their values: all ranks must come to the same.
  [[nodiscard]] bool keeps() const;
};

// What a saved memory holds. Everything points to where it was found: into the bytes, or into the
// memory that is to be saved.
struct Saved {
  std::uint32_t rank = 0;
  std::uint32_t workers = 0;
  std::uint32_t feedback = 0;      // id of the kind
  std::string_view feedback_spec;  // for people: its options say nothing of what is kept
  std::vector<SavedCodec> codecs;
  std::vector<SavedTensor> tensors;

  [[nodiscard]] const SavedCodec& codec_of(std::size_t tensor) const {
    return codecs[tensors[tensor].codec];
  }
};

// Any bytes: Code::malformed, with what is wrong. Takes memory for what the bytes have, never for
// what they claim.
Checked<Saved> parse_saved(std::span<const std::byte> bytes);

// The number of bytes, which are written if there is room for them.
std::size_t write_saved(const Saved& saved, std::span<std::byte> room);

}  // namespace sluice
