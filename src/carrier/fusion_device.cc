// A fused leg whose bytes lie on a device: what the host does to bytes is recorded on a bench.
//
// The layout is the host's, but every extent begins on a multiple of kPad, for the kernels' sake.
// Headers are compared on the device, which decodes nothing where ranks disagree. A copy of them
// comes to the host, to say in what.
#include <algorithm>
#include <array>

#include "base/assert.h"
#include "base/bytes.h"
#include "carrier/fused_bytes.h"
#include "carrier/fusion.h"
#include "device/bench.h"

namespace sluice {

using fused::kAnswerHeader;
using fused::kHeader;

namespace {

warp::SumOp op_of(Op op) {
  switch (op) {
    case Op::lane_sum: return warp::SumOp::lane_sum;
    case Op::max: return warp::SumOp::max;
    case Op::bf16_sum: return warp::SumOp::bf16_sum;
    case Op::f16_sum: return warp::SumOp::f16_sum;
    default: return warp::SumOp::f32_sum;
  }
}

}  // namespace

bool Fusion::is_for_devices(const Reduction& what) {
  const bool known = what.op == Op::lane_sum || what.op == Op::max || is_float_sum(what.op);
  return known && what.down != Down::narrow && what.table.empty();
}

void Fusion::use_device(device::Bench& bench) {
  bench_ = &bench;
  pad_ = kPad;
  headers_ = device::SharedMemory(bench.on(), kHeader * workers_);
}

void Fusion::pack_on_device(std::span<std::byte> send) const {
  SLUICE_ASSERT(phase_ == Phase::sealed);
  const auto header = bench_->list<std::array<std::byte, kHeader>>(1);
  write_header(*header.host);
  std::byte* at = send.data();
  for (std::uint32_t rank = 0; rank < workers_; ++rank) {
    std::byte* to = at;
    bench_->add(warp::Copy{header.device->data(), to, kHeader});
    to += round_up(kHeader, pad_);
    for (const Segment& segment : shards_.of(rank)) {
      bench_->add(
          warp::Copy{rounds_[segment.round].up.data() + segment.up_first, to, segment.up_size});
      to += round_up(segment.up_size, pad_);
    }
    at += send_sizes_[rank];
  }
}

Status Fusion::combine_on_device(std::span<const std::byte> received) {
  SLUICE_TRY(expect(Phase::sealed));
  const std::uint64_t stride = receive_sizes_[rank_];
  if (received.size() < stride * workers_) {
    return fail(fused::malformed(rank_, "fusion: a message is cut off"));
  }
  bench_->add(warp::Compare{received.data(), stride, workers_, claim_.digest, bench_->finding()});
  for (std::uint32_t rank = 0; rank < workers_; ++rank) {
    bench_->add(warp::Copy{received.data() + stride * rank,
                           headers_.bytes().data() + kHeader * rank, kHeader});
  }
  const auto room = answer_room();
  std::size_t from = round_up(kHeader, pad_);
  std::size_t into = round_up(kAnswerHeader, pad_);
  for (const Segment& segment : shards_.of(rank_)) {
    add_sum(segment, received.data() + from, stride, room.data() + into);
    from += round_up(segment.up_size, pad_);
    into += round_up(segment.down_size, pad_);
  }
  answer_size_ = into;
  phase_ = Phase::combined;
  return ok();
}

void Fusion::add_sum(const Segment& segment, const std::byte* source, std::uint64_t stride,
                     std::byte* down) {
  const Reduction& what = segment.what;
  const Workers counted = parts_[segment.round].from;
  const auto ranks = bench_->list<std::uint32_t>(workers_);
  warp::Sum item;
  for (std::uint32_t rank = 0; rank < workers_; ++rank) {
    if (counted.has(rank)) ranks.host[item.contributors++] = rank;
  }
  item.source = source;
  item.stride = stride;
  item.ranks = ranks.device;
  item.count = what.count;
  item.grain = grain_of(what);
  item.op = op_of(what.op);
  item.bits = item.down_bits = what.bits;
  if (what.op == Op::lane_sum) {
    const bool rounded = is_rounded(what, workers_);
    item.form = rounded ? warp::SumForm::round : warp::SumForm::full;
    const unsigned full = sum_bits(what, workers_);
    const unsigned cut = unsigned{what.bits} + what.extra;
    item.down_bits = static_cast<std::uint8_t>(rounded ? cut : full);
  }
  item.down = down;
  bench_->add(item);
}

Status Fusion::spread_on_device(std::span<const std::byte> gathered, std::uint64_t stride) {
  SLUICE_TRY(expect(Phase::combined));
  SLUICE_ASSERT(gathered.size() >= stride * workers_);
  for (std::uint32_t rank = 0; rank < workers_; ++rank) {
    auto answer = gathered.subspan(stride * rank).subspan(round_up(kAnswerHeader, pad_));
    for (const Segment& segment : shards_.of(rank)) {
      const auto bytes = answer.first(segment.down_size);
      answer = answer.subspan(std::min(answer.size(), round_up(segment.down_size, pad_)));
      if (is_left_there(segment, Gathered::stays)) {
        there_[segment.round] = bytes;
        continue;
      }
      std::size_t& filled = filled_[segment.round];
      bench_->add(
          warp::Copy{bytes.data(), rounds_[segment.round].down.data() + filled, bytes.size()});
      filled += bytes.size();
    }
  }
  finish_answers();
  return ok();
}

void Fusion::read_headers() {
  if (bench_ == nullptr || sealed_.empty()) return;
  for (std::uint32_t rank = 0; rank < workers_; ++rank) {
    const std::span<const std::byte> headers = headers_.bytes();
    if (const Status read = read_header(rank, headers.subspan(kHeader * rank, kHeader)); !read) {
      error_ = read.error();
      return;
    }
    if (error_.code == Code::ok && !(claims_[rank] == claim_)) {
      error_ = {Code::mismatch, static_cast<std::int32_t>(rank),
                "workers disagree on what they reduce"};
    }
  }
}

}  // namespace sluice
