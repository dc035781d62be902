#include "device/transfer.h"

#include <algorithm>
#include <cstring>

namespace sluice::device {
namespace {

constexpr std::size_t kStage = std::size_t{8} << 20;

// A stream of its own, and an event behind all that was copied on it. The default stream would wait
// for work of other libraries, which may wait for a collective that never ends.
class Transfer {
 public:
  explicit Transfer(const Accelerator& on) : on_(on) {
    on.use();
    error_ = on.table->make_stream(&stream_);
    if (error_ == 0) error_ = on.table->make_event(&event_);
  }
  ~Transfer() {
    if (event_ != nullptr) static_cast<void>(on_.table->free_event(event_));
    if (stream_ != nullptr) static_cast<void>(on_.table->free_stream(stream_));
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  void copy(void* to, const void* from, std::size_t size) {
    if (error_ == 0) error_ = on_.table->copy(to, from, size, stream_);
    if (error_ == 0) error_ = on_.table->record(event_, stream_);
    if (error_ == 0) error_ = on_.table->synchronize(event_);
  }
  [[nodiscard]] Status status() const {
    return error_ == 0 ? ok() : Status(Error{Code::io, error_, "device: a copy failed"});
  }

 private:
  const Accelerator& on_;
  Stream stream_ = nullptr;
  Event event_ = nullptr;
  int error_ = 0;
};

}  // namespace

Status to_device(const Accelerator& on, std::span<const std::byte> from, std::byte* to) {
  Transfer transfer(on);
  const SharedMemory stage(on, std::min(kStage, from.size()));
  for (std::size_t at = 0; at < from.size(); at += kStage) {
    const std::size_t size = std::min(kStage, from.size() - at);
    std::memcpy(stage.bytes().data(), from.data() + at, size);
    transfer.copy(to + at, stage.bytes().data(), size);
  }
  return transfer.status();
}

Status to_host(const Accelerator& on, const std::byte* from, std::span<std::byte> to) {
  Transfer transfer(on);
  const SharedMemory stage(on, std::min(kStage, to.size()));
  for (std::size_t at = 0; at < to.size(); at += kStage) {
    const std::size_t size = std::min(kStage, to.size() - at);
    transfer.copy(stage.bytes().data(), from + at, size);
    std::memcpy(to.data() + at, stage.bytes().data(), size);
  }
  return transfer.status();
}

Status on_device(const Accelerator& on, const std::byte* from, std::byte* to, std::size_t size) {
  Transfer transfer(on);
  if (size != 0) transfer.copy(to, from, size);
  return transfer.status();
}

}  // namespace sluice::device
