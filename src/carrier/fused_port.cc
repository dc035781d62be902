#include "carrier/fused_port.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/stopwatch.h"
#include "device/bench.h"

namespace sluice {
namespace {

using Buffer = Collectives::Buffer;
using Call = Collectives::Call;
using Kind = Collectives::Kind;

// Legs this small (scales) take one trip instead of two; half a millisecond at 1 Gb/s.
constexpr std::uint64_t kWholeMax = std::uint64_t{64} << 10;
constexpr std::size_t kSize = sizeof(std::uint64_t);

std::uint64_t sum_of(std::span<const std::uint64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
}

// Lanes of an all-reduce, which a buffer is aligned for.
std::span<std::int32_t> as_lanes(std::span<std::byte> bytes, std::size_t count) {
  SLUICE_ASSERT(reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(std::int32_t) == 0);
  return {reinterpret_cast<std::int32_t*>(bytes.data()), count};
}

}  // namespace

FusedPort::FusedPort(std::uint32_t rank, std::uint32_t workers, Collectives& collectives,
                     Readiness* readiness)
    : rank_(rank),
      workers_(workers),
      collectives_(collectives),
      readiness_(readiness),
      fusion_(rank, workers, kWholeMax),
      eights_(workers, kSize),
      receive_sizes_(workers),
      answer_sizes_(workers) {}

void FusedPort::use_device(device::Bench& bench) {
  bench_ = &bench;
  device_ = std::make_unique<Fusion>(rank_, workers_);
  device_->use_device(bench);
}

Status FusedPort::post(const Ticket& ticket, const Place& place, std::span<const Round> leg) {
  return place.on_device() && device_ != nullptr ? device_->post(ticket, place, leg)
                                                 : fusion_.post(ticket, place, leg);
}

// An exchange has one leg at a time, on one side or the other.
Result<std::span<const Answer>> FusedPort::take(const Ticket& ticket) {
  if (device_ == nullptr || fusion_.knows(ticket)) return fusion_.take(ticket);
  return device_->take(ticket);
}

Result<bool> FusedPort::flush() {
  if (is_held()) return false;
  if (stage_ == Stage::none) {
    const bool has_device = device_ != nullptr && !device_->empty();
    if (leads_ || !fusion_.empty()) {
      SLUICE_TRY(begin());
    } else if (has_device) {
      SLUICE_TRY(begin_on_device());
    }
    return false;
  }
  SLUICE_TRY_ASSIGN(const bool done, collectives_.test());
  if (done) SLUICE_TRY(go_on());
  return done;
}

Status FusedPort::wait(std::chrono::nanoseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  if (stage_ == Stage::none) return Error{Code::invalid_argument, 0, "fused: nothing is sent"};
  while (stage_ != Stage::none && !is_held()) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) return Error{Code::timeout, 0, "a collective timed out"};
    SLUICE_TRY(collectives_.wait(left));
    SLUICE_TRY(go_on());
  }
  return ok();
}

Status FusedPort::hear_host(std::chrono::nanoseconds timeout) {
  if (stage_ == Stage::none || on_device_) return ok();
  SLUICE_TRY(collectives_.wait(timeout));
  return go_on();
}

void FusedPort::abandon() {
  fusion_.abandon();
  if (device_ != nullptr) device_->abandon();
  stage_ = Stage::none;
}

std::string FusedPort::explain(const Ticket& ticket) {
  if (liar_) return fmt::format("that is rank {}", *liar_);
  if (!on_device_) return fusion_.explain(ticket);
  // Else the headers may be those of a leg before: of this one nothing may have come yet.
  if ((bench_->said().bad & warp::kBadMismatch) == 0) return "";
  device_->read_headers();
  return device_->explain(ticket);
}

Error FusedPort::lied(std::size_t rank, const char* what) {
  liar_ = static_cast<std::uint32_t>(rank);
  return {Code::malformed, static_cast<std::int32_t>(rank), what};
}

Result<std::span<std::byte>> FusedPort::room(Buffer buffer, std::size_t size) {
  const auto bytes = collectives_.reserve(buffer, size);
  if (bytes.size() < size) return Error{Code::out_of_memory, 0, "no memory for a collective"};
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(std::int32_t) != 0) {
    return Error{Code::lost, 0, "a buffer of a collective is not aligned to 4"};
  }
  return bytes.first(size);
}

Status FusedPort::start(Stage stage, const Call& call) {
  Call named = call;
  named.topic = on_device_ ? device_->topic() : fusion_.topic();
  count(call);
  stage_ = stage;
  if (starts_left_ != kFree && starts_left_ != 0) --starts_left_;
  return collectives_.start(named);
}

void FusedPort::count(const Call& call) {
  ++traffic_.collectives;
  const std::uint64_t others = workers_ - 1;
  switch (call.kind) {
    case Kind::all_to_all:
      traffic_.sent_bytes += sum_of(call.send_sizes) - call.send_sizes[rank_];
      traffic_.received_bytes += sum_of(call.receive_sizes) - call.receive_sizes[rank_];
      return;
    case Kind::all_gather:
      traffic_.sent_bytes += others * call.count;
      traffic_.received_bytes += others * call.count;
      return;
    case Kind::max:
    case Kind::sum:  // As a ring does it.
      traffic_.sent_bytes += 2 * sizeof(std::int32_t) * call.count * others / workers_;
      traffic_.received_bytes += 2 * sizeof(std::int32_t) * call.count * others / workers_;
  }
}

// --- one leg of the exchanges ---

Status FusedPort::begin() {
  on_device_ = leads_ = false;
  SLUICE_TRY(fusion_.seal(readiness_ == nullptr ? 0 : readiness_->ready(), device_.get()));
  if (fusion_.native() != Fusion::Native::none) return start_lanes();
  if (!fusion_.receives_vary()) return start_shards(fusion_.receive_sizes());
  SLUICE_TRY_ASSIGN(send_, room(Buffer::send, kSize * workers_));
  SLUICE_TRY_ASSIGN(received_, room(Buffer::received, kSize * workers_));
  const auto sizes = fusion_.send_sizes();
  for (std::size_t rank = 0; rank < workers_; ++rank) store_le(send_, kSize * rank, sizes[rank]);
  return start(Stage::sizes, {.send_sizes = eights_, .receive_sizes = eights_, .is_small = true});
}

// All sizes are fixed there. What is recorded goes before what is sent.
Status FusedPort::begin_on_device() {
  on_device_ = true;
  SLUICE_TRY(device_->seal());
  const auto send_sizes = device_->send_sizes();
  const auto receive_sizes = device_->receive_sizes();
  SLUICE_TRY_ASSIGN(send_, room(Buffer::device_send, sum_of(send_sizes)));
  SLUICE_TRY_ASSIGN(received_, room(Buffer::device_received, sum_of(receive_sizes)));
  device_->pack_on_device(send_);
  SLUICE_TRY(bench_->submit());
  return start(Stage::shards, {.from = Buffer::device_send,
                               .to = Buffer::device_received,
                               .send_sizes = send_sizes,
                               .receive_sizes = receive_sizes});
}

Status FusedPort::combine_on_device() {
  const auto sizes = device_->answer_sizes();
  stride_ = std::max<std::uint64_t>(1, *std::max_element(sizes.begin(), sizes.end()));
  SLUICE_TRY_ASSIGN(answer_, room(Buffer::device_answer, stride_));
  SLUICE_TRY_ASSIGN(gathered_, room(Buffer::device_gathered, stride_ * workers_));
  device_->answer_into(answer_);
  SLUICE_TRY(device_->combine_on_device(received_));
  SLUICE_TRY(bench_->submit());
  return start(Stage::answers, {.kind = Kind::all_gather,
                                .from = Buffer::device_answer,
                                .to = Buffer::device_gathered,
                                .count = stride_});
}

// Somebody else's numbers: no more than a rank may send.
Status FusedPort::take_sizes() {
  const auto most = fusion_.receive_sizes();
  for (std::size_t rank = 0; rank < workers_; ++rank) {
    receive_sizes_[rank] = load_le<std::uint64_t>(received_, kSize * rank);
    if (receive_sizes_[rank] <= most[rank]) continue;
    return lied(rank, "fused: a rank says that it sends more than it may");
  }
  return start_shards(receive_sizes_);
}

Status FusedPort::start_shards(std::span<const std::uint64_t> receive_sizes) {
  const auto send_sizes = fusion_.send_sizes();
  SLUICE_TRY_ASSIGN(send_, room(Buffer::send, sum_of(send_sizes)));
  SLUICE_TRY_ASSIGN(received_, room(Buffer::received, sum_of(receive_sizes)));
  if (receive_sizes.data() != receive_sizes_.data()) {
    std::copy(receive_sizes.begin(), receive_sizes.end(), receive_sizes_.begin());
  }
  fusion_.pack(send_);
  return start(
      Stage::shards,
      {.send_sizes = send_sizes, .receive_sizes = receive_sizes_, .is_small = fusion_.whole()});
}

Status FusedPort::combine() {
  // As long as the longest answer: an all-gather takes as many bytes from everybody.
  const auto sizes = fusion_.answer_sizes();
  const std::uint64_t most = *std::max_element(sizes.begin(), sizes.end());
  SLUICE_TRY_ASSIGN(answer_, room(Buffer::answer, std::max<std::uint64_t>(1, most)));
  fusion_.answer_into(answer_);
  if (readiness_ != nullptr) fusion_.tell(readiness_->ready());
  const Stopwatch watch(traffic_.combine_seconds);
  return fusion_.combine(received_, receive_sizes_);
}

Status FusedPort::hear(bool bulk) {
  if (readiness_ != nullptr) readiness_->heard(fusion_.least_ready(), bulk);
  return ok();
}

Status FusedPort::start_answers() {
  stride_ = *std::max_element(answer_sizes_.begin(), answer_sizes_.end());
  stride_ = std::max<std::uint64_t>(1, stride_);
  SLUICE_TRY_ASSIGN(gathered_, room(Buffer::gathered, stride_ * workers_));
  SLUICE_ASSERT(answer_.size() >= stride_);
  return start(
      Stage::answers,
      {.kind = Kind::all_gather, .from = Buffer::answer, .to = Buffer::gathered, .count = stride_});
}

Status FusedPort::take_answer_sizes() {
  const auto most = fusion_.answer_sizes();
  for (std::size_t rank = 0; rank < workers_; ++rank) {
    answer_sizes_[rank] = load_le<std::uint64_t>(received_, kSize * rank);
    if (answer_sizes_[rank] <= most[rank]) continue;
    return lied(rank, "fused: a rank says that its answer is longer than it may be");
  }
  return start_answers();
}

Status FusedPort::start_lanes() {
  const std::size_t count = fusion_.native_count();
  SLUICE_TRY_ASSIGN(send_, room(Buffer::send, count * sizeof(std::int32_t)));
  fusion_.pack_native(as_lanes(send_, count));
  const bool is_max = fusion_.native() == Fusion::Native::max;
  return start(Stage::lanes, {.kind = is_max ? Kind::max : Kind::sum,
                              .from = Buffer::send,
                              .to = Buffer::send,
                              .count = count});
}

Status FusedPort::take_lanes() {
  SLUICE_TRY(fusion_.spread_native(as_lanes(send_, fusion_.native_count())));
  return hear(true);
}

Status FusedPort::go_on() {
  const Stage stage = std::exchange(stage_, Stage::none);
  switch (stage) {
    case Stage::none: return ok();
    case Stage::sizes: return take_sizes();
    case Stage::lanes: return take_lanes();
    case Stage::answer_sizes: return take_answer_sizes();
    case Stage::answers:
      if (on_device_) return device_->spread_on_device(gathered_, stride_);
      SLUICE_TRY(fusion_.spread(gathered_, stride_, answer_sizes_, Fusion::Gathered::stays));
      return hear(true);
    case Stage::shards: break;
  }
  if (on_device_) return combine_on_device();
  SLUICE_TRY(combine());
  SLUICE_TRY(hear(!fusion_.whole()));
  if (fusion_.whole()) return fusion_.spread_own();
  if (!fusion_.answers_vary()) {
    const auto sizes = fusion_.answer_sizes();
    std::copy(sizes.begin(), sizes.end(), answer_sizes_.begin());
    return start_answers();
  }
  SLUICE_TRY_ASSIGN(send_, room(Buffer::send, kSize));
  SLUICE_TRY_ASSIGN(received_, room(Buffer::received, kSize * workers_));
  store_le(send_, 0, std::uint64_t{fusion_.answer().size()});
  return start(Stage::answer_sizes, {.kind = Kind::all_gather,
                                     .from = Buffer::send,
                                     .to = Buffer::received,
                                     .count = kSize,
                                     .is_small = true});
}

}  // namespace sluice
