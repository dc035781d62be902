// What a sluice_port is: one worker's end of a carrier, with a driver. Its handle and the queues
// that use it share it, so a program may free them in any order.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <variant>

#include "abi/edge.h"
#include "carrier/fused_port.h"
#include "carrier/fused_room.h"
#include "carrier/stream/stream_port.h"
#include "device/bench.h"
#include "group/driver.h"

namespace sluice::abi {

// The caller's functions as the library sees them. Whatever they fail with is Code::lost.
class CallersCollectives final : public Collectives {
 public:
  // The struct is copied; its context outlives this.
  explicit CallersCollectives(const sluice_collectives& calls) : calls_(calls) {}
  // Asks for buffers of these sizes ahead of time, where they have been smaller.
  Status make_room(const FusedRoom& sizes);
  // How often a buffer had to be larger since.
  [[nodiscard]] std::uint64_t grown() const { return grown_; }
  std::span<std::byte> reserve(Buffer buffer, std::size_t size) override;
  Status start(const Call& call) override;
  Result<bool> test() override;
  Status wait(std::chrono::nanoseconds timeout) override;

 private:
  sluice_collectives calls_;
  FusedRoom most_{};  // bytes that were asked for, by buffer
  std::uint64_t grown_ = 0;
};

// One thread at a time, the caller's or a queue's; traffic() and is_queued are for any.
class PortEnd {
 public:
  // Over collectives of the caller's, or over an end of `stream` that has joined. `timeout` is for
  // each bucket or wave.
  PortEnd(std::shared_ptr<WorkerHandle> of, const sluice_collectives& calls,
          std::chrono::nanoseconds timeout);
  // The same for buckets on the worker's device. `carries`: the collectives move its bytes. `wave`:
  // coordinates that are in flight at most.
  PortEnd(std::shared_ptr<WorkerHandle> of, const sluice_collectives& calls, device::Stream stream,
          bool carries, std::uint64_t wave, std::chrono::nanoseconds timeout);
  PortEnd(std::shared_ptr<WorkerHandle> of, std::unique_ptr<stream::Port> opened,
          std::uint32_t window, std::chrono::nanoseconds timeout);

  [[nodiscard]] const std::shared_ptr<WorkerHandle>& worker() const { return worker_; }
  [[nodiscard]] Driver& driver() { return driver_; }
  // Null: of carrier `stream`.
  [[nodiscard]] FusedPort* fused() { return fused_.get(); }
  [[nodiscard]] std::chrono::nanoseconds timeout() const { return timeout_; }

  // A queue has it.
  std::atomic<bool> is_queued = false;

  // Averages a bucket by itself, and blocks until it is done. After an error Driver::is_dead() says
  // whether the end can still be used. An exception in the middle leaves it dead.
  Verdict run(const BucketOrder& order, std::span<const BucketEntry> entries);
  // Of the last run() that went well. Valid until the next.
  [[nodiscard]] const sluice_report& report() const { return report_; }
  [[nodiscard]] std::span<const sluice_probe> probes() const { return probes_; }

  // Takes memory for waves on the device, as the worker's memory is by now. Nothing is in flight,
  // and no thread is in the port. May throw bad_alloc.
  Verdict reserve();
  // From any thread: nothing more is decoded on the device. Does nothing without one.
  Status stop() { return bench_ == nullptr ? ok() : bench_->stop(); }
  // Whether it takes buckets on the worker's device.
  [[nodiscard]] bool has_device() const { return bench_ != nullptr; }
  // Whether bytes travel from device to device.
  [[nodiscard]] bool carries_device() const { return carries_device_; }
  // As of the last note().
  [[nodiscard]] sluice_device_counts device_counts() const;

  // Takes down what the end has moved. For the thread that serves it.
  void note();
  // What it has moved, as of the last note().
  [[nodiscard]] sluice_traffic traffic() const;

 private:
  std::shared_ptr<WorkerHandle> worker_;
  std::unique_ptr<CallersCollectives> collectives_;
  std::unique_ptr<device::Bench> bench_;
  std::unique_ptr<FusedPort> fused_;
  std::unique_ptr<stream::Port> stream_;
  std::chrono::nanoseconds timeout_;
  bool carries_device_ = false;
  std::uint64_t wave_ = 0;  // coordinates
  Bucket bucket_;
  Driver driver_;
  sluice_report report_ = SLUICE_REPORT_INIT;
  std::vector<sluice_probe> probes_;
  mutable std::mutex noting_;
  sluice_traffic noted_ = SLUICE_TRAFFIC_INIT;
  sluice_device_counts noted_device_ = SLUICE_DEVICE_COUNTS_INIT;
};

// A driver's error with the words of explain(), where it has some.
Problem problem_of(const Driver& driver, const Error& error);

// Gives the driver up unless ended() was called: a call that an exception stopped in the middle
// leaves a driver that cannot go on.
class Attempt {
 public:
  explicit Attempt(Driver& driver) : driver_(driver) {}
  ~Attempt() {
    if (!ended_) driver_.give_up();
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  void ended() { ended_ = true; }

 private:
  Driver& driver_;
  bool ended_ = false;
};

sluice_probe shown_from(const TensorProbe& probe);

}  // namespace sluice::abi

struct sluice_port {
  explicit sluice_port(std::shared_ptr<sluice::abi::PortEnd> of) : end(std::move(of)) {}
  std::shared_ptr<sluice::abi::PortEnd> end;
};
