// Runs scenarios with gradients on a device: all workers of a job in one process, a bench each.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "carrier/fused_port.h"
#include "device/bench.h"
#include "group/bucket.h"
#include "group/driver.h"
#include "group/memory.h"
#include "kernels/floats/floats.h"
#include "tests/support/arrangement.h"
#include "tests/support/hall.h"
#include "tests/support/scenario_job.h"

namespace sluice::support {

// How bytes of rounds travel.
enum class Wire : std::uint8_t {
  shared,   // through memory of the host that the device reaches, over `local`
  carried,  // from device to device, over collectives
};

// All workers of a job. Codec and inputs outlive it.
class DeviceJob {
 public:
  DeviceJob(const device::Accelerator& on, const Codec& codec, const Inputs& inputs, const Way& way,
            Wire wire, floats::Format format);

  // A step of every worker, in turn; what went wrong, for a person.
  std::string run(std::uint64_t step);

  [[nodiscard]] std::size_t tensor_count() const { return inputs_.tensors.size(); }
  [[nodiscard]] std::uint32_t workers() const { return inputs_.scenario.workers; }
  // What the last step left in a worker's mean, widened from its format.
  [[nodiscard]] std::vector<float> mean(std::size_t tensor, std::uint32_t rank) const;
  [[nodiscard]] std::vector<float> residual(std::size_t tensor, std::uint32_t rank);
  [[nodiscard]] const device::Bench& bench(std::uint32_t rank) const { return *ends_[rank]->bench; }
  [[nodiscard]] std::uint64_t infinite(std::uint32_t rank) const {
    return ends_[rank]->driver->loads()[0].outcome.infinite;
  }

 private:
  struct End {
    std::unique_ptr<Memory> memory;
    std::unique_ptr<device::Bench> bench;
    std::unique_ptr<FusedPort> port;
    std::unique_ptr<Bucket> bucket;
    std::unique_ptr<Driver> driver;
    std::vector<device::DeviceMemory> gradients;  // by tensor
    std::vector<device::DeviceMemory> means;
    std::size_t skew = 0;  // bytes, of both: tensors of a model begin at any element
  };

  std::unique_ptr<End> make_end(std::uint32_t rank, const Codec& codec);
  void fill(std::uint32_t rank);
  [[nodiscard]] std::byte* gradient_of(const End& end, std::size_t tensor) const;
  [[nodiscard]] std::byte* mean_of(const End& end, std::size_t tensor) const;

  const device::Accelerator& on_;
  const Inputs& inputs_;
  Way way_;
  Wire wire_;
  floats::Format format_;
  std::unique_ptr<World> world_;
  Hall hall_;
  std::vector<std::unique_ptr<End>> ends_;
};

// The same scenario on a device and on the host's `local`: nothing, or in what they differ. With a
// half-width format gradients are rounded first, and the host's means as DDP's are.
std::string compare_with_host(const device::Accelerator& on, const Codec& codec,
                              const Scenario& scenario, const Way& way, Wire wire,
                              floats::Format format = floats::Format::f32);

}  // namespace sluice::support
