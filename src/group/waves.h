// Waves: which chunks travel together, agreed by all ranks beforehand.
//
// Buckets are put in the same order on every rank, but not at the same time. So "all that is here"
// is another set on every rank, and a rank that sent it would wait for ever. Instead every message
// carries how many buckets its sender has. Each rank hears all of them and takes the least:
//
//   wave 0  {bucket 0}        nothing is known, so the next bucket goes alone
//           … its messages say 5, 4, 6: everybody has buckets 0 to 3 …
//   wave 1  {buckets 1 2 3}   on the next track, while wave 0 is still on its way
//
// A wave is bounded in coordinates: a large bucket is several waves. Buckets on a device and those
// of the host are in different waves. Wave w runs on track w modulo the number of tracks. A wave
// settles the next one with its first collective that is not small. So the next one encodes while
// this one is on its way. A small wave, of less than half the bound, is over soon: it settles the
// next one at its end, and the next one is larger for it. It does not wait where everybody has the
// rest of the step, since that cannot grow. A *turn* is a place in the order for collectives of the
// caller's own. It is a wave by itself.
//
// Carriers whose workers need not agree (aggregators) have waves too: the next bucket, or as much
// of it as a wave holds. The one after it is settled at once.
//
// Any thread may call any function. Of a track's functions, take, wait, finish and hear, one is
// called at a time. Only wait() waits for other ranks or callers. put() waits for another put().
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "group/bucket.h"
#include "group/driver.h"

namespace sluice {

struct WavesOptions {
  std::size_t tracks = 1;
  std::uint64_t coordinates_max = std::uint64_t{1} << 21;  // of a wave; one chunk at least
  bool agreed = true;  // whether ranks tell each other what they have
};

class Waves {
 public:
  struct Wave {
    std::uint64_t number = 0;
    bool is_turn = false;
    std::uint64_t turn = 0;   // its number among buckets and turns
    std::vector<Load> loads;  // of a wave of chunks
    std::uint64_t coordinates = 0;
  };
  struct Finished {
    std::uint64_t number = 0;
    Outcome outcome = {};
    std::vector<TensorProbe> probes = {};
  };
  enum class Next : std::uint8_t { nothing, wave, closed, failed };

  // The memory outlives this. At least one track.
  Waves(Memory& memory, const WavesOptions& options);

  // Each gives the number of what was put: 0, 1, 2, … The number in `order` is not looked at.
  // Entries' memory stays put until the bucket is finished. Code::unavailable: closed, or a track
  // has failed. Code::invalid_argument: an entry does not fit, or its tensor is in an unfinished
  // bucket, since both would write its memories. On refusal nothing was put. May throw bad_alloc.
  Checked<std::uint64_t> put(const BucketOrder& order, std::span<const BucketEntry> entries);
  Checked<std::uint64_t> put_turn();
  // No more can be put: tracks end when all is finished, or at once. For good.
  void close(bool at_once);
  // A track has failed: so do the others. For good.
  void fail();

  // The track's next wave, if there is one yet. Once the one before is finished. Buckets of a wave
  // belong to this and stay until the wave is finished.
  Next take(std::size_t track, Wave& wave);
  // The same, and blocks until there is one, or close() or fail().
  Next wait(std::size_t track, Wave& wave);
  // For one thread that serves all tracks: the next wave, whosever it is.
  Next wait_any(Wave& wave);
  // The next wave, if it is one of chunks that all ranks are known to have. The same on all ranks
  // that have heard and taken the same.
  bool take_agreed(Wave& wave);
  // So many units all ranks have, as any wave's collective told, or nothing more than before.
  void agree(std::optional<std::uint64_t> least);
  // All means of the wave are written. `loads` are its loads with their outcomes. Gives the buckets
  // that are finished with it, in order.
  std::vector<Finished> finish(const Wave& wave, std::span<const Load> loads);

  // How many buckets and turns have been put.
  [[nodiscard]] std::uint64_t ready() const;
  // What a collective of the wave told; may settle the next wave if it was not small. `least` comes
  // from outside: no number does harm.
  void hear(const Wave& wave, std::optional<std::uint64_t> least, bool bulk);

 private:
  // A bucket or a turn.
  struct Unit {
    std::unique_ptr<Bucket> bucket = nullptr;  // null: a turn
    std::size_t chunks_left = 0;
    bool ends_step = false;  // the step before had as many
    bool is_taken = false;   // a wave has its last chunk, or it is a turn that has come
    bool is_done = false;
    Outcome outcome = {};
  };

  [[nodiscard]] Verdict check_open() const;
  [[nodiscard]] Verdict check_free(std::span<const BucketEntry> entries);
  void hold(const Bucket& bucket, const Bucket* holder);
  void append(std::unique_ptr<Bucket> bucket);
  Next look(std::size_t track, Wave& wave);
  Next wait_for(std::optional<std::size_t> track, Wave& wave);
  [[nodiscard]] Unit& unit(std::uint64_t number) { return units_[number - first_]; }
  [[nodiscard]] std::uint64_t end() const { return first_ + units_.size(); }
  void define(Wave& wave);
  void define_loads(Wave& wave);
  [[nodiscard]] bool has_rest_of_step(std::uint64_t least);
  void settle(std::optional<std::uint64_t> least);
  void drop_done();

  Memory& memory_;
  const WavesOptions options_;
  std::mutex putting_;  // one at a time, without keeping tracks from theirs
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Unit> units_;
  std::vector<std::unique_ptr<Bucket>> spare_;
  std::vector<const Bucket*> holders_;  // of each tensor: the unfinished bucket that has it
  std::uint64_t step_ = 0;              // of the last bucket that was put
  std::uint64_t step_units_ = 0;        // of that step, so far …
  std::uint64_t step_units_last_ = 0;   // … and of the step before
  std::uint64_t first_ = 0;             // number of the first of units_
  std::uint64_t at_ = 0;                // the unit that the next wave begins with …
  std::size_t chunk_at_ = 0;            // … and its chunk
  std::uint64_t wave_next_ = 0;         // number of the next wave
  bool is_settled_ = true;              // all ranks know what it is
  std::uint64_t agreed_ = 0;            // units that all ranks have
  std::optional<std::uint64_t> heard_;  // of the last wave, before anything settled the next
  bool closed_ = false;
  bool at_once_ = false;
  bool failed_ = false;
};

}  // namespace sluice
