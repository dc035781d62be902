#include "device/bench.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

#include "base/assert.h"
#include "base/bytes.h"

namespace sluice::device {
namespace {

constexpr std::size_t kTablesLeast = std::size_t{1} << 20;  // where nobody says how many

std::uint32_t blocks_of(const warp::TideChunk& chunk) {
  const std::uint32_t rest = chunk.count % chunk.block;
  std::uint32_t tails = 0;
  for (std::uint32_t left = rest; left != 0; ++tails) {
    left -= std::min(left, std::max(16u, std::bit_floor(left)));
  }
  return chunk.count / chunk.block + tails;
}

std::uint32_t units_of(const warp::Sum& sum) {
  const bool has_grains = sum.op == warp::SumOp::lane_sum;
  return divide_up(sum.count, has_grains ? std::max(8u, sum.grain) : warp::kSumUnit);
}

}  // namespace

Bench::~Bench() {
  if (done_ == nullptr) return;
  on_.use();
  static_cast<void>(wait());
  static_cast<void>(on_.table->free_event(done_));
  if (begun_ != nullptr) static_cast<void>(on_.table->free_event(begun_));
  if (stop_stream_ != nullptr) static_cast<void>(on_.table->free_stream(stop_stream_));
}

Status Bench::check(int error, const char* what) const {
  return error == 0 ? ok() : Status(Error{Code::io, error, what});
}

Status Bench::reserve(std::size_t table_bytes, std::size_t room_bytes, bool is_shared) {
  on_.use();
  if (done_ == nullptr) SLUICE_TRY(check(on_.table->make_event(&done_), "device: no event"));
  if (said_ == nullptr) {
    said_memory_ = SharedMemory(on_, sizeof(warp::Finding));
    said_ = said_memory_.as<warp::Finding>();
    *said_ = {};
    stop_memory_ = SharedMemory(on_, sizeof(std::uint32_t));
    *stop_memory_.as<std::uint32_t>() = warp::kBadStopped;
    SLUICE_TRY(check(on_.table->make_stream(&stop_stream_), "device: no stream"));
    SLUICE_TRY(check(on_.table->make_event(&begun_), "device: no event"));
  }
  // Smaller ones stay behind it: the last finding is there, which stop() may look for.
  const std::size_t wanted = table_bytes != 0 ? table_bytes : kTablesLeast;
  const std::size_t size = round_up(wanted, kTableAlignment);
  if (tables_.empty() || tables_.front().host.bytes().size() < size) {
    tables_.insert(tables_.begin(), Tables{SharedMemory(on_, size), DeviceMemory(on_, size)});
  }
  if (room_bytes != 0) {
    is_shared ? shared_room_.reserve(room_bytes) : device_room_.reserve(room_bytes);
  }
  return ok();
}

Status Bench::begin() {
  if (is_stopped_) return kGivenUp;
  if (tables_.empty()) SLUICE_TRY(reserve(0));
  on_.use();
  for (Tables& one : tables_) one.used = one.uploaded = 0;
  table_ = 0;
  device_room_.reset();
  shared_room_.reset();
  forget_work();
  const Listed<warp::Finding> finding = list<warp::Finding>(1);
  *finding.host = {};
  finding_ = const_cast<warp::Finding*>(finding.device);  // The device writes it, nobody here.
  *said_ = {};
  ++counters_.waves;
  launches_before_ = counters_.launches;
  // At once, before the stream waits for anything: it must not undo a stop() that comes later, and
  // which waits for this alone.
  SLUICE_TRY(upload());
  SLUICE_TRY(check(on_.table->record(begun_, stream_), "device: an event could not be recorded"));
  return is_stopped_ ? Status(kGivenUp) : ok();
}

Bench::Piece Bench::carve(std::size_t size) {
  const std::size_t wanted = round_up(size, kTableAlignment);
  const auto has_room = [&](const Tables& one) {
    return one.host.bytes().size() - one.used >= wanted;
  };
  while (table_ < tables_.size() && !has_room(tables_[table_])) ++table_;
  if (table_ == tables_.size()) {
    const std::size_t more = std::max(2 * tables_.back().host.bytes().size(), wanted);
    tables_.push_back({SharedMemory(on_, more), DeviceMemory(on_, more)});
    ++counters_.grown;
  }
  Tables& at = tables_[table_];
  const std::size_t first = at.used;
  at.used += wanted;
  return {at.host.bytes().data() + first, at.device.bytes().data() + first};
}

std::span<std::byte> Bench::room(std::size_t size, bool is_shared) {
  bool grew = false;
  const auto bytes = is_shared ? shared_room_.take(size, grew) : device_room_.take(size, grew);
  counters_.grown += grew ? 1 : 0;
  return bytes;
}

template <class Item, class Units>
void Bench::prepare(Kernel kernel, std::span<const Item> items, std::uint32_t tile, Units units) {
  std::uint32_t tile_count = 0;
  for (const Item& item : items) {
    const std::uint64_t all = units(item);
    // Kernels count units in 32 bits, and up to a tile beyond the last.
    SLUICE_ASSERT(all <= (std::uint64_t{1} << 32) - tile);
    const std::uint64_t tiles = divide_up(all, std::uint64_t{tile});
    tile_count += static_cast<std::uint32_t>(tiles);
  }
  if (tile_count != 0) {
    const Listed<Item> listed = list<Item>(items.size());
    std::copy(items.begin(), items.end(), listed.host);
    const Listed<warp::Tile> tiles = list<warp::Tile>(tile_count);
    std::size_t at = 0;
    for (std::uint32_t i = 0; i < items.size(); ++i) {
      const std::uint64_t all = units(items[i]);
      for (std::uint64_t first = 0; first < all; first += tile) {
        tiles.host[at++] = {i, static_cast<std::uint32_t>(first)};
      }
    }
    launches_.push_back({kernel, 0, listed.device, tiles.device, tile_count});
  }
}

void Bench::prepare_tide(Kernel kernel, std::span<const warp::TideChunk> items) {
  std::uint32_t largest = 0;
  for (const warp::TideChunk& item : items) largest = std::max(largest, item.block);
  const std::size_t before = launches_.size();
  prepare(kernel, items, warp::kTideTile, blocks_of);
  if (launches_.size() != before) launches_.back().block = largest;
}

void Bench::forget_work() {
  copies_.clear();
  compares_.clear();
  sums_.clear();
  dense_encodes_.clear();
  dense_decodes_.clear();
  measures_.clear();
  encodes_.clear();
  decodes_.clear();
}

bool Bench::has_work() const {
  return !(copies_.empty() && compares_.empty() && sums_.empty() && dense_encodes_.empty() &&
           dense_decodes_.empty() && measures_.empty() && encodes_.empty() && decodes_.empty());
}

Status Bench::upload() {
  for (Tables& one : tables_) {
    if (one.used == one.uploaded) continue;
    const std::size_t size = one.used - one.uploaded;
    SLUICE_TRY(check(on_.table->copy(one.device.bytes().data() + one.uploaded,
                                     one.host.bytes().data() + one.uploaded, size, stream_),
                     "device: a table could not be copied"));
    one.uploaded = one.used;
    counters_.uploaded_bytes += size;
  }
  return ok();
}

// What later kernels read comes first.
Status Bench::submit() {
  if (is_stopped_) return kGivenUp;
  on_.use();
  launches_.clear();
  const bool decodes = !decodes_.empty() || !dense_decodes_.empty() || !compares_.empty();
  prepare_tide(Kernel::measure, measures_);
  prepare_tide(Kernel::encode, encodes_);
  prepare<warp::Dense>(Kernel::dense_encode, dense_encodes_, warp::kDenseTile,
                       [](const warp::Dense& item) { return item.count; });
  prepare<warp::Copy>(Kernel::copy, copies_, warp::kCopyTile,
                      [](const warp::Copy& item) { return item.size; });
  prepare<warp::Compare>(Kernel::compare, compares_, warp::kCompareTile,
                         [](const warp::Compare& item) { return item.count; });
  prepare<warp::Sum>(Kernel::sum, sums_, warp::kSumTile, units_of);
  const auto keeping =
      std::partition(decodes_.begin(), decodes_.end(),
                     [](const warp::TideChunk& item) { return item.residual == nullptr; });
  prepare_tide(Kernel::check, decodes_);
  prepare_tide(Kernel::decode, {decodes_.begin(), keeping});
  prepare_tide(Kernel::keep, {keeping, decodes_.end()});
  prepare<warp::Dense>(Kernel::dense_decode, dense_decodes_, warp::kDenseTile,
                       [](const warp::Dense& item) { return item.count; });
  forget_work();
  SLUICE_TRY(upload());
  for (const Launch& launch : launches_) {
    SLUICE_TRY(
        check(on_.table->launch(&launch, stream_), "device: a kernel could not be launched"));
  }
  counters_.launches += launches_.size();
  counters_.launches_most =
      std::max(counters_.launches_most, counters_.launches - launches_before_);
  if (decodes) {
    SLUICE_TRY(check(on_.table->copy(said_, finding(), sizeof(warp::Finding), stream_),
                     "device: a finding could not be copied"));
  }
  SLUICE_TRY(check(on_.table->record(done_, stream_), "device: an event could not be recorded"));
  is_recorded_ = true;
  return ok();
}

Result<bool> Bench::is_done() {
  if (!is_recorded_) return true;
  int done = 0;
  SLUICE_TRY(check(on_.table->query(done_, &done), "device: a kernel failed"));
  return done != 0;
}

Status Bench::wait() {
  if (!is_recorded_) return ok();
  return check(on_.table->synchronize(done_), "device: a kernel failed");
}

Status Bench::judge() const {
  const std::uint32_t bad = said_->bad;
  if ((bad & warp::kBadMismatch) != 0) {
    return Error{Code::mismatch, 0, "workers disagree on what they reduce"};
  }
  if ((bad & warp::kBadStopped) != 0) return kGivenUp;
  if ((bad & warp::kBadShift) != 0) {
    return Error{Code::malformed, 0, "lane_sum: shift out of range"};
  }
  if (bad != 0) {
    return Error{Code::malformed, 0, "lane_sum: a sum beyond what the contributors can reach"};
  }
  return ok();
}

// On a stream that waits for nobody but the upload of the finding. Where a device has one queue for
// all its streams even that may be behind what never ends: then whoever breaks that off comes next.
Status Bench::stop() {
  constexpr std::chrono::seconds kMost(1);
  is_stopped_ = true;
  const std::lock_guard lock(stopping_);  // Who watches ranks and who has failed may both come.
  if (has_said_stop_) return ok();
  warp::Finding* const stopped = finding();
  if (stopped == nullptr) return ok();  // A wave that begins sees is_stopped_.
  on_.use();
  Event copied = nullptr;
  SLUICE_TRY(check(on_.table->make_event(&copied), "device: no event"));
  int error = on_.table->wait(stop_stream_, begun_);
  if (error == 0) {
    error = on_.table->copy(&stopped->bad, stop_memory_.as<std::uint32_t>(), sizeof(std::uint32_t),
                            stop_stream_);
  }
  if (error == 0) error = on_.table->record(copied, stop_stream_);
  int done = 0;
  const auto until = std::chrono::steady_clock::now() + kMost;
  while (error == 0 && done == 0 && std::chrono::steady_clock::now() < until) {
    error = on_.table->query(copied, &done);
  }
  static_cast<void>(on_.table->free_event(copied));
  SLUICE_TRY(check(error, "device: it could not be stopped"));
  if (done == 0) return Error{Code::timeout, 0, "device: it was not stopped within a second"};
  has_said_stop_ = true;
  return ok();
}

Status Bench::after(Event event) {
  if (event == nullptr) return ok();
  on_.use();
  return check(on_.table->wait(stream_, event), "device: an event could not be waited for");
}

}  // namespace sluice::device
