#include "tests/support/device_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/assert.h"
#include "base/float_environment.h"
#include "catalog/carriers.h"
#include "device/transfer.h"
#include "feedback/feedback.h"

namespace sluice::support {
namespace {

std::vector<std::byte> narrowed(floats::Format format, std::span<const float> values) {
  const FloatEnvironment environment;
  std::vector<std::byte> bytes(values.size() * floats::size_of(format));
  if (format == floats::Format::f32) {
    const auto from = std::as_bytes(values);  // NaN payloads, too
    std::copy(from.begin(), from.end(), bytes.begin());
  } else {
    floats::encode(format, values, 1.0f, bytes);
  }
  return bytes;
}

std::vector<float> widened(floats::Format format, std::span<const std::byte> bytes) {
  const FloatEnvironment environment;
  std::vector<float> values(bytes.size() / floats::size_of(format));
  floats::decode(format, bytes, values);
  return values;
}

GroupOptions options_of(const Scenario& scenario, std::uint32_t rank) {
  GroupOptions options;
  options.rank = rank;
  options.workers = scenario.workers;
  options.seed = scenario.seed;
  options.feedback = std::string(scenario.feedback);
  options.chunk_count = scenario.chunk_count;
  options.window = kScenarioWindow;
  return options;
}

}  // namespace

DeviceJob::DeviceJob(const device::Accelerator& on, const Codec& codec, const Inputs& inputs,
                     const Way& way, Wire wire, floats::Format format)
    : on_(on),
      inputs_(inputs),
      way_(way),
      wire_(wire),
      format_(format),
      hall_(inputs.scenario.workers, &on) {
  auto world = world_of(kCarriers[0], inputs.scenario, way);
  SLUICE_ASSERT(world.has_value());
  world_ = std::move(*world);
  for (std::uint32_t rank = 0; rank < workers(); ++rank) ends_.push_back(make_end(rank, codec));
}

std::unique_ptr<DeviceJob::End> DeviceJob::make_end(std::uint32_t rank, const Codec& codec) {
  auto end = std::make_unique<End>();
  GroupOptions options = options_of(inputs_.scenario, rank);
  options.accelerator = &on_;
  auto memory = Memory::make(options);
  SLUICE_ASSERT(memory.has_value());
  end->memory = std::move(*memory);
  const std::shared_ptr<const Codec> lent(std::shared_ptr<const Codec>(), &codec);
  const auto choice = end->memory->offer("conformance", lent);
  SLUICE_ASSERT(choice.has_value());
  SLUICE_ASSERT(end->memory->add(inputs_.tensors, *choice, Memory::Keeps::all).has_value());
  end->bench = std::make_unique<device::Bench>(on_, nullptr);
  SLUICE_ASSERT(end->bench->reserve(0).has_value());
  end->bucket = std::make_unique<Bucket>(*end->memory);
  const bool is_shared = wire_ == Wire::shared;
  end->port = std::make_unique<FusedPort>(rank, workers(), hall_.of(rank));
  if (!is_shared) end->port->use_device(*end->bench);
  Carrier& carrier = is_shared ? world_->port(rank) : *end->port;
  end->driver = std::make_unique<Driver>(*end->memory, carrier, is_shared ? kScenarioWindow : 0,
                                         Place{end->bench.get(), is_shared});
  end->skew = rank % 4 * floats::size_of(format_);
  for (const Tensor& tensor : inputs_.tensors) {
    const std::size_t size = end->skew + tensor.count() * floats::size_of(format_);
    end->gradients.emplace_back(on_, size);
    end->means.emplace_back(on_, way_.in_place ? 0 : size);
  }
  return end;
}

std::byte* DeviceJob::gradient_of(const End& end, std::size_t tensor) const {
  return end.gradients[tensor].as<std::byte>() + end.skew;
}
std::byte* DeviceJob::mean_of(const End& end, std::size_t tensor) const {
  return way_.in_place ? gradient_of(end, tensor) : end.means[tensor].as<std::byte>() + end.skew;
}

void DeviceJob::fill(std::uint32_t rank) {
  End& end = *ends_[rank];
  for (std::size_t tensor = 0; tensor < tensor_count(); ++tensor) {
    const auto bytes = narrowed(format_, inputs_.gradients[tensor][rank]);
    SLUICE_ASSERT(device::to_device(on_, bytes, gradient_of(end, tensor)));
    if (way_.in_place) continue;
    const std::vector<float> nothing(inputs_.tensors[tensor].count(), unwritten(rank));
    const auto unwritten_bytes = narrowed(format_, nothing);
    SLUICE_ASSERT(device::to_device(on_, unwritten_bytes, mean_of(end, tensor)));
  }
}

std::string DeviceJob::run(std::uint64_t step) {
  for (std::uint32_t rank = 0; rank < workers(); ++rank) {
    fill(rank);
    End& end = *ends_[rank];
    std::vector<BucketEntry> entries;
    for (std::uint32_t i = 0; i < tensor_count(); ++i) {
      const auto count = static_cast<std::size_t>(inputs_.tensors[i].count());
      // Elements of the format, whatever the type says.
      float* const gradient = reinterpret_cast<float*>(gradient_of(end, i));
      float* const mean = reinterpret_cast<float*>(mean_of(end, i));
      entries.push_back({i, {gradient, count}, {mean, count}});
    }
    const Verdict loaded =
        end.bucket->load({.step = step, .on_device = true, .format = format_}, entries);
    if (!loaded) return loaded.error().message;
    const Load whole{.bucket = end.bucket.get(), .last = end.bucket->count()};
    if (!end.driver->start({&whole, 1})) return "a step could not be started";
  }
  for (bool done = false; !done;) {
    done = true;
    for (const auto& end : ends_) {
      const Result<bool> mine = end->driver->advance();
      if (!mine) return end->driver->explain();
      done = done && *mine;
    }
  }
  for (const auto& end : ends_) end->memory->end_step();
  return "";
}

std::vector<float> DeviceJob::mean(std::size_t tensor, std::uint32_t rank) const {
  std::vector<std::byte> bytes(inputs_.tensors[tensor].count() * floats::size_of(format_));
  SLUICE_ASSERT(device::to_host(on_, mean_of(*ends_[rank], tensor), bytes));
  return widened(format_, bytes);
}

std::vector<float> DeviceJob::residual(std::size_t tensor, std::uint32_t rank) {
  SLUICE_ASSERT(ends_[rank]->memory->fetch().has_value());
  const auto kept = ends_[rank]->memory->residual(tensor);
  return {kept.begin(), kept.end()};
}

namespace {

std::string differ(const char* what, std::uint32_t step, std::size_t tensor, std::uint32_t rank,
                   std::span<const float> device, std::span<const float> host) {
  if (device.size() != host.size()) {
    return fmt::format("{} of {} and {} floats", what, device.size(), host.size());
  }
  const std::size_t at = first_difference(device, host);
  if (at == host.size()) return "";
  return fmt::format("{} differs: step {}, tensor {}, rank {}, coordinate {}: {} on the device, {}",
                     what, step, tensor, rank, at, device[at], host[at]);
}

}  // namespace

std::string compare_with_host(const device::Accelerator& on, const Codec& codec,
                              const Scenario& scenario, const Way& way, Wire wire,
                              floats::Format format) {
  Inputs inputs(scenario);
  for (auto& ranks : inputs.gradients) {
    for (auto& gradient : ranks) {
      if (format != floats::Format::f32) gradient = widened(format, narrowed(format, gradient));
    }
  }
  ScenarioJob host(codec, kCarriers[0], inputs, way);
  DeviceJob job(on, codec, inputs, way, wire, format);
  for (std::uint32_t step = 0; step < scenario.steps; ++step) {
    if (const Verdict ran = host.run(step); !ran) return "host: " + ran.error().message;
    if (const std::string wrong = job.run(step); !wrong.empty()) return "device: " + wrong;
    std::vector<std::uint64_t> infinite(job.workers());
    for (std::size_t tensor = 0; tensor < job.tensor_count(); ++tensor) {
      for (std::uint32_t rank = 0; rank < job.workers(); ++rank) {
        std::vector<float> mean(host.mean(tensor, rank).begin(), host.mean(tensor, rank).end());
        if (format != floats::Format::f32) {
          const std::vector<float> rounded = widened(format, narrowed(format, mean));
          const FloatEnvironment environment;
          const auto residual = host.group(rank).memories(tensor)[0];
          if (!residual.empty()) keep_lost(mean, rounded, residual);
          mean = rounded;
        }
        infinite[rank] += static_cast<std::uint64_t>(std::count_if(
            mean.begin(), mean.end(), [](float value) { return !std::isfinite(value); }));
        std::string means = differ("mean", step, tensor, rank, job.mean(tensor, rank), mean);
        if (!means.empty()) return means;
        std::string kept = differ("residual", step, tensor, rank, job.residual(tensor, rank),
                                  host.group(rank).residual(tensor));
        if (!kept.empty()) return kept;
      }
    }
    for (std::uint32_t rank = 0; rank < job.workers(); ++rank) {
      if (job.infinite(rank) == infinite[rank]) continue;
      return fmt::format("step {}, rank {}: {} Inf or NaN counted on the device, {} on the host",
                         step, rank, job.infinite(rank), infinite[rank]);
    }
  }
  return "";
}

}  // namespace sluice::support
