// The counts of one driver in a step, by codec. Belongs to the driver's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

class Memory;
using Choice = std::uint32_t;  // number of a codec in a memory's table

class Tally {
 public:
  // Zeros for all codecs that the memory has. Allocates where it has more than before.
  void reset(const Memory& memory);

  [[nodiscard]] std::size_t codec_count() const { return ends_.size(); }
  // The counts of a codec, below codec_count(). Valid until the next reset().
  [[nodiscard]] std::span<std::uint64_t> of(Choice choice) {
    return std::span(counts_).subspan(first(choice), ends_[choice] - first(choice));
  }
  [[nodiscard]] std::span<const std::uint64_t> of(Choice choice) const {
    return std::span(counts_).subspan(first(choice), ends_[choice] - first(choice));
  }

 private:
  [[nodiscard]] std::size_t first(Choice choice) const {
    return choice == 0 ? 0 : ends_[choice - 1];
  }

  std::vector<std::uint64_t> counts_;  // of all codecs, end to end
  std::vector<std::size_t> ends_;
};

}  // namespace sluice
