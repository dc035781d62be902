#include "codec/dense/dense_device.h"

#include "device/bench.h"
#include "kernels/warp/items.h"

namespace sluice::dense {
namespace {

// Floats of a format from coordinate `first` on.
const void* at(const void* floats, floats::Format format, std::uint32_t first) {
  return static_cast<const std::byte*>(floats) + floats::size_of(format) * first;
}
void* at(void* floats, floats::Format format, std::uint32_t first) {
  return static_cast<std::byte*>(floats) + floats::size_of(format) * first;
}

}  // namespace

Result<Leg> DenseDeviceExchange::next(std::span<const Answer> answers) {
  device::Bench& bench = *chunk_.place.bench;
  switch (at_) {
    case At::start:
      encode();
      at_ = At::encoded;
      // Bytes for a carrier on the device follow in its own order.
      if (chunk_.place.is_shared) return wait();
      [[fallthrough]];
    case At::encoded: at_ = At::asked; return ask({&round_, 1}, chunk_.place.of_wire());
    case At::asked:
      if (answers.size() != 1) return Error{Code::malformed, 0, "dense: one answer expected"};
      SLUICE_TRY(check_answer(round_, answers[0], chunk_.extent.workers));
      for (const Part& part : answers[0].parts) decode(answers[0], part);
      at_ = At::decoded;
      return wait();
    case At::decoded: break;
  }
  SLUICE_TRY(bench.judge());
  return done();
}

void DenseDeviceExchange::encode() {
  warp::Dense item;
  item.values = chunk_.there.gradient;
  item.residual = chunk_.there.residual;
  item.values_format = chunk_.there.format;
  item.wire_format = float_format(round_.what.op);
  item.count = chunk_.extent.count;
  item.scale = scale_;
  item.up = up_.data();
  item.finding = chunk_.place.bench->finding();
  chunk_.place.bench->encode(item);
}

void DenseDeviceExchange::decode(const Answer& answer, const Part& part) {
  const DeviceFloats& there = chunk_.there;
  warp::Dense item;
  item.values = at(there.gradient, there.format, part.first);
  item.mean = at(there.mean, there.format, part.first);
  item.values_format = item.mean_format = there.format;
  item.wire_format = float_format(round_.what.op);
  if (there.residual != nullptr) item.residual = there.residual + part.first;
  item.count = part.count;
  item.scale = scale_;
  item.divisor = static_cast<float>(part.from.count());
  item.counted = part.from.has(chunk_.extent.rank) ? 1 : 0;
  const std::size_t first = floats::size_of(item.wire_format) * part.first;
  item.up = up_.data() + first;
  item.down = answer.down.data() + first;
  item.finding = chunk_.place.bench->finding();
  chunk_.place.bench->decode(item);
}

}  // namespace sluice::dense
