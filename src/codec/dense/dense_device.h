// Dense floats of a chunk on a device: the same bytes and bits as the exchange of the host.
#pragma once

#include "codec/chunk.h"
#include "codec/exchange.h"

namespace sluice::dense {

class DenseDeviceExchange final : public Exchange {
 public:
  // For Arena::make(). The round has its reduction and memory; `scale` is what the host's has. The
  // chunk's place has a bench.
  DenseDeviceExchange(const Chunk& chunk, const Round& round, std::span<std::byte> up, float scale)
      : chunk_(chunk), round_(round), up_(up), scale_(scale) {}
  Result<Leg> next(std::span<const Answer> answers) override;

 private:
  enum class At : std::uint8_t { start, encoded, asked, decoded };

  void encode();
  void decode(const Answer& answer, const Part& part);

  Chunk chunk_;
  Round round_;
  std::span<std::byte> up_;
  float scale_;
  At at_ = At::start;
};

}  // namespace sluice::dense
