// A codec's row in the catalogue: its name, its options with their ranges, and how to make one.
//
// Rows are constants: what they refer to lives as long as the program, and any thread may read
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/assert.h"
#include "base/result.h"
#include "codec/codec.h"

namespace sluice {

// One option: what a user may write after its key.
struct OptionInfo {
  enum class Kind : std::uint8_t { integer, real, choice };

  std::string_view key;
  Kind kind = Kind::integer;
  double preset = 0;   // the default; of a choice: its index
  double minimum = 0;  // integer and real
  double maximum = 0;
  std::uint32_t multiple_of = 1;  // integer
  std::span<const std::string_view> choices = {};
  // A state saved with another value can be loaded: it says what is sent, not what is kept.
  bool resumes = false;
  std::string_view help;
};

inline constexpr std::size_t kOptionsMax = 12;  // of one codec

// Validated values in the order of Info::options; doubles hold every integer option exactly. A
// value; an index is below the number of options, and its kind is the one asked for.
struct OptionValues {
  std::array<double, kOptionsMax> values{};

  [[nodiscard]] std::uint32_t integer(std::size_t index) const {
    return static_cast<std::uint32_t>(values[index]);
  }
  [[nodiscard]] double real(std::size_t index) const { return values[index]; }
  [[nodiscard]] std::size_t choice(std::size_t index) const {
    return static_cast<std::size_t>(values[index]);
  }
};

struct Info {
  std::uint16_t id = 0;  // on the wire; never reused
  std::string_view name;
  std::string_view summary;
  std::string_view paper;
  std::string_view reductions;  // those it asks for, in order
  std::span<const OptionInfo> options = {};
  std::span<const std::string_view> counts = {};  // names of its tally, if people may read it
  // Replaces values that follow the feedback ("auto") by what they mean with it, or without. Null:
  // there are none. Pure, never fails.
  void (*settle)(OptionValues& options, bool feedback) = nullptr;
  // A codec with these options, which are in range one by one. Options that contradict each other
  // are refused here (Code::invalid_argument). Otherwise never null. Any thread; for start-up:
  // allocates, and may take a while.
  Checked<std::unique_ptr<Codec>> (*make)(const OptionValues& options) = nullptr;
};

}  // namespace sluice
