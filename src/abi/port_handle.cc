#include "abi/port_handle.h"

#include <algorithm>

namespace sluice::abi {
namespace {

constexpr Error kFailed{Code::lost, 0, "a collective of the caller's failed"};

}  // namespace

std::span<std::byte> CallersCollectives::reserve(Buffer buffer, std::size_t size) {
  std::size_t& most = most_[static_cast<std::size_t>(buffer)];
  if (size > most) ++grown_;
  most = std::max(most, size);
  void* const memory = calls_.reserve(calls_.context, static_cast<std::uint32_t>(buffer), size);
  if (memory == nullptr) return {};
  return {static_cast<std::byte*>(memory), size};
}

Status CallersCollectives::make_room(const FusedRoom& sizes) {
  const std::uint64_t before = grown_;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] <= most_[i]) continue;
    if (reserve(static_cast<Buffer>(i), sizes[i]).empty()) {
      return Error{Code::out_of_memory, 0, "no memory for a collective"};
    }
  }
  grown_ = before;
  return ok();
}

Status CallersCollectives::start(const Call& call) {
  const sluice_collective shown{sizeof(sluice_collective),
                                static_cast<std::uint32_t>(call.kind),
                                static_cast<std::uint32_t>(call.from),
                                static_cast<std::uint32_t>(call.to),
                                call.is_small ? 1u : 0u,
                                call.send_sizes.data(),
                                call.receive_sizes.data(),
                                call.count,
                                call.topic.step,
                                call.topic.bucket};
  return calls_.start(calls_.context, &shown) == 0 ? ok() : Status(kFailed);
}

Result<bool> CallersCollectives::test() {
  std::uint32_t done = 0;
  if (calls_.test(calls_.context, &done) != 0) return kFailed;
  return done != 0;
}

Status CallersCollectives::wait(std::chrono::nanoseconds timeout) {
  const double seconds = std::chrono::duration<double>(timeout).count();
  return calls_.wait(calls_.context, seconds) == 0 ? ok() : Status(kFailed);
}

PortEnd::PortEnd(std::shared_ptr<WorkerHandle> of, const sluice_collectives& calls,
                 std::chrono::nanoseconds timeout)
    : worker_(std::move(of)),
      collectives_(std::make_unique<CallersCollectives>(calls)),
      fused_(std::make_unique<FusedPort>(worker_->memory->options().rank,
                                         worker_->memory->options().workers, *collectives_)),
      timeout_(timeout),
      bucket_(*worker_->memory),
      driver_(*worker_->memory, *fused_, 0) {}

PortEnd::PortEnd(std::shared_ptr<WorkerHandle> of, std::unique_ptr<stream::Port> opened,
                 std::uint32_t window, std::chrono::nanoseconds timeout)
    : worker_(std::move(of)),
      stream_(std::move(opened)),
      timeout_(timeout),
      bucket_(*worker_->memory),
      driver_(*worker_->memory, *stream_, window) {}

PortEnd::PortEnd(std::shared_ptr<WorkerHandle> of, const sluice_collectives& calls,
                 device::Stream stream, bool carries, std::uint64_t wave,
                 std::chrono::nanoseconds timeout)
    : worker_(std::move(of)),
      collectives_(std::make_unique<CallersCollectives>(calls)),
      bench_(std::make_unique<device::Bench>(*worker_->device, stream)),
      fused_(std::make_unique<FusedPort>(worker_->memory->options().rank,
                                         worker_->memory->options().workers, *collectives_)),
      timeout_(timeout),
      carries_device_(carries),
      wave_(wave),
      bucket_(*worker_->memory),
      driver_(*worker_->memory, *fused_, 0, Place{bench_.get(), !carries}) {
  if (carries) fused_->use_device(*bench_);
}

Verdict PortEnd::reserve() {
  const Memory& memory = *worker_->memory;
  const WaveRoom room = wave_room(memory, wave_, {bench_.get(), !carries_device_});
  Status reserved = driver_.reserve_waves(room);
  if (reserved) {
    const LegBytes legs{room.up, room.down, room.down_share, room.host_lanes};
    reserved = collectives_->make_room(fused_room(legs, memory.options().workers, carries_device_));
  }
  if (!reserved) return Problem{reserved.error().code, reserved.error().what};
  return Nothing{};
}

sluice_device_counts PortEnd::device_counts() const {
  const std::lock_guard lock(noting_);
  return noted_device_;
}

Problem problem_of(const Driver& driver, const Error& error) {
  const std::string& cause = driver.explain();
  return {error.code, cause.empty() ? std::string(error.what) : cause};
}

sluice_probe shown_from(const TensorProbe& probe) {
  return {probe.tensor, probe.blocks,       probe.live,
          probe.silent, probe.error_energy, probe.exact_energy};
}

Verdict PortEnd::run(const BucketOrder& order, std::span<const BucketEntry> entries) {
  if (driver_.is_dead()) {
    return Problem{Code::unavailable, "port: it failed before; accepted: a new port"};
  }
  if (driver_.is_running()) return invalid("port: a bucket is in flight; accepted: after it");
  SLUICE_TRY(bucket_.load(order, entries));
  const Stats before = driver_.stats();
  const Load whole{.bucket = &bucket_, .last = bucket_.count()};
  const InFlight in_flight(*worker_);
  const Status started = driver_.start({&whole, 1});
  if (!started) return problem_of(driver_, started.error());
  Attempt attempt(driver_);
  const Status finished = driver_.finish(timeout_);
  note();
  if (!finished) {
    attempt.ended();
    return fatal(problem_of(driver_, finished.error()));
  }
  // Without memory for the probes the means are there and the caller does not know: no second time.
  probes_.clear();
  for (const TensorProbe& probe : bucket_.probes()) probes_.push_back(shown_from(probe));
  attempt.ended();
  const Stats& after = driver_.stats();
  const Outcome& outcome = driver_.loads()[0].outcome;
  report_ = {sizeof(sluice_report),
             outcome.digest,
             outcome.infinite,
             after.rounds - before.rounds,
             after.bytes_up - before.bytes_up,
             after.bytes_down - before.bytes_down,
             after.chunks - before.chunks,
             after.encode_seconds - before.encode_seconds,
             after.decode_seconds - before.decode_seconds};
  return Nothing{};
}

void PortEnd::note() {
  const Stats& stats = driver_.stats();
  sluice_traffic now = SLUICE_TRAFFIC_INIT;
  if (fused_ != nullptr) {
    const FusedTraffic& moved = fused_->traffic();
    now.sent_bytes = moved.sent_bytes;
    now.received_bytes = moved.received_bytes;
    now.collectives = moved.collectives;
    now.combine_seconds = moved.combine_seconds;
  }
  now.encode_seconds = stats.encode_seconds;
  now.decode_seconds = stats.decode_seconds;
  now.network_seconds = std::max(0.0, stats.carrier_seconds - now.combine_seconds);
  const std::lock_guard lock(noting_);
  noted_ = now;
  if (bench_ == nullptr) return;
  const device::Counters& counters = bench_->counters();
  noted_device_ = {sizeof(sluice_device_counts),
                   counters.waves,
                   counters.launches,
                   counters.launches_most,
                   counters.uploaded_bytes,
                   counters.grown + driver_.grown() + collectives_->grown()};
}

sluice_traffic PortEnd::traffic() const {
  const std::lock_guard lock(noting_);
  sluice_traffic shown = noted_;
  if (stream_ == nullptr) return shown;
  const auto counted = stream_->counters();
  shown.sent_bytes = counted.sent_bytes;
  shown.received_bytes = counted.received_bytes;
  shown.retransmits = counted.retransmits;
  return shown;
}

}  // namespace sluice::abi
