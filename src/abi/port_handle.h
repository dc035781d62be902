// What a sluice_port is: one worker's end of a carrier, with a driver. Shared by its handle and by
// the queues that use it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <variant>

#include "abi/edge.h"
#include "carrier/fused_port.h"
#include "carrier/stream/stream_port.h"
#include "group/driver.h"

namespace sluice::abi {

// The caller's functions as the library sees them.
class CallersCollectives final : public Collectives {
 public:
  explicit CallersCollectives(const sluice_collectives& calls) : calls_(calls) {}
  std::span<std::byte> reserve(Buffer buffer, std::size_t size) override;
  Status start(const Call& call) override;
  Result<bool> test() override;
  Status wait(std::chrono::nanoseconds timeout) override;

 private:
  sluice_collectives calls_;
};

class PortEnd {
 public:
  PortEnd(std::shared_ptr<WorkerHandle> of, const sluice_collectives& calls,
          std::chrono::nanoseconds timeout);
  PortEnd(std::shared_ptr<WorkerHandle> of, std::unique_ptr<stream::Port> opened,
          std::uint32_t window, std::chrono::nanoseconds timeout);

  [[nodiscard]] const std::shared_ptr<WorkerHandle>& worker() const { return worker_; }
  [[nodiscard]] Driver& driver() { return driver_; }
  // Null: of carrier `stream`.
  [[nodiscard]] FusedPort* fused() { return fused_.get(); }
  [[nodiscard]] std::chrono::nanoseconds timeout() const { return timeout_; }

  // A queue has it.
  std::atomic<bool> is_queued = false;

  // Averages a bucket by itself. Whether the end is dead afterwards, the driver says.
  Verdict run(const BucketOrder& order, std::span<const BucketEntry> entries);
  [[nodiscard]] const sluice_report& report() const { return report_; }
  [[nodiscard]] std::span<const sluice_probe> probes() const { return probes_; }

  // What it has moved, as of the last note(), which the serving thread takes.
  void note();
  [[nodiscard]] sluice_traffic traffic() const;

 private:
  std::shared_ptr<WorkerHandle> worker_;
  std::unique_ptr<CallersCollectives> collectives_;
  std::unique_ptr<FusedPort> fused_;
  std::unique_ptr<stream::Port> stream_;
  std::chrono::nanoseconds timeout_;
  Bucket bucket_;
  Driver driver_;
  sluice_report report_ = SLUICE_REPORT_INIT;
  std::vector<sluice_probe> probes_;
  mutable std::mutex noting_;
  sluice_traffic noted_ = SLUICE_TRAFFIC_INIT;
};

// The words of a driver's error.
Problem problem_of(const Driver& driver, const Error& error);

// A call that an exception stopped in the middle leaves a driver that cannot go on.
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
