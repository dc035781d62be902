#include "codec/dense/dense.h"

#include <array>
#include <bit>

#include "base/bytes.h"
#include "codec/dense/dense_device.h"
#include "codec/input.h"
#include "kernels/warp/items.h"

namespace sluice::dense {
namespace {

constexpr std::uint32_t kGrain = 256;
constexpr std::uint32_t kCountMax = 1u << 20;

// Divides by a power of two of at least n on the way up, so that a float16 sum of finite inputs
// overflows only where the mean itself would. The other formats have range to spare.
float scale_for(Op op, std::uint32_t workers) {
  return op == Op::f16_sum ? 1.0f / static_cast<float>(std::bit_ceil(workers)) : 1.0f;
}

// The one round of a chunk, with memory from the arena.
struct DenseRound {
  DenseRound(const Chunk& chunk, Arena& arena, Op op) {
    const auto bits = static_cast<std::uint8_t>(8 * floats::size_of(float_format(op)));
    round.what = {.op = op, .bits = bits, .count = chunk.extent.count, .grain = kGrain};
    up = arena.place<std::byte>(up_size(round.what));
    round.up = up;
    round.down = arena.place<std::byte>(down_size_max(round.what, chunk.extent.workers));
    round.only = chunk.only;
    round.anywhere = !chunk.place.is_shared;  // A device reads only what lies where it reaches.
  }
  Round round;
  std::span<std::byte> up;
};

class DenseExchange final : public Exchange {
 public:
  DenseExchange(const Chunk& chunk, const DenseRound& made, Op op)
      : chunk_(chunk),
        format_(float_format(op)),
        scale_(scale_for(op, chunk.extent.workers)),
        up_(made.up),
        round_(made.round) {}

  Result<Leg> next(std::span<const Answer> answers) override {
    if (!asked_) return encode();
    if (answers.size() != 1) return Error{Code::malformed, 0, "dense: one answer expected"};
    SLUICE_TRY(check_answer(round_, answers[0], chunk_.extent.workers));
    for (const Part& part : answers[0].parts) decode(answers[0].down, part);
    return done();
  }

 private:
  Result<Leg> encode() {
    asked_ = true;
    floats::encode(format_, chunk_.gradient, scale_, up_);
    return ask({&round_, 1});
  }

  // The keeper first: the mean may be the gradient's own memory.
  void decode(std::span<const std::byte> down, const Part& part) {
    if (chunk_.keeper != nullptr) tell(part);
    floats::decode_mean(format_, wire(down, part.first, part.count), 1.0f / scale_,
                        static_cast<float>(part.from.count()),
                        chunk_.mean.subspan(part.first, part.count));
  }

  void tell(const Part& part) {
    if (!part.from.has(chunk_.extent.rank)) return keep_everything(chunk_, part.first, part.count);
    if (format_ == floats::Format::f32) return tell_all_sent(chunk_, part.first, part.count);
    std::array<float, kInputTile> memory;
    tell_sent(chunk_, part.first, part.count, [&](std::uint32_t at, std::span<double> values) {
      const auto count = static_cast<std::uint32_t>(values.size());
      const auto floats = std::span(memory).first(count);
      floats::decode(format_, wire(std::span<const std::byte>(up_), part.first + at, count),
                     floats);
      for (std::uint32_t i = 0; i < count; ++i) values[i] = floats[i] / scale_;
    });
  }

  template <class Byte>
  [[nodiscard]] std::span<Byte> wire(std::span<Byte> bytes, std::uint32_t first,
                                     std::uint32_t count) const {
    const std::size_t size = floats::size_of(format_);
    return bytes.subspan(size * first, size * count);
  }

  Chunk chunk_;
  floats::Format format_;
  float scale_;
  std::span<std::byte> up_;
  Round round_;
  bool asked_ = false;
};

class DenseCodec final : public Codec {
 public:
  explicit DenseCodec(Op op) : op_(op) {}

  [[nodiscard]] Traits traits(std::uint32_t workers) const override {
    // n − 1 additions and a division in float32; the narrow formats round once up and once down.
    const double adding = (workers + 1) * 0x1p-24;
    const double rounding =
        op_ == Op::f32_sum ? 0 : (op_ == Op::bf16_sum ? 0x1p-8 : 0x1p-11) * (2 + 0x1p-8);
    return {.unbiased = op_ == Op::f32_sum,
            .quorum = true,
            .elementwise = true,
            .rounds_sums = op_ != Op::f32_sum,
            .on_device = true,
            // Inputs that a half-width format rounds to zero take nothing off.
            .contraction = op_ == Op::f32_sum ? Contraction::always : Contraction::typical,
            .error_max = adding + rounding,
            .silent_below =
                op_ == Op::f16_sum ? 0x1p-24 / scale_for(op_, workers) : Traits{}.silent_below};
  }
  [[nodiscard]] Plan plan(const Tensor& tensor, std::uint32_t workers) const override {
    static_cast<void>(tensor);
    static_cast<void>(workers);
    return {.multiple_of = kGrain, .count_max = kCountMax};
  }
  Exchange* begin(const Chunk& chunk, Arena& arena) const override {
    const DenseRound made(chunk, arena, op_);
    if (!chunk.place.on_device()) return arena.make<DenseExchange>(chunk, made, op_);
    return arena.make<DenseDeviceExchange>(chunk, made.round, made.up,
                                           scale_for(op_, chunk.extent.workers));
  }
  [[nodiscard]] DeviceNeeds device_needs(const Extent& extent, bool /*keeps*/) const override {
    DeviceNeeds needs;
    needs.up = needs.down = floats::size_of(float_format(op_)) * extent.count;
    const std::size_t tiles = divide_up(extent.count, warp::kDenseTile) +
                              divide_up(extent.count, warp::kSumUnit * warp::kSumTile);
    needs.table = 2 * sizeof(warp::Dense) + 2 * tiles * sizeof(warp::Tile);
    needs.rounds = 1;
    return needs;
  }

 private:
  Op op_;
};

}  // namespace

Checked<std::unique_ptr<Codec>> make_f32(const OptionValues&) {
  return std::unique_ptr<Codec>(std::make_unique<DenseCodec>(Op::f32_sum));
}
Checked<std::unique_ptr<Codec>> make_bf16(const OptionValues&) {
  return std::unique_ptr<Codec>(std::make_unique<DenseCodec>(Op::bf16_sum));
}
Checked<std::unique_ptr<Codec>> make_fp16(const OptionValues&) {
  return std::unique_ptr<Codec>(std::make_unique<DenseCodec>(Op::f16_sum));
}

}  // namespace sluice::dense
