// Memories, ports and queues on a device, through the C functions: what is refused, and what an
// error in the middle leaves.
#include <gtest/gtest.h>
#include <sluice/device.h>
#include <sluice/rounds.h>
#include <sluice/sluice.hpp>

#include <array>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "abi/edge.h"
#include "abi/guest_test.h"

namespace sluice::abi {
namespace {

using sluice_api::Codec;

constexpr std::uint64_t kCount = 1000;
constexpr std::uint32_t kRows = 2;  // the tensor that brings rows

// A worker alone: two tensors on the emulated device, and one that brings rows.
class OnADevice : public ::testing::Test {
 protected:
  void SetUp() override {
    table_ = device::emulated();
    table_.copy = [](void* to, const void* from, std::size_t size, device::Stream stream) {
      return error_ != 0 ? error_ : device::emulated().copy(to, from, size, stream);
    };
    // What was launched is done when somebody asks a second time.
    table_.launch = [](const device::Launch* launch, device::Stream stream) {
      is_new_ = true;
      return device::emulated().launch(launch, stream);
    };
    table_.query = [](device::Event, int* done) {
      *done = std::exchange(is_new_, false) ? 0 : 1;
      return 0;
    };
    error_ = 0;
    is_new_ = false;
    sluice_device device;
    device.on = std::make_shared<const device::Accelerator>(device::Accelerator{&table_, 0});
    sluice_options options = SLUICE_OPTIONS_INIT;
    options.workers = 1, options.feedback = "ef", options.keep_before = 1, options.device = &device;
    ASSERT_EQ(sluice_memory_make(&options, &memory_), SLUICE_OK);
    const std::array<sluice_tensor, 2> tensors{{{1, 10, 100}, {2, 10, 100}}};
    const sluice_tensor rows{3, 100, 10};
    ASSERT_EQ(sluice_memory_add(memory_, Codec("tide:bits=2").get(), tensors.data(), 2), SLUICE_OK);
    ASSERT_EQ(sluice_memory_add_rows(memory_, Codec("f32").get(), &rows, 1), SLUICE_OK);
    gradients_[0][7] = 5.0f;  // The other one has nothing to send.
  }
  void TearDown() override {
    sluice_queue_free(queue_);
    for (sluice_port* port : ports_) sluice_port_free(port);
    sluice_memory_free(memory_);
  }

  // Over a device, or, with 2, over the host.
  sluice_port* add_port(std::uint32_t carries) {
    guests_.push_back(
        std::make_unique<Guest>(*copies_.emplace_back(std::make_unique<Copies>()), 1));
    const sluice_collectives calls = guests_.back()->calls();
    sluice_port* port = nullptr;
    EXPECT_EQ(carries == 2
                  ? sluice_port_over(memory_, &calls, 60, &port)
                  : sluice_port_over_device(memory_, &calls, nullptr, carries, 1, 60, &port),
              SLUICE_OK)
        << sluice_last_error();
    return ports_.emplace_back(port);
  }
  void make_queue(std::uint64_t wave) {
    add_port(1);
    add_port(1);
    ASSERT_EQ(sluice_queue_make(ports_.data(), 2, wave, &queue_), SLUICE_OK) << sluice_last_error();
  }
  sluice_code put(std::uint32_t tensor) {
    sluice_order order = SLUICE_ORDER_INIT;
    order.on_device = 1;
    const sluice_entry entry{tensor, kCount, gradients_[tensor].data(), means_[tensor].data()};
    std::uint64_t number = 0;
    return sluice_queue_put(queue_, &order, &entry, 1, &number);
  }
  sluice_code serve() {
    event_ = SLUICE_EVENT_INIT;
    return sluice_queue_serve_all(queue_, &event_);
  }

  static inline int error_ = 0;  // of every copy
  static inline bool is_new_ = false;
  device::Table table_{};
  sluice_memory* memory_ = nullptr;
  std::vector<std::unique_ptr<Copies>> copies_;
  std::vector<std::unique_ptr<Guest>> guests_;
  std::vector<sluice_port*> ports_;
  sluice_queue* queue_ = nullptr;
  sluice_event event_ = SLUICE_EVENT_INIT;
  std::vector<std::vector<float>> gradients_{2, std::vector<float>(kCount)};
  std::vector<std::vector<float>> means_{2, std::vector<float>(kCount, 7.0f)};
};

// Their floats would be the host's, and what a tensor keeps is on the device.
TEST_F(OnADevice, FunctionsOfTheHostAreRefused) {
  std::vector<float>& floats = gradients_[0];
  std::vector<std::uint16_t> halves(kCount);
  sluice_exchange* exchange = nullptr;
  refused(
      sluice_exchange_begin(memory_, 0, 0, 0, kCount, floats.data(), means_[0].data(), &exchange),
      "accepted: a memory without options.device");
  EXPECT_EQ(exchange, nullptr);
  refused(sluice_memory_pay(memory_, 0, floats.data(), kCount),
          "sluice_memory_pay of tensor 0 of a memory on a device; accepted: a memory without");
  refused(sluice_memory_shorten(memory_, 1, "bf16", floats.data(), kCount, halves.data()),
          "sluice_memory_shorten of tensor 1 of a memory on a device; accepted: a memory without");
  EXPECT_EQ(halves, std::vector<std::uint16_t>(kCount));
  EXPECT_EQ(sluice_memory_pay(memory_, kRows, floats.data(), kCount), SLUICE_OK);
  EXPECT_EQ(sluice_memory_shorten(memory_, kRows, "bf16", floats.data(), kCount, halves.data()),
            SLUICE_OK);
  EXPECT_EQ(halves[7], 0x40a0) << "5.0";
}

TEST_F(OnADevice, AnUndoThatTheDeviceRefusesFails) {
  add_port(1);
  sluice_order order = SLUICE_ORDER_INIT;
  order.on_device = 1;
  const sluice_entry entry{0, kCount, gradients_[0].data(), means_[0].data()};
  ASSERT_EQ(sluice_port_run(ports_[0], &order, &entry, 1), SLUICE_OK) << sluice_last_error();
  error_ = 719;
  EXPECT_EQ(sluice_memory_undo_step(memory_), SLUICE_FAILED);
  says("device: a copy failed");
  error_ = 0;
  EXPECT_EQ(sluice_memory_undo_step(memory_), SLUICE_OK);
}

TEST_F(OnADevice, PortsOfAQueueAreOfOneKind) {
  for (const std::uint32_t carries : {0u, 1u, 2u}) add_port(carries);
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    for (std::size_t j = 0; j < ports_.size(); ++j) {
      if (i == j) continue;
      sluice_port* const both[2] = {ports_[i], ports_[j]};
      refused(sluice_queue_make(both, 2, 0, &queue_), "ports[1] is of another kind than ports[0]");
    }
  }
  EXPECT_EQ(queue_, nullptr);
}

TEST_F(OnADevice, AQueueThatRanOutOfMemoryIsDead) {
  make_queue(0);
  guests_[0]->starts = [](std::uint64_t number) -> bool {
    if (number == 1) throw std::bad_alloc();
    return true;
  };
  ASSERT_EQ(put(0), SLUICE_OK) << sluice_last_error();
  ASSERT_EQ(serve(), SLUICE_OUT_OF_MEMORY);
  EXPECT_EQ(put(1), SLUICE_UNAVAILABLE);
  says("queue: it failed before; accepted: another queue");
  const std::uint64_t before = guests_[0]->started();
  EXPECT_EQ(serve(), SLUICE_UNAVAILABLE);
  says("queue: it failed before; accepted: another queue");
  EXPECT_EQ(guests_[0]->started(), before);
  EXPECT_EQ(means_[0], std::vector<float>(kCount, 7.0f));
  for (sluice_port* const port : ports_) {
    const sluice_order order = SLUICE_ORDER_INIT;
    EXPECT_EQ(sluice_port_run(port, &order, nullptr, 0), SLUICE_UNAVAILABLE);
  }
  sluice_queue_free(std::exchange(queue_, nullptr));
  EXPECT_EQ(sluice_memory_end_step(memory_), SLUICE_OK) << "nothing is in flight";
}

// The second bucket sends nothing, so it ends in the same turn of the relay as the first one.
TEST_F(OnADevice, ABucketThatIsFinishedIsToldBeforeTheErrorOfAnother) {
  make_queue(1);
  guests_[0]->spoil = [](const sluice_collective& what, std::span<std::byte> bytes) {
    if (what.to == (SLUICE_RECEIVED | std::uint32_t{SLUICE_ON_DEVICE})) bytes[0] ^= std::byte{1};
  };
  ASSERT_EQ(put(0), SLUICE_OK);
  ASSERT_EQ(put(1), SLUICE_OK);
  ASSERT_EQ(serve(), SLUICE_OK) << sluice_last_error();
  EXPECT_EQ(event_.kind, static_cast<std::uint32_t>(SLUICE_BUCKET));
  EXPECT_EQ(event_.number, 1u);
  EXPECT_EQ(event_.port, 1u);
  EXPECT_EQ(means_[1], std::vector<float>(kCount));
  EXPECT_EQ(serve(), SLUICE_MISMATCH);
  says("bucket 0");
  says("workers disagree on what they reduce");
  EXPECT_EQ(means_[0], std::vector<float>(kCount, 7.0f));
  EXPECT_EQ(serve(), SLUICE_UNAVAILABLE);
  says("queue: it failed before; accepted: another queue");
}

}  // namespace
}  // namespace sluice::abi
