// For tests of tide's kernel bodies: one worker's chunk, as the device has it and as the host does
// it with the specification.
#pragma once

#include <algorithm>
#include <memory>

#include "codec/tide/faint.h"
#include "codec/tide/summed_dithers.h"
#include "codec/tide/tide_decoder.h"
#include "codec/tide/tide_layout.h"
#include "codec/tide/tide_scales.h"
#include "feedback/feedback.h"
#include "kernels/energy/energy.h"
#include "round/sum_reader.h"
#include "tests/conformance/launch_test.h"

namespace sluice::warp {

inline TideAffines affines_of(std::uint32_t contributors, const double* constants) {
  TideAffines affines;
  for (unsigned width = 1; width <= 8; ++width) {
    for (std::size_t j = 0; j < 8; ++j) {
      const double step = tide::detail::kEighths[j] * tide::unit_step(width, contributors);
      affines.factor[width - 1][j] = static_cast<float>(step);
      affines.centre[width - 1][j] = static_cast<float>(step * constants[width]);
    }
  }
  return affines;
}

// A worker's part in one step.
struct TideSetup {
  std::uint32_t count = 1000;
  std::uint32_t block = 256;
  std::uint32_t workers = 4;
  std::uint32_t rank = 1;
  std::vector<std::uint32_t> missing = {};
  floats::Format format = floats::Format::f32;
  floats::Format mean_format = floats::Format::f32;
  Down down = Down::full;
  std::uint8_t extra = 0;
  bool feedback = false;
  bool misaligned = false;
  bool again = false;  // some blocks travelled in the second sending
  bool in_place = false;
  unsigned seed = 1;
};

class TideByHand {
 public:
  explicit TideByHand(const TideSetup& setup)
      : setup_(setup),
        random_(setup.seed),
        layout_(setup.count, setup.block),
        values_(setup.format, draw_values(), setup.misaligned),
        mean_(setup.mean_format, Floats(setup.count, 7.0f), setup.misaligned),
        residual_(draw_residual()),
        gradient_(values_.floats()),
        from_(WorkerSet::all(setup.workers)) {
    for (const std::uint32_t rank : setup.missing) from_.erase(rank);
    taken_.set(from_.view(), setup.workers);
    fill_device();
    host_.extent = {{1, 1, offset_ + setup.count}, offset_, setup.count, setup.rank, setup.workers};
    host_.key = key_;
    host_.gradient = gradient_;
    if (setup.feedback) host_.residual = residual();
    dither::draw_signs(RandomStream(key_, Purpose::sign, kShared), setup.block, signs_);
  }

  [[nodiscard]] const tide::TideLayout& layout() const { return layout_; }
  [[nodiscard]] const Chunk& host() const { return host_; }
  TideChunk& device() { return chunk_; }
  std::vector<TideBlock>& blocks() { return blocks_; }
  std::mt19937& random() { return random_; }
  std::vector<std::uint16_t>& codes() { return codes_; }
  Finding& finding() { return finding_; }
  Bytes& up(std::size_t sending, std::size_t round) { return ups_[sending][round]; }
  Bytes& down(std::size_t sending, std::size_t round) { return downs_[sending][round]; }

  // The specification's scale code of a block.
  [[nodiscard]] tide::Code12 my_code(std::uint32_t number) const {
    const auto block = layout_[number];
    float energy = 0;
    energy::scalar::blocks(gradient(block), rest(block), block.size, {&energy, 1});
    const tide::Code12 code = tide::code_of(energy, tide::log2_of(block.size));
    return code == tide::kCodeZero ? tide::faint_code(host_, block) : code;
  }

  // Gives every block a width and a code that covers it.
  void draw_widths() {
    for (std::uint32_t b = 0; b < layout_.blocks(); ++b) {
      const std::uint32_t mine = my_code(b);
      TideBlock& block = blocks_[b];
      block = {};
      if (mine == tide::kCodeNotFinite || below(8) == 0) {
        block.width = kTideExact;
        continue;
      }
      block.width = static_cast<std::uint8_t>(below(9));
      block.code = static_cast<std::uint16_t>(
          mine == 0 ? 1 + below(1600) : std::min<std::uint32_t>(mine + below(9), tide::kCodeMost));
      if (mine == 0 && block.code < tide::kCodeAboveFaint) block.flags |= kTideZeros;
      if (setup_.again && below(2) == 0) block.flags |= kTideAgain;
    }
    place_lanes();
  }

  // Lanes and memory of the rounds that follow from the widths.
  void place_lanes() {
    std::uint32_t next[2][kTideRounds] = {};
    for (std::uint32_t b = 0; b < layout_.blocks(); ++b) {
      TideBlock& block = blocks_[b];
      if (block.width == 0) continue;
      std::uint32_t& lane = next[again(block)][index_of(block)];
      block.lane = lane;
      lane += layout_[b].size;
    }
    for (std::size_t s = 0; s < 2; ++s) {
      for (std::size_t i = 0; i < kTideRounds; ++i) {
        lanes_[s][i] = next[s][i];
        const std::size_t bits = i + 1 == kTideRounds ? 32 : i + 1;
        ups_[s][i].assign(next[s][i] / 8 * bits + start(), std::byte{0xa5});
        chunk_.sendings[s].up[i] = ups_[s][i].data() + start();
      }
    }
    chunk_.blocks = blocks_.data();
  }

  // What the specification sends of a block, with this code.
  Bytes encoded(std::uint32_t number, std::uint32_t code, bool zeros) {
    const auto block = layout_[number];
    const unsigned width = blocks_[number].width;
    if (width == kTideExact) return encoded_exactly(block);
    const auto used = static_cast<tide::Code12>(code);
    const bool faint = tide::is_faint(used);
    Bytes packed(block.size / 8 * width);
    Floats memory(block.size);
    dither::Encoding one{{offset_ + block.first, block.size, width},
                         zeros ? 1.0f
                               : tide::encode_factor(faint ? tide::amplified(used) : used,
                                                     tide::log2_of(block.size)),
                         gradient(block),
                         rest(block),
                         packed,
                         nullptr};
    if (zeros || faint) one.more = {};
    if (faint) one.values = tide::amplified_input(host_, block, memory);
    if (zeros) one.values = {};
    dither::scalar::encode(shared(), chunk_.shift, one);
    return packed;
  }
  // Where it goes.
  std::span<std::byte> own(std::uint32_t number) {
    const TideBlock& block = blocks_[number];
    const std::size_t bits = block.width == kTideExact ? 32 : block.width;
    return std::span(ups_[again(block)][index_of(block)])
        .subspan(start() + block.lane / 8 * bits, layout_[number].size / 8 * bits);
  }

  // Sums as somebody might have sent them down: anything that can be.
  void draw_sums() {
    for (std::size_t s = 0; s < 2; ++s) {
      for (std::size_t i = 0; i < kTideRounds; ++i) {
        draw_round(s, i);
        chunk_.sendings[s].down[i] = downs_[s][i].data() + start();
      }
    }
  }

  // The host's mean and residual, from the bytes that are there now.
  struct Result {
    Floats mean;
    Floats residual;
  };
  Result decoded(bool counted) {
    Result result{Floats(setup_.count), {residual().begin(), residual().end()}};
    Chunk chunk = host_;
    chunk.mean = result.mean;
    if (setup_.feedback) chunk.residual = result.residual;
    WorkerSet from = from_;
    if (!counted) from.erase(setup_.rank);
    const dither::Shared shared = this->shared();
    tide::Decoder decoder(chunk, shared, from.view());
    for (std::uint32_t b = 0; b < layout_.blocks(); ++b) {
      const TideBlock& block = blocks_[b];
      const auto place = layout_[b];
      if (block.width == 0) {
        decoder.nothing(place);
      } else if (block.width == kTideExact) {
        decoder.exact(place, own(b),
                      std::span(downs_[again(block)][kTideRounds - 1])
                          .subspan(start() + 4u * block.lane, 4u * place.size));
      } else {
        decoder.coded(place, {block.width, block.code},
                      std::span<const std::int32_t>(twice_[again(block)][index_of(block)])
                          .subspan(block.lane, place.size),
                      own(b));
      }
    }
    decoder.flush();
    return result;
  }

  // What the device wrote, as bytes of the mean's format and as float32.
  std::span<std::byte> mean() { return setup_.in_place ? values_.bytes() : mean_.bytes(); }
  std::span<float> residual() {
    return std::span(residual_).subspan(setup_.misaligned ? 1 : 0, setup_.count);
  }
  void launch_over(device::Kernel kernel) { launch(kernel, chunk_, layout_.blocks(), kTideTile); }
  void launch_decode() {
    launch_over(chunk_.residual != nullptr ? device::Kernel::keep : device::Kernel::decode);
  }
  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_()) % end; }
  [[nodiscard]] std::size_t start() const { return setup_.misaligned ? 1 : 0; }

 private:
  static std::size_t index_of(const TideBlock& block) {
    return block.width == kTideExact ? kTideRounds - 1 : block.width - 1u;
  }
  static std::size_t again(const TideBlock& block) {
    return (block.flags & kTideAgain) != 0 ? 1 : 0;
  }
  std::span<const float> gradient(const tide::TideLayout::Block& block) const {
    return std::span(gradient_).subspan(block.first, block.count);
  }
  std::span<const float> rest(const tide::TideLayout::Block& block) const {
    if (host_.residual.empty()) return {};
    return std::span(host_.residual).subspan(block.first, block.count);
  }
  [[nodiscard]] dither::Shared shared() const {
    return {signs_, RandomStream(key_, Purpose::dither, kShared)};
  }

  // Blocks of all kinds: ordinary ones of many scales, empty, faint, huge, not finite.
  Floats draw_values() {
    Floats values;
    for (std::uint32_t b = 0; b < layout_.blocks(); ++b) {
      constexpr float kScales[] = {1e-3f,  1.0f,   0.0f,   1e-21f, 1e-30f,
                                   3e-39f, 1e-45f, 1e-10f, 1e15f,  0.3f};
      auto block = drawn(random_, layout_[b].count, kScales[below(10)]);
      const std::uint32_t kind = below(12);
      if (kind == 0) block[below(layout_[b].count)] = INFINITY;
      if (kind == 1) block[below(layout_[b].count)] = -NAN;
      if (kind == 2) block[below(layout_[b].count)] = 1e30f;
      if (kind == 3) std::fill(block.begin(), block.end(), -0.25f);
      values.insert(values.end(), block.begin(), block.end());
    }
    return values;
  }
  Floats draw_residual() {
    Floats values(setup_.count + 1);
    const float own_scale = below(2) == 0 ? 1e-3f : 1e-22f;
    for (float& value : values) {
      const std::uint32_t kind = below(16);
      value = drawn(random_, 1, own_scale)[0];
      if (kind == 0) value = -0.0f;
      if (kind == 1) value = 1e-42f;
    }
    return values;
  }

  Bytes encoded_exactly(const tide::TideLayout::Block& block) {
    Bytes bytes(4u * block.size);
    Floats input(gradient(block).begin(), gradient(block).end());
    if (!rest(block).empty()) floats::scalar::add(gradient(block), rest(block), input);
    floats::scalar::encode(floats::Format::f32, input, 1.0f, std::span(bytes));
    return bytes;
  }

  void draw_round(std::size_t s, std::size_t i) {
    const std::uint32_t lanes = lanes_[s][i];
    downs_[s][i].assign(start(), std::byte{0xa5});
    twice_[s][i].assign(lanes, 0);
    if (lanes == 0) return;
    if (i + 1 == kTideRounds) {
      for (std::uint32_t k = 0; k < lanes; ++k) {
        std::uint32_t bits = std::bit_cast<std::uint32_t>(drawn(random_, 1, 1.0f)[0]);
        if (below(20) == 0) bits = 0x7f800000u | (below(2) << 31) | (below(2) * 0x1234);
        for (unsigned at = 0; at < 32; at += 8) {
          downs_[s][i].push_back(static_cast<std::byte>(bits >> at));
        }
      }
      return;
    }
    const Reduction what{.op = Op::lane_sum,
                         .bits = static_cast<std::uint8_t>(i + 1),
                         .down = setup_.down,
                         .extra = setup_.extra,
                         .count = lanes,
                         .grain = setup_.block};
    const std::uint32_t top = value_max(what) * chunk_.contributors;
    std::vector<std::uint32_t> sums(lanes);
    const bool narrow = below(2) == 0;
    for (std::uint32_t& sum : sums) sum = narrow ? top / 2 + below(top / 4 + 1) : below(top + 1);
    downs_[s][i].resize(start() + down_size_max(what, setup_.workers));
    write_sums(what, setup_.workers, chunk_.contributors, std::span<const std::uint32_t>(sums),
               std::span(downs_[s][i]).subspan(start()));
    const Part part{0, lanes, from_.view()};
    SumReader reader(what, setup_.workers, {std::span(downs_[s][i]).subspan(start()), {&part, 1}});
    ASSERT_TRUE(reader.rest(twice_[s][i]));
    chunk_.full_bits[i] = static_cast<std::uint8_t>(sum_bits(what, setup_.workers));
    chunk_.rounded[i] = is_rounded(what, setup_.workers) ? 1 : 0;
  }

  void fill_device() {
    chunk_.values = values_.data();
    chunk_.residual = setup_.feedback ? residual().data() : nullptr;
    chunk_.mean = mean().data();
    chunk_.values_format = setup_.format;
    chunk_.mean_format = setup_.mean_format;
    chunk_.count = setup_.count;
    chunk_.block = setup_.block;
    chunk_.shift = tide::shift_of(setup_.rank, setup_.workers);
    chunk_.element = offset_;
    chunk_.dithers = RandomStream(key_, Purpose::dither, kShared).key();
    const RandomStream signs(key_, Purpose::sign, kShared);
    for (std::uint32_t i = 0; i < 32; ++i) chunk_.signs[i] = signs.word(i);
    blocks_.resize(layout_.blocks());
    codes_.assign(layout_.blocks(), 0xffff);
    chunk_.codes = codes_.data();
    chunk_.extra = setup_.extra;
    chunk_.contributors = taken_.contributors();
    chunk_.dither_times = taken_.dithers().times;
    if (!taken_.dithers().table.empty()) chunk_.dither_table = taken_.dithers().table.data();
    double all[9] = {};
    double own[9] = {};
    for (unsigned width = 1; width <= 8; ++width) {
      all[width] = taken_.constant(width);
      own[width] = 0.5 * (255 - 256 * ((1 << width) - 1));
    }
    affines_ = affines_of(taken_.contributors(), all);
    own_affines_ = affines_of(1, own);
    chunk_.affines = &affines_;
    chunk_.own_affines = &own_affines_;
    chunk_.finding = &finding_;
  }

  static constexpr std::uint64_t offset_ = 1024u * 12345;
  static constexpr std::uint64_t key_ = 0x1234567;
  TideSetup setup_;
  std::mt19937 random_;
  tide::TideLayout layout_;
  Stored values_;
  Stored mean_;
  Floats residual_;
  Floats gradient_;
  WorkerSet from_;
  tide::SummedDithers taken_;
  dither::Signs signs_{};
  Chunk host_;
  TideChunk chunk_;
  std::vector<TideBlock> blocks_;
  std::vector<std::uint16_t> codes_;
  TideAffines affines_;
  TideAffines own_affines_;
  Finding finding_;
  std::uint32_t lanes_[2][kTideRounds] = {};
  Bytes ups_[2][kTideRounds];
  Bytes downs_[2][kTideRounds];
  std::vector<std::int32_t> twice_[2][kTideRounds];
};

}  // namespace sluice::warp
