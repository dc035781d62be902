#include "codec/lhc/lhc.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "codec/input.h"
#include "codec/lhc/lhc_decoder.h"
#include "codec/lhc/lhc_layout.h"
#include "kernels/lanes/lanes.h"

namespace sluice::lhc {
namespace {

// Two steps: who has which coordinates, by one max round of bits, then the sketch of the values.
class LhcExchange final : public Exchange {
 public:
  LhcExchange(const Chunk& chunk, Arena& arena, double ratio)
      : chunk_(chunk),
        hashes_(arena.host<BlockHash>(blocks_of(chunk.extent.count))),
        rows_(rows_of(blocks_of(chunk.extent.count), ratio)),
        index_up_(arena.place<std::byte>(bytes_for_bits(chunk.extent.count))),
        index_down_(arena.place<std::byte>(bytes_for_bits(chunk.extent.count))),
        index_(arena.host<std::byte>(bytes_for_bits(chunk.extent.count))),
        up_(arena.place<std::byte>(std::size_t{4} * rows_ * kBlock)),
        down_(arena.place<std::byte>(std::size_t{4} * rows_ * kBlock)),
        sketch_(arena.host<float>(std::size_t{rows_} * kBlock)),
        words_(arena.host<std::uint64_t>(worker_words(chunk.extent.workers))),
        decoder_(arena, blocks_of(chunk.extent.count), rows_) {}

  Result<Leg> next(std::span<const Answer> answers) override {
    if (at_ != At::start) {
      if (answers.size() != 1) return Error{Code::malformed, 0, "lhc: one answer expected"};
      SLUICE_TRY(check_answer(round_, answers[0], chunk_.extent.workers));
    }
    switch (at_) {
      case At::start: return ask_index();
      case At::index: return ask_sketch(answers[0]);
      case At::sketch: break;
    }
    tell();
    decode(answers[0].down);
    return done();
  }

 private:
  enum class At : std::uint8_t { start, index, sketch };

  // One grain: a worker whose coordinates are not in the index must not be in the sketch.
  Result<Leg> ask_index() {
    each_block([&](std::uint32_t first, std::span<const float> input) {
      std::array<std::uint8_t, kBlock> marks;
      for (std::size_t i = 0; i < input.size(); ++i) marks[i] = input[i] != 0 ? 1 : 0;
      lanes::pack(std::span<const std::uint8_t>(marks).first(input.size()), 1,
                  index_up_.subspan(first / 8, bytes_for_bits(input.size())));
    });
    round_ = {{.op = Op::max, .bits = 1, .count = chunk_.extent.count},
              index_up_,
              index_down_,
              chunk_.only};
    at_ = At::index;
    return ask({&round_, 1});
  }

  Result<Leg> ask_sketch(const Answer& answer) {
    if (!answer.parts.empty()) only_ = keep(answer.parts[0].from, words_);
    counted_ = chunk_.extent.count == 0 || only_.has(chunk_.extent.rank);
    std::copy(answer.down.begin(), answer.down.end(), index_.begin());
    for (std::size_t i = 0; counted_ && i < index_.size(); ++i) {
      if ((index_up_[i] & ~index_[i]) != std::byte{0}) {
        return Error{Code::malformed, 0, "lhc: an index without coordinates of mine"};
      }
    }
    encode();
    round_ = {{.op = Op::f32_sum, .bits = 32, .count = rows_ * kBlock, .grain = kBlock},
              up_,
              down_,
              only_};
    at_ = At::sketch;
    return ask({&round_, 1});
  }

  void encode() {
    for (std::uint32_t block = 0; block < hashes_.size(); ++block) {
      hashes_[block] = hash_of(block, rows_);
    }
    std::fill(sketch_.begin(), sketch_.end(), 0.0f);
    if (counted_) {
      each_block([&](std::uint32_t first, std::span<const float> input) {
        const BlockHash& hash = hashes_[first / kBlock];
        for (std::size_t j = 0; j < 3; ++j) {
          const auto row = sketch_.subspan(std::size_t{hash.rows[j]} * kBlock, kBlock);
          for (std::size_t i = 0; i < input.size(); ++i) row[i] += hash.signs[j] * input[i];
        }
      });
    }
    floats::encode(floats::Format::f32, sketch_, 1.0f, up_);
  }

  // All of a counted worker's input went up. Before the mean is written, which may be the
  // gradient's own memory.
  void tell() {
    if (!counted_) return keep_everything(chunk_, 0, chunk_.extent.count);
    tell_all_sent(chunk_, 0, chunk_.extent.count);
  }

  void decode(std::span<const std::byte> down) {
    floats::decode(floats::Format::f32, down, sketch_);
    const auto sums = chunk_.mean;
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (std::uint32_t lane = 0; lane < kBlock; ++lane) {
      chunk_.tally[0] += decoder_.decode(index_, lane, hashes_, sketch_, sums);
    }
    const std::uint32_t contributors = chunk_.extent.count == 0 ? 1 : only_.count();
    floats::decode_mean(floats::Format::f32, std::as_bytes(sums), 1.0f,
                        static_cast<float>(contributors), chunk_.mean);
  }

  template <class Each>
  void each_block(Each each) const {
    for (std::uint32_t first = 0; first < chunk_.extent.count; first += kBlock) {
      each(first, chunk_.gradient.subspan(first, std::min(kBlock, chunk_.extent.count - first)));
    }
  }

  Chunk chunk_;
  std::span<BlockHash> hashes_;
  std::uint32_t rows_;
  std::span<std::byte> index_up_;
  std::span<std::byte> index_down_;
  std::span<std::byte> index_;  // agreed
  std::span<std::byte> up_;
  std::span<std::byte> down_;
  std::span<float> sketch_;
  std::span<std::uint64_t> words_;
  LaneDecoder decoder_;
  Workers only_ = {};
  bool counted_ = false;
  At at_ = At::start;
  Round round_;
};

class LhcCodec final : public Codec {
 public:
  explicit LhcCodec(double ratio) : ratio_(ratio) {}

  // Nothing is promised: sums of floats are not exact, and an estimate of keys that are stuck may
  // be further off than nothing at all.
  [[nodiscard]] Traits traits(std::uint32_t workers) const override {
    static_cast<void>(workers);
    return {.quorum = true, .contraction = Contraction::never, .tally_count = kCountNames.size()};
  }
  [[nodiscard]] Plan plan(const Tensor& tensor, std::uint32_t workers) const override {
    static_cast<void>(tensor);
    static_cast<void>(workers);
    return {.multiple_of = kBlock, .count_max = kCountMax};
  }
  Exchange* begin(const Chunk& chunk, Arena& arena) const override {
    return arena.make<LhcExchange>(chunk, arena, ratio_);
  }

 private:
  double ratio_;
};

}  // namespace

Checked<std::unique_ptr<Codec>> make(const OptionValues& options) {
  return std::unique_ptr<Codec>(std::make_unique<LhcCodec>(options.real(0)));
}

}  // namespace sluice::lhc
