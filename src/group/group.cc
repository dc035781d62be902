#include "group/group.h"

#include "base/assert.h"

namespace sluice {

Checked<std::unique_ptr<Group>> Group::make(const GroupOptions& options, std::string_view spec,
                                            const Codec& codec, Carrier& carrier,
                                            std::span<const Tensor> tensors) {
  if (options.accelerator != nullptr) {
    return Problem{Code::invalid_argument,
                   "a group of gradients on a device; accepted: a memory with ports"};
  }
  SLUICE_TRY_ASSIGN(auto memory, Memory::make(options));
  // Not owned: it outlives the group.
  const std::shared_ptr<const Codec> lent(std::shared_ptr<const Codec>(), &codec);
  SLUICE_TRY_ASSIGN(const Choice choice, memory->offer(spec, lent));
  // A carrier may leave a worker out: then even an exact codec's feedback has something to keep.
  SLUICE_TRY(memory->add(tensors, choice, Memory::Keeps::all));
  return std::make_unique<Group>(Token{}, std::move(memory), choice, carrier);
}

Group::Group(Token, std::unique_ptr<Memory> memory, Choice choice, Carrier& carrier)
    : memory_(std::move(memory)),
      choice_(choice),
      bucket_(*memory_),
      driver_(*memory_, carrier, memory_->options().window) {
  // A step of everything, which nobody looks into: it takes the memory that steps will need.
  std::vector<BucketEntry> all;
  for (std::size_t i = 0; i < memory_->tensors().size(); ++i) {
    const auto count = static_cast<std::size_t>(memory_->tensors()[i].count());
    all.push_back({static_cast<std::uint32_t>(i),
                   {static_cast<const float*>(nullptr), count},
                   {static_cast<float*>(nullptr), count}});
  }
  SLUICE_ASSERT(bucket_.load({}, all).has_value());
  const Load whole{.bucket = &bucket_, .last = bucket_.count()};
  driver_.reserve({&whole, 1});
}

Status Group::start(std::uint64_t step, std::span<const BucketEntry> entries) {
  if (driver_.is_dead()) return Error{Code::unavailable, 0, "group: dead after an error"};
  if (is_running()) return Error{Code::invalid_argument, 0, "group: a step is in flight"};
  refusal_.clear();
  if (const Verdict loaded = bucket_.load({.step = step}, entries); !loaded) {
    refusal_ = loaded.error().message;
    return Error{loaded.error().code, 0, "group: an entry that does not fit"};
  }
  const Load whole{.bucket = &bucket_, .last = bucket_.count()};
  return driver_.start({&whole, 1});
}

Result<bool> Group::advance() {
  if (!is_running() && !driver_.is_dead()) return true;
  SLUICE_TRY_ASSIGN(const bool finished, driver_.advance());
  if (finished) memory_->end_step();
  return finished;
}

Status Group::finish(const std::atomic<bool>* stop) {
  if (!is_running() && !driver_.is_dead()) return ok();
  SLUICE_TRY(driver_.finish(memory_->options().timeout, stop));
  memory_->end_step();
  return ok();
}

std::vector<std::byte> Group::save() const {
  SLUICE_ASSERT(!is_running());
  return memory_->save();
}

Verdict Group::load(std::span<const std::byte> saved) {
  SLUICE_ASSERT(!is_running());
  if (driver_.is_dead()) {
    return Problem{Code::unavailable, "group: dead after an error; accepted: a new one"};
  }
  return memory_->load(saved);
}

}  // namespace sluice
