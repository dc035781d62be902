#include "group/waves.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace sluice {

Waves::Waves(Memory& memory, const WavesOptions& options) : memory_(memory), options_(options) {
  SLUICE_ASSERT(options.tracks >= 1);
}

Verdict Waves::check_open() const {
  if (failed_) {
    return Problem{Code::unavailable, "queue: it failed before; accepted: another queue"};
  }
  if (closed_) return Problem{Code::unavailable, "queue: closed; accepted: another queue"};
  return Nothing{};
}

Checked<std::uint64_t> Waves::put(const BucketOrder& order, std::span<const BucketEntry> entries) {
  const std::lock_guard putting(putting_);
  std::unique_ptr<Bucket> bucket;
  BucketOrder numbered = order;
  {
    const std::lock_guard lock(mutex_);
    numbered.number = end();
    // Before the bucket is planned, which may read the tensors' memories.
    SLUICE_TRY(check_free(entries));
    if (!spare_.empty()) {
      bucket = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  if (bucket == nullptr) bucket = std::make_unique<Bucket>(memory_);
  SLUICE_TRY(bucket->load(numbered, entries));
  const std::lock_guard lock(mutex_);
  SLUICE_ASSERT(numbered.number == end());
  SLUICE_TRY(check_open());
  append(std::move(bucket));
  hold(*units_.back().bucket, units_.back().bucket.get());
  return numbered.number;
}

Verdict Waves::check_free(std::span<const BucketEntry> entries) {
  holders_.resize(memory_.tensors().size());
  for (const BucketEntry& entry : entries) {
    const bool exists = entry.tensor < holders_.size();
    const Bucket* const holder = exists ? holders_[entry.tensor] : nullptr;
    if (holder == nullptr) continue;
    return Problem{Code::invalid_argument,
                   fmt::format("tensor {} is in bucket {} of step {}, which is not finished; "
                               "accepted: after that bucket's event",
                               entry.tensor, holder->order().number, holder->order().step)};
  }
  return Nothing{};
}

void Waves::hold(const Bucket& bucket, const Bucket* holder) {
  for (const BucketEntry& entry : bucket.entries()) holders_[entry.tensor] = holder;
}

Checked<std::uint64_t> Waves::put_turn() {
  const std::lock_guard putting(putting_);
  const std::lock_guard lock(mutex_);
  SLUICE_TRY(check_open());
  append(nullptr);
  return end() - 1;
}

// A unit's members follow from what was put before it, which is the same on all ranks. What may
// fail comes first.
void Waves::append(std::unique_ptr<Bucket> bucket) {
  Unit& unit = units_.emplace_back();
  unit.bucket = std::move(bucket);
  if (unit.bucket != nullptr) {
    unit.chunks_left = unit.bucket->count();
    const std::uint64_t step = unit.bucket->order().step;
    if (step != step_) step_units_last_ = std::exchange(step_units_, 0);
    step_ = step;
  }
  unit.ends_step = ++step_units_ == step_units_last_;
  changed_.notify_all();
}

void Waves::close(bool at_once) {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  at_once_ = at_once_ || at_once;
  changed_.notify_all();
}

void Waves::fail() {
  const std::lock_guard lock(mutex_);
  failed_ = true;
  changed_.notify_all();
}

std::uint64_t Waves::ready() const {
  const std::lock_guard lock(mutex_);
  return end();
}

Waves::Next Waves::take(std::size_t track, Wave& wave) {
  const std::lock_guard lock(mutex_);
  return look(track, wave);
}

Waves::Next Waves::wait(std::size_t track, Wave& wave) { return wait_for(track, wave); }

Waves::Next Waves::wait_any(Wave& wave) { return wait_for({}, wave); }

Waves::Next Waves::wait_for(std::optional<std::size_t> track, Wave& wave) {
  std::unique_lock lock(mutex_);
  while (true) {
    const Next next = look(track.value_or(wave_next_ % options_.tracks), wave);
    if (next != Next::nothing) return next;
    changed_.wait(lock);
  }
}

Waves::Next Waves::look(std::size_t track, Wave& wave) {
  if (failed_) return Next::failed;
  if (closed_ && (at_once_ || at_ == end())) return Next::closed;
  const bool is_mine = wave_next_ % options_.tracks == track;
  if (!is_mine || !is_settled_ || at_ == end()) return Next::nothing;
  define(wave);
  changed_.notify_all();
  return Next::wave;
}

void Waves::define(Wave& wave) {
  wave.number = wave_next_++;
  wave.loads.clear();
  wave.coordinates = 0;
  wave.is_turn = unit(at_).bucket == nullptr;
  heard_.reset();
  is_settled_ = !options_.agreed;
  if (!wave.is_turn) return define_loads(wave);
  // Its collectives are the caller's: what was last agreed holds.
  wave.turn = at_++;
  unit(wave.turn).is_taken = true;
  is_settled_ = true;
}

// From the next chunk on: all that every rank is known to have, up to a turn and within the bound.
// Of a device or of the host, as the first bucket is: a driver runs one kind at a time.
void Waves::define_loads(Wave& wave) {
  const std::uint64_t limit = options_.agreed ? std::max(agreed_, at_ + 1) : at_ + 1;
  SLUICE_ASSERT(limit <= end());
  std::uint64_t& coordinates = wave.coordinates;
  const bool on_device = unit(at_).bucket->order().on_device;
  while (at_ < limit && unit(at_).bucket != nullptr) {
    Unit& one = unit(at_);
    if (one.bucket->order().on_device != on_device) return;
    Load load{.bucket = one.bucket.get(), .first = chunk_at_, .last = chunk_at_};
    while (load.last < one.bucket->count()) {
      const std::uint64_t more = one.bucket->coordinates(load.last);
      if (coordinates != 0 && coordinates + more > options_.coordinates_max) break;
      coordinates += more;
      ++load.last;
    }
    if (load.count() != 0 || one.bucket->count() == 0) wave.loads.push_back(load);
    if (load.last < one.bucket->count()) {
      chunk_at_ = load.last;
      return;
    }
    one.is_taken = true;
    chunk_at_ = 0;
    ++at_;
  }
}

bool Waves::take_agreed(Wave& wave) {
  const std::lock_guard lock(mutex_);
  if (failed_ || at_ == end() || unit(at_).bucket == nullptr) return false;
  if (chunk_at_ == 0 && at_ >= agreed_) return false;
  define(wave);
  return true;
}

void Waves::agree(std::optional<std::uint64_t> least) {
  const std::lock_guard lock(mutex_);
  settle(least);
}

void Waves::hear(const Wave& wave, std::optional<std::uint64_t> least, bool bulk) {
  const std::lock_guard lock(mutex_);
  if (wave.number + 1 != wave_next_ || is_settled_) return;
  if (least) heard_ = least;
  if (!bulk) return;
  const bool is_small = wave.coordinates < options_.coordinates_max / 2;
  if (!is_small || (heard_ && has_rest_of_step(*heard_))) settle(heard_);
}

bool Waves::has_rest_of_step(std::uint64_t least) {
  for (std::uint64_t i = at_; i < std::min(least, end()); ++i) {
    if (unit(i).ends_step) return true;
  }
  return false;
}

void Waves::settle(std::optional<std::uint64_t> least) {
  // Bytes from outside: nobody has less than all agreed on, nor do we have more than we have.
  if (least) agreed_ = std::max(agreed_, std::min(*least, end()));
  is_settled_ = true;
  changed_.notify_all();
}

std::vector<Waves::Finished> Waves::finish(const Wave& wave, std::span<const Load> loads) {
  std::vector<Finished> finished;
  const std::lock_guard lock(mutex_);
  if (wave.number + 1 == wave_next_ && !is_settled_) settle(heard_);
  if (wave.is_turn) unit(wave.turn).is_done = true;
  for (const Load& load : loads) {
    const std::uint64_t number = load.bucket->order().number;
    Unit& one = unit(number);
    one.outcome.add(load.outcome);
    one.chunks_left -= load.count();
    if (!one.is_taken || one.chunks_left != 0) continue;
    one.is_done = true;
    hold(*one.bucket, nullptr);
    finished.push_back({number, one.outcome, one.bucket->probes()});
  }
  drop_done();
  changed_.notify_all();
  return finished;
}

void Waves::drop_done() {
  while (!units_.empty() && units_.front().is_done) {
    if (units_.front().bucket != nullptr) spare_.push_back(std::move(units_.front().bucket));
    units_.pop_front();
    ++first_;
  }
}

}  // namespace sluice
