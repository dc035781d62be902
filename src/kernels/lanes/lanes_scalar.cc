// The specification of the lane kernels: plain loops over single lanes.
#include "kernels/lanes/lanes.h"

namespace sluice::lanes::scalar {
namespace {

constexpr std::uint64_t low_bits(unsigned bits) { return (std::uint64_t{1} << bits) - 1; }

// Takes lanes one after the other off a run of bytes.
class Reader {
 public:
  Reader(std::span<const std::byte> packed, unsigned bits) : packed_(packed), bits_(bits) {}

  std::uint32_t next() {
    while (held_ < bits_) {
      pending_ |= std::to_integer<std::uint64_t>(packed_[at_++]) << held_;
      held_ += 8;
    }
    const std::uint64_t lane = pending_ & low_bits(bits_);
    pending_ >>= bits_;
    held_ -= bits_;
    return static_cast<std::uint32_t>(lane);
  }

 private:
  std::span<const std::byte> packed_;
  unsigned bits_;
  std::size_t at_ = 0;
  std::uint64_t pending_ = 0;
  unsigned held_ = 0;
};

template <class Lane>
void pack_lanes(std::span<const Lane> lanes, unsigned bits, std::span<std::byte> packed) {
  std::size_t at = 0;
  std::uint64_t pending = 0;
  unsigned held = 0;
  for (const Lane lane : lanes) {
    pending |= (std::uint64_t{lane} & low_bits(bits)) << held;
    for (held += bits; held >= 8; held -= 8) {
      packed[at++] = static_cast<std::byte>(pending & 0xFF);
      pending >>= 8;
    }
  }
  if (held > 0) packed[at] = static_cast<std::byte>(pending);
}

template <class Lane>
void unpack_lanes(std::span<const std::byte> packed, unsigned bits, std::span<Lane> lanes) {
  Reader reader(packed, bits);
  for (Lane& lane : lanes) lane = static_cast<Lane>(reader.next());
}

template <class Lane>
void add_lanes(std::span<const std::byte> packed, unsigned bits,
               std::span<const std::uint16_t> table, std::span<Lane> sums) {
  Reader reader(packed, bits);
  for (Lane& sum : sums) {
    const std::uint32_t code = reader.next();
    sum = static_cast<Lane>(sum + (table.empty() ? code : table[code]));
  }
}

}  // namespace

void pack(std::span<const std::uint8_t> lanes, unsigned bits, std::span<std::byte> packed) {
  pack_lanes(lanes, bits, packed);
}
void pack(std::span<const std::uint16_t> lanes, unsigned bits, std::span<std::byte> packed) {
  pack_lanes(lanes, bits, packed);
}
void pack(std::span<const std::uint32_t> lanes, unsigned bits, std::span<std::byte> packed) {
  pack_lanes(lanes, bits, packed);
}

void unpack(std::span<const std::byte> packed, unsigned bits, std::span<std::uint8_t> lanes) {
  unpack_lanes(packed, bits, lanes);
}
void unpack(std::span<const std::byte> packed, unsigned bits, std::span<std::uint16_t> lanes) {
  unpack_lanes(packed, bits, lanes);
}
void unpack(std::span<const std::byte> packed, unsigned bits, std::span<std::uint32_t> lanes) {
  unpack_lanes(packed, bits, lanes);
}

void add(std::span<const std::byte> packed, unsigned bits, std::span<const std::uint16_t> table,
         std::span<std::uint8_t> sums) {
  add_lanes(packed, bits, table, sums);
}
void add(std::span<const std::byte> packed, unsigned bits, std::span<const std::uint16_t> table,
         std::span<std::uint16_t> sums) {
  add_lanes(packed, bits, table, sums);
}
void add(std::span<const std::byte> packed, unsigned bits, std::span<const std::uint16_t> table,
         std::span<std::uint32_t> sums) {
  add_lanes(packed, bits, table, sums);
}

}  // namespace sluice::lanes::scalar
