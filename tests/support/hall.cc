#include "tests/support/hall.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/assert.h"

namespace sluice::support {

// One rank's end.
class Hall::Guest final : public Collectives {
 public:
  explicit Guest(Hall& hall) : hall_(hall) {}

  std::span<std::byte> reserve(Buffer buffer, std::size_t size) override {
    if (is_of_device(buffer)) {
      device::DeviceMemory& one = device_buffers_[memory_of(buffer)];
      if (one.bytes().size() < size) one = device::DeviceMemory(*hall_.on_, size);
      return one.bytes();
    }
    AlignedBuffer& one = buffers_[memory_of(buffer)];
    grow(one, size);
    return one.bytes();
  }
  Status start(const Call& call) override {
    const std::lock_guard lock(hall_.mutex_);
    SLUICE_ASSERT(!waits_);
    call_ = call;
    waits_ = true;
    if (++hall_.here_ == hall_.guests_.size()) hall_.run();
    return ok();
  }
  Result<bool> test() override {
    const std::lock_guard lock(hall_.mutex_);
    return !waits_;
  }
  Status wait(std::chrono::nanoseconds timeout) override {
    std::unique_lock lock(hall_.mutex_);
    if (hall_.changed_.wait_for(lock, timeout, [&] { return !waits_; })) return ok();
    return Error{Code::timeout, 0, "not all ranks came to a collective"};
  }

 private:
  friend class Hall;
  [[nodiscard]] bool is_of_device(Buffer buffer) const {
    return hall_.on_ != nullptr && buffer >= Buffer::device_send;
  }
  // Beside a device buffers share what memory they may.
  [[nodiscard]] std::size_t memory_of(Buffer buffer) const {
    if (hall_.on_ != nullptr && buffer == Buffer::gathered) buffer = Buffer::received;
    if (buffer == Buffer::device_gathered) buffer = Buffer::device_received;
    if (buffer == Buffer::device_answer) buffer = Buffer::device_send;
    return static_cast<std::size_t>(buffer);
  }
  std::byte* data(Buffer buffer) {
    const std::size_t index = memory_of(buffer);
    return (is_of_device(buffer) ? device_buffers_[index].bytes() : buffers_[index].bytes()).data();
  }

  Hall& hall_;
  std::array<AlignedBuffer, kBuffers> buffers_;
  std::array<device::DeviceMemory, kBuffers> device_buffers_;
  Call call_;
  bool waits_ = false;
};

Hall::Hall(std::uint32_t workers, const device::Accelerator* on) : on_(on) {
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    guests_.push_back(std::make_unique<Guest>(*this));
  }
}
Hall::~Hall() = default;

Collectives& Hall::of(std::uint32_t rank) { return *guests_[rank]; }

std::uint64_t Hall::met() const {
  const std::lock_guard lock(mutex_);
  return met_;
}

namespace {

using Kind = Collectives::Kind;

std::uint64_t before(std::span<const std::uint64_t> sizes, std::size_t rank) {
  return std::accumulate(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(rank),
                         std::uint64_t{0});
}

}  // namespace

void Hall::move(std::byte* to, const std::byte* from, std::size_t size, bool on_device) const {
  if (on_device) {
    SLUICE_ASSERT(on_->table->copy(to, from, size, nullptr) == 0);
  } else {
    std::memcpy(to, from, size);
  }
}

// All are here. Ranks that want different things would hang, or worse, on a real network: that is a
// bug of whoever calls.
void Hall::run() {
  const auto& first = guests_[0]->call_;
  for (const auto& guest : guests_) {
    SLUICE_ASSERT(guest->call_.kind == first.kind && guest->call_.count == first.count);
  }
  const std::size_t workers = guests_.size();
  const bool on_device = guests_[0]->is_of_device(first.from);
  for (std::size_t to = 0; to < workers && first.kind == Kind::all_to_all; ++to) {
    Guest& target = *guests_[to];
    for (std::size_t from = 0; from < workers; ++from) {
      Guest& source = *guests_[from];
      const std::uint64_t size = source.call_.send_sizes[to];
      SLUICE_ASSERT(size == target.call_.receive_sizes[from]);
      move(target.data(target.call_.to) + before(target.call_.receive_sizes, from),
           source.data(source.call_.from) + before(source.call_.send_sizes, to), size, on_device);
    }
  }
  for (std::size_t to = 0; to < workers && first.kind == Kind::all_gather; ++to) {
    for (std::size_t from = 0; from < workers; ++from) {
      move(guests_[to]->data(first.to) + from * first.count, guests_[from]->data(first.from),
           first.count, on_device);
    }
  }
  for (std::size_t i = 0; i < first.count && (first.kind == Kind::max || first.kind == Kind::sum);
       ++i) {
    const auto lane = [&](Guest& guest) {
      return reinterpret_cast<std::int32_t*>(guest.data(first.from)) + i;
    };
    std::int32_t total = *lane(*guests_[0]);
    for (std::size_t rank = 1; rank < workers; ++rank) {
      const std::int32_t one = *lane(*guests_[rank]);
      const auto sum = static_cast<std::uint32_t>(total) + static_cast<std::uint32_t>(one);
      total = first.kind == Kind::max ? std::max(total, one) : static_cast<std::int32_t>(sum);
    }
    for (const auto& guest : guests_) *lane(*guest) = total;
  }
  for (const auto& guest : guests_) guest->waits_ = false;
  here_ = 0;
  ++met_;
  changed_.notify_all();
}

}  // namespace sluice::support
