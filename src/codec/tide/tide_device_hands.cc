// The hands of a device: work recorded on the chunk's bench.
#include <algorithm>
#include <array>

#include "base/random.h"
#include "codec/tide/faint.h"
#include "codec/tide/tide_hands.h"
#include "device/bench.h"
#include "kernels/warp/items.h"

namespace sluice::tide {
namespace {

static_assert(warp::kTideRounds == Sending::kRounds && warp::kTideExact == kExact);

constexpr std::uint8_t kNone = 0;
constexpr std::uint8_t kZeros = warp::kTideZeros;
constexpr std::uint8_t kAgain = warp::kTideAgain;

// decode_affine() but for whole octaves: those are powers of two, which commute with rounding.
void fill(warp::TideAffines& affines, std::uint32_t contributors,
          const std::array<double, dither::kWidthMax + 1>& constants) {
  for (unsigned width = 1; width <= dither::kWidthMax; ++width) {
    const double step = unit_step(width, contributors);
    for (std::size_t eighth = 0; eighth < 8; ++eighth) {
      const double factor = detail::kEighths[eighth] * step;
      affines.factor[width - 1][eighth] = static_cast<float>(factor);
      affines.centre[width - 1][eighth] = static_cast<float>(factor * constants[width]);
    }
  }
}

class DeviceHands final : public Hands {
 public:
  explicit DeviceHands(Trip& trip) : trip_(trip) {}

  [[nodiscard]] bool is_later() const override { return true; }

  void measure() override {
    warp::TideChunk item = whole();
    item.codes = trip_.mine.data();
    bench().measure(item);
  }

  void encode_agreed(Sending& sending) override {
    warp::TideChunk item = whole();
    item.sendings[0] = sending_of(sending, {});
    item.blocks = list_to_send(sending, trip_.agreed, [&](std::uint32_t b) {
      const bool waits = trip_.mine[b] == kCodeZero && trip_.agreed[b] < kCodeAboveFaint;
      return waits || !trip_.counted ? kZeros : kNone;
    });
    if (&sending == &trip_.first) sent_ = item.blocks;
    bench().encode(item);
  }

  void encode_and_measure() override {
    warp::TideChunk item = whole();
    item.measures = 1;
    item.codes = trip_.mine.data();
    item.sendings[0] = sending_of(trip_.first, {});
    // Who sends zeros the kernel finds out, which measures.
    item.blocks = list_to_send(trip_.first, trip_.before, [](std::uint32_t) { return kNone; });
    bench().encode(item);
  }

  Status finish(std::span<const Answer> first, std::span<const Answer> again) override;

  void encode_exact(std::span<std::byte> up) override {
    warp::Dense item = exact();
    item.up = up.data();
    bench().encode(item);
  }

  void finish_exact(const Answer& answer) override {
    warp::Dense item = exact();
    item.up = trip_.first.memory_up().data();
    item.down = answer.down.data();
    item.divisor = static_cast<float>(answer.parts[0].from.count());
    item.counted = trip_.counted ? 1 : 0;
    bench().decode(item);
  }

 private:
  [[nodiscard]] warp::Dense exact() const {
    warp::Dense item;
    item.values = trip_.chunk.there.gradient;
    item.mean = trip_.chunk.there.mean;
    item.residual = trip_.chunk.there.residual;
    item.values_format = item.mean_format = trip_.chunk.there.format;
    item.count = trip_.chunk.extent.count;
    item.finding = bench().finding();
    return item;
  }
  [[nodiscard]] warp::TideChunk whole() const;
  static warp::TideSending sending_of(const Sending& sending, std::span<const Answer> answers);
  template <class Flags>
  const warp::TideBlock* list_to_send(const Sending& sending, std::span<const Code12> codes,
                                      Flags flags_of);
  const warp::TideBlock* list_returned(bool again);
  const warp::TideAffines* list_affines(std::uint32_t contributors, const SummedDithers* dithers);

  [[nodiscard]] device::Bench& bench() const { return *trip_.chunk.place.bench; }

  Trip& trip_;
  // What was sent with this step's scales comes back in the same places, with the same codes.
  const warp::TideBlock* sent_ = nullptr;
};

warp::TideChunk DeviceHands::whole() const {
  const Chunk& chunk = trip_.chunk;
  warp::TideChunk item;
  item.values = chunk.there.gradient;
  item.residual = chunk.there.residual;
  item.mean = chunk.there.mean;
  item.values_format = item.mean_format = chunk.there.format;
  item.count = chunk.extent.count;
  item.block = trip_.settings.block;
  item.shift = trip_.shift;
  item.element = chunk.extent.offset;
  item.dithers = RandomStream(chunk.key, Purpose::dither, kShared).key();
  const RandomStream signs(chunk.key, Purpose::sign, kShared);
  for (std::uint32_t i = 0; i < trip_.settings.block / 32; ++i) item.signs[i] = signs.word(i);
  item.finding = bench().finding();
  return item;
}

warp::TideSending DeviceHands::sending_of(const Sending& sending, std::span<const Answer> answers) {
  warp::TideSending shown;
  for (std::size_t i = 0; i < Sending::kRounds; ++i) {
    shown.up[i] = sending.up_of(i).data();
    if (!answers.empty()) shown.down[i] = answers[i].down.data();
  }
  return shown;
}

template <class Flags>
const warp::TideBlock* DeviceHands::list_to_send(const Sending& sending,
                                                 std::span<const Code12> codes, Flags flags_of) {
  const auto listed = bench().list<warp::TideBlock>(trip_.layout.blocks());
  Sending::Cursor cursor;
  const std::span<const std::uint8_t> widths = sending.widths();
  const std::uint32_t whole = trip_.layout.whole();
  const std::uint32_t block = trip_.settings.block;
  for (std::uint32_t b = 0; b < trip_.layout.blocks(); ++b) {
    const std::uint32_t size = b < whole ? block : trip_.layout[b].size;
    listed.host[b] = {codes[b], widths[b], flags_of(b), cursor.take(widths[b], size)};
  }
  return listed.device;
}

// Of all who were counted; without dithers: of my own codes alone.
const warp::TideAffines* DeviceHands::list_affines(std::uint32_t contributors,
                                                   const SummedDithers* dithers) {
  const auto listed = bench().list<warp::TideAffines>(1);
  std::array<double, dither::kWidthMax + 1> constants{};
  for (unsigned width = 1; width <= dither::kWidthMax; ++width) {
    constants[width] = dithers != nullptr ? dithers->constant(width) : own_constant(width);
  }
  fill(*listed.host, contributors, constants);
  return listed.device;
}

const warp::TideBlock* DeviceHands::list_returned(bool again) {
  const auto listed = bench().list<warp::TideBlock>(trip_.layout.blocks());
  each_returned(trip_, again, [&](std::uint32_t number, const Returned& returned) {
    const std::uint8_t flags = returned.is_again ? kAgain : kNone;
    listed.host[number] = {returned.code, returned.width, flags, returned.lane};
  });
  return listed.device;
}

Status DeviceHands::finish(std::span<const Answer> first, std::span<const Answer> again) {
  const Chunk& chunk = trip_.chunk;
  const std::uint32_t workers = chunk.extent.workers;
  warp::TideChunk item = whole();
  item.counted = trip_.counted ? 1 : 0;
  item.sendings = {sending_of(trip_.first, first), sending_of(trip_.again, again)};
  for (unsigned width = 1; width <= dither::kWidthMax; ++width) {
    const Reduction& what = trip_.first.rounds()[width - 1].what;
    item.full_bits[width - 1] = static_cast<std::uint8_t>(sum_bits(what, workers));
    item.rounded[width - 1] = is_rounded(what, workers) ? 1 : 0;
    item.extra = what.extra;
  }
  SummedDithers dithers;
  dithers.set(trip_.only, workers);
  const dither::Dithers taken = dithers.dithers();
  item.contributors = dithers.contributors();
  item.dither_times = taken.times;
  if (!taken.table.empty()) {
    const auto listed = bench().list<std::int32_t>(taken.table.size());
    std::copy(taken.table.begin(), taken.table.end(), listed.host);
    item.dither_table = listed.device;
  }
  item.affines = list_affines(item.contributors, &dithers);
  if (chunk.has_feedback()) item.own_affines = list_affines(1, nullptr);
  item.blocks = sent_ != nullptr ? sent_ : list_returned(!again.empty());
  bench().decode(item);
  return ok();
}

}  // namespace

Hands* make_device_hands(Trip& trip, Arena& arena) { return arena.make<DeviceHands>(trip); }

}  // namespace sluice::tide
