// Ports over collectives of the caller's, and queues of buckets over several ports, through the C
// functions: means, what ends them, and what is refused.
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "abi/one_worker_test.h"
#include "tests/support/hall.h"

namespace sluice::abi {
namespace {

using sluice_api::Codec;
using support::Hall;

// --- a port over collectives ---

TEST_F(OneWorker, PortsOverCollectivesRefuseWhatCannotBe) {
  const sluice_collectives good = guest_->calls();
  sluice_port* port = nullptr;
  refused(sluice_port_over(nullptr, &good, 60, &port), "memory is NULL");
  refused(sluice_port_over(memory_, nullptr, 60, &port), "collectives is NULL");
  refused(sluice_port_over(memory_, &good, 60, nullptr), "port is NULL");
  const auto without = [&](auto member, const char* name) {
    sluice_collectives calls = good;
    calls.*member = nullptr;
    refused(sluice_port_over(memory_, &calls, 60, &port),
            "collectives." + std::string(name) + " is NULL; accepted: a function");
  };
  without(&sluice_collectives::reserve, "reserve");
  without(&sluice_collectives::start, "start");
  without(&sluice_collectives::test, "test");
  without(&sluice_collectives::wait, "wait");
  for (const std::size_t size : {std::size_t{0}, sizeof good - 1, SIZE_MAX}) {
    sluice_collectives calls = good;
    calls.size = size;
    refused(sluice_port_over(memory_, &calls, 60, &port),
            "collectives.size is " + std::to_string(size));
  }
  struct {
    sluice_collectives known;
    void* more;
  } newer{good, &newer};
  newer.known.size = sizeof newer;
  refused(sluice_port_over(memory_, &newer.known, 60, &port), "does not know");
  newer.more = nullptr;
  ASSERT_EQ(sluice_port_over(memory_, &newer.known, 60, &port), SLUICE_OK);
  sluice_port_free(std::exchange(port, nullptr));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double timeout : {0.0, -1.0, 86401.0, nan}) {
    refused(sluice_port_over(memory_, &good, timeout, &port), "accepted: above 0, at most 86400");
  }
  EXPECT_EQ(port, nullptr);
}

TEST_F(OneWorker, AWorkerAloneGetsItsOwnValuesAndItsPortCounts) {
  make("f32", "none", 0);
  run(3);
  EXPECT_EQ(mean_, gradient_);
  sluice_report report = SLUICE_REPORT_INIT;
  ASSERT_EQ(sluice_port_report(port_, &report), SLUICE_OK);
  EXPECT_EQ(report.chunks, 1u);
  EXPECT_EQ(report.rounds, 1u);
  EXPECT_EQ(report.bytes_up, 4 * kCount);
  EXPECT_EQ(report.bytes_down, 4 * kCount);
  sluice_traffic traffic = SLUICE_TRAFFIC_INIT;
  ASSERT_EQ(sluice_port_traffic(port_, &traffic), SLUICE_OK);
  EXPECT_EQ(traffic.collectives, guest_->started());
  EXPECT_EQ(traffic.sent_bytes, 0u) << "to nobody else";
  const sluice_order order = SLUICE_ORDER_INIT;
  const std::uint64_t before = guest_->started();
  ASSERT_EQ(sluice_port_run(port_, &order, nullptr, 0), SLUICE_OK) << "an empty bucket";
  EXPECT_EQ(guest_->started(), before);
}

// An attempt that must fail, write nothing, and leave a port that is of no use.
class Spoilt : public OneWorker {
 protected:
  void fails(sluice_code code, const std::string& words) {
    EXPECT_EQ(attempt(entry(), 0), code) << sluice_last_error();
    says("step 0");
    says(words);
    EXPECT_EQ(mean_, std::vector<float>(kCount));
    const std::uint64_t before = guest_->started();
    EXPECT_EQ(attempt(entry(), 1), SLUICE_UNAVAILABLE);
    says("port: it failed before; accepted: a new port");
    EXPECT_EQ(guest_->started(), before);
    ASSERT_EQ(sluice_memory_end_step(memory_), SLUICE_OK) << "nothing is in flight";
  }
};

TEST_F(Spoilt, FunctionsThatFailEndThePort) {
  for (const char* spec : {"f32", "tide:bits=2", "lossless", "lhc", "blocks"}) {
    SCOPED_TRACE(spec);
    make(spec, "none", 0);
    run(0);
    const std::uint64_t all = guest_->started();
    ASSERT_GT(all, 0u);
    for (std::uint64_t number = 0; number < all; ++number) {
      make(spec, "none", 0);
      guest_->starts = [=](std::uint64_t started) { return started != number; };
      fails(SLUICE_FAILED, "a collective of the caller's failed");
      make(spec, "none", 0);
      guest_->waits = [=](std::uint64_t started) { return started != number; };
      fails(SLUICE_FAILED, "a collective of the caller's failed");
    }
    for (const std::uint32_t buffer : {SLUICE_SEND, SLUICE_RECEIVED}) {
      make(spec, "none", 0);
      guest_->missing = buffer;
      fails(SLUICE_OUT_OF_MEMORY, "no memory for a collective");
    }
  }
}

TEST_F(Spoilt, BuffersThatAreNotAlignedEndThePort) {
  for (const char* spec : {"f32", "lhc"}) {
    SCOPED_TRACE(spec);
    make(spec, "none", 0);
    guest_->shift = 2;
    fails(SLUICE_FAILED, "not aligned");
  }
}

TEST_F(Spoilt, EveryByteOfAHeaderThatIsDamagedEndsThePort) {
  constexpr std::size_t kHeader = 56;  // without what the sender has ready, which ends nothing
  for (std::size_t byte = 0; byte < kHeader; ++byte) {
    SCOPED_TRACE(byte);
    make("f32", "none", 0);
    guest_->spoil = [=](const sluice_collective& what, std::span<std::byte> bytes) {
      ASSERT_EQ(what.kind, static_cast<std::uint32_t>(SLUICE_ALL_TO_ALL));
      bytes[byte] ^= std::byte{1};
    };
    const bool names_itself = byte >= 16 && byte < 24;  // rank and magic
    fails(names_itself ? SLUICE_MALFORMED : SLUICE_MISMATCH,
          names_itself ? "a message of" : "rank");
  }
}

TEST_F(Spoilt, SizesThatCannotBeEndThePort) {
  const auto told = [&](std::uint64_t more) {
    make("blocks", "none", 0);
    guest_->spoil = [=](const sluice_collective&, std::span<std::byte> bytes) {
      if (bytes.size() != sizeof(std::uint64_t)) return;
      std::uint64_t size = 0;
      std::memcpy(&size, bytes.data(), sizeof size);
      size += more;
      std::memcpy(bytes.data(), &size, sizeof size);
    };
  };
  told(std::uint64_t{1} << 40);
  fails(SLUICE_MALFORMED, "says that it sends more than it may");
  told(std::numeric_limits<std::uint64_t>::max() / 2);
  fails(SLUICE_MALFORMED, "says that it sends more than it may");
  told(~std::uint64_t{0});  // one byte less
  fails(SLUICE_MALFORMED, "fusion");
}

TEST_F(OneWorker, WhatDoesNotFitIsRefusedAndThePortGoesOn) {
  const sluice_order order = SLUICE_ORDER_INIT;
  const sluice_entry good = entry();
  sluice_entry bad = good;
  bad.count = 999;
  refused(sluice_port_run(port_, &order, &bad, 1), "entry 0 does not fit: 999 coordinates");
  bad.count = kCount, bad.tensor = 1;
  refused(sluice_port_run(port_, &order, &bad, 1), "tensor 1; accepted: below 1");
  bad.tensor = 0, bad.mean = nullptr;
  refused(sluice_port_run(port_, &order, &bad, 1), "entries[0].mean is NULL");
  const sluice_entry twice[2] = {good, good};
  refused(sluice_port_run(port_, &order, twice, 2), "tensor 0 is twice in the bucket");
  EXPECT_EQ(guest_->started(), 0u);
  run(0);
}

// --- a queue of one worker ---

class OneQueue : public OneWorker {
 protected:
  void TearDown() override {
    sluice_queue_free(queue_);
    sluice_port_free(second_);
    OneWorker::TearDown();
  }
  // Two ports, each over collectives of its own.
  void make_queue(std::uint64_t wave = 0) {
    const sluice_collectives calls = other_guest_.calls();
    ASSERT_EQ(sluice_port_over(memory_, &calls, 60, &second_), SLUICE_OK);
    sluice_port* const ports[2] = {port_, second_};
    ASSERT_EQ(sluice_queue_make(ports, 2, wave, &queue_), SLUICE_OK) << sluice_last_error();
  }
  std::uint64_t put(std::uint64_t step = 0) {
    const sluice_order order{sizeof(sluice_order), step, 0, 1, probe_, 0, 0, nullptr};
    const sluice_entry one = entry();
    std::uint64_t number = 7777;
    EXPECT_EQ(sluice_queue_put(queue_, &order, &one, 1, &number), SLUICE_OK) << sluice_last_error();
    return number;
  }
  std::uint64_t put_turn() {
    std::uint64_t number = 7777;
    EXPECT_EQ(sluice_queue_put_turn(queue_, &number), SLUICE_OK) << sluice_last_error();
    return number;
  }
  void serve(std::size_t port, std::uint32_t kind, std::uint64_t number) {
    event_ = SLUICE_EVENT_INIT;
    ASSERT_EQ(sluice_queue_serve(queue_, port, &event_), SLUICE_OK) << sluice_last_error();
    ASSERT_EQ(event_.kind, kind);
    ASSERT_EQ(event_.number, number);
  }
  void closed(std::size_t port) { serve(port, SLUICE_CLOSED, 0); }

  Copies other_copies_;
  Guest other_guest_{other_copies_, 1};
  sluice_port* second_ = nullptr;
  sluice_queue* queue_ = nullptr;
  sluice_event event_ = SLUICE_EVENT_INIT;
};

TEST_F(OneQueue, BucketsAndTurnsComeInOrderOnPortsInTurn) {
  make("f32", "none", 0);
  make_queue();
  EXPECT_EQ(put(), 0u);
  EXPECT_EQ(put_turn(), 1u);
  const sluice_order order = SLUICE_ORDER_INIT;
  const sluice_entry again = entry();
  std::uint64_t number = 0;
  refused(sluice_queue_put(queue_, &order, &again, 1, &number), "tensor 0 is in bucket 0");
  serve(0, SLUICE_BUCKET, 0);
  EXPECT_EQ(put(), 2u);
  EXPECT_EQ(mean_, gradient_);
  EXPECT_NE(event_.digest, 0u);
  EXPECT_EQ(event_.infinite, 0u);
  EXPECT_EQ(event_.probe_count, 0u);
  serve(1, SLUICE_TURN, 1);
  mean_.assign(kCount, 0.0f);
  gradient_[3] = std::numeric_limits<float>::infinity();
  serve(0, SLUICE_BUCKET, 2);
  EXPECT_EQ(mean_, gradient_);
  EXPECT_EQ(event_.infinite, 1u);
  ASSERT_EQ(sluice_queue_close(queue_, 0), SLUICE_OK);
  closed(0);
  closed(1);
  closed(1);
}

TEST_F(OneQueue, APortIsTheCallersInItsTurn) {
  make_queue();
  put_turn();
  put();
  serve(0, SLUICE_TURN, 0);
  run(5);  // a bucket by itself, on the port whose turn it is
  const std::uint64_t collectives = guest_->started();
  EXPECT_GT(collectives, 0u);
  serve(1, SLUICE_BUCKET, 1);
  ASSERT_EQ(sluice_queue_close(queue_, 0), SLUICE_OK);
  closed(0);
  EXPECT_EQ(guest_->started(), collectives);
}

TEST_F(OneQueue, ProbesLieInTheEvent) {
  make_queue();
  probe_ = 1;
  put();
  serve(0, SLUICE_BUCKET, 0);
  ASSERT_EQ(event_.probe_count, 1u);
  EXPECT_EQ(event_.probes[0].tensor, 0u);
  EXPECT_EQ(event_.probes[0].blocks, 1u);
  EXPECT_EQ(event_.probes[0].live, 4u);
  EXPECT_GT(event_.probes[0].exact_energy, event_.probes[0].error_energy);
}

TEST_F(OneQueue, ALargeBucketIsSeveralWavesOfBothPorts) {
  sluice_options options = SLUICE_OPTIONS_INIT;
  options.workers = 1;
  options.chunk = 256;
  const Codec codec("f32");
  const sluice_tensor tensor{1, 10, 100};
  OneWorker::TearDown();
  ASSERT_EQ(sluice_memory_make(&options, &memory_), SLUICE_OK);
  ASSERT_EQ(sluice_memory_add(memory_, codec.get(), &tensor, 1), SLUICE_OK);
  const sluice_collectives calls = guest_->calls();
  ASSERT_EQ(sluice_port_over(memory_, &calls, 60, &port_), SLUICE_OK);
  make_queue(256);
  put();
  ASSERT_EQ(sluice_queue_close(queue_, 0), SLUICE_OK);
  std::optional<std::size_t> told;
  std::vector<std::thread> threads;
  std::mutex mutex;
  for (const std::size_t port : {0u, 1u}) {
    threads.emplace_back([&, port] {
      while (true) {
        sluice_event event = SLUICE_EVENT_INIT;
        ASSERT_EQ(sluice_queue_serve(queue_, port, &event), SLUICE_OK) << sluice_last_error();
        if (event.kind == SLUICE_CLOSED) return;
        const std::lock_guard lock(mutex);
        ASSERT_FALSE(told.has_value());
        told = port;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(told.has_value());
  EXPECT_EQ(mean_, gradient_);
  EXPECT_EQ(guest_->started(), 2u);
  EXPECT_EQ(other_guest_.started(), 2u);
}

TEST_F(OneQueue, ClosedAtOnceItLeavesWhatIsNotBegun) {
  make("f32", "none", 0);
  make_queue();
  put();
  serve(0, SLUICE_BUCKET, 0);
  put();
  put_turn();
  mean_.assign(kCount, 0.0f);
  ASSERT_EQ(sluice_queue_close(queue_, 1), SLUICE_OK);
  closed(1);
  closed(0);
  EXPECT_EQ(mean_, std::vector<float>(kCount));
  refused(sluice_memory_end_step(memory_), "while 1 buckets");
  sluice_queue_free(std::exchange(queue_, nullptr));
  EXPECT_EQ(sluice_memory_end_step(memory_), SLUICE_OK);
}

TEST_F(OneQueue, NothingIsPutIntoAClosedOne) {
  make_queue();
  ASSERT_EQ(sluice_queue_close(queue_, 0), SLUICE_OK);
  const sluice_order order = SLUICE_ORDER_INIT;
  const sluice_entry one = entry();
  std::uint64_t number = 7;
  EXPECT_EQ(sluice_queue_put(queue_, &order, &one, 1, &number), SLUICE_UNAVAILABLE);
  says("queue: closed");
  EXPECT_EQ(sluice_queue_put_turn(queue_, &number), SLUICE_UNAVAILABLE);
  EXPECT_EQ(number, 7u);
  EXPECT_EQ(sluice_memory_end_step(memory_), SLUICE_OK) << "what was refused is not in flight";
}

TEST_F(OneQueue, WhatDoesNotFitIsRefusedAndTakesNoNumber) {
  make_queue();
  sluice_order order = SLUICE_ORDER_INIT;
  const sluice_entry good = entry();
  sluice_entry bad = good;
  std::uint64_t number = 7;
  bad.count = 999;
  refused(sluice_queue_put(queue_, &order, &bad, 1, &number), "entry 0 does not fit");
  refused(sluice_queue_put(queue_, nullptr, &good, 1, &number), "order is NULL");
  refused(sluice_queue_put(queue_, &order, nullptr, 1, &number), "entries is NULL");
  refused(sluice_queue_put(queue_, &order, &good, 1, nullptr), "number is NULL");
  order.size = 1;
  refused(sluice_queue_put(queue_, &order, &good, 1, &number), "order.size is 1");
  sluice_event event = SLUICE_EVENT_INIT;
  refused(sluice_queue_serve(queue_, 2, &event), "port 2; accepted: below 2");
  refused(sluice_queue_serve(queue_, 0, nullptr), "event is NULL");
  event.size = offsetof(sluice_event, port) - 1;  // less than any version's
  refused(sluice_queue_serve(queue_, 0, &event), "event.size is");
  EXPECT_EQ(number, 7u);
  EXPECT_EQ(put(), 0u);
  serve(0, SLUICE_BUCKET, 0);
}

TEST_F(OneQueue, OnePortThatFailsEndsTheOthers) {
  make_queue();
  sluice_code code = SLUICE_OK;
  std::string said;
  std::thread waiting([&] {
    sluice_event event = SLUICE_EVENT_INIT;
    code = sluice_queue_serve(queue_, 1, &event);
    said = sluice_last_error();
  });
  guest_->starts = [](std::uint64_t) { return false; };
  put();
  sluice_event event = SLUICE_EVENT_INIT;
  EXPECT_EQ(sluice_queue_serve(queue_, 0, &event), SLUICE_FAILED);
  says("step 0, bucket 0");
  says("a collective of the caller's failed");
  waiting.join();
  EXPECT_EQ(code, SLUICE_UNAVAILABLE);
  EXPECT_NE(said.find("another port of the queue failed"), std::string::npos) << said;
  for (const std::size_t port : {0u, 1u}) {
    EXPECT_EQ(sluice_queue_serve(queue_, port, &event), SLUICE_UNAVAILABLE) << port;
  }
  const sluice_order order = SLUICE_ORDER_INIT;
  std::uint64_t number = 7;
  EXPECT_EQ(sluice_queue_put(queue_, &order, nullptr, 0, &number), SLUICE_UNAVAILABLE);
  says("queue: it failed before; accepted: another queue");
  EXPECT_EQ(sluice_queue_put_turn(queue_, &number), SLUICE_UNAVAILABLE);
  EXPECT_EQ(number, 7u);
  EXPECT_EQ(mean_, std::vector<float>(kCount));
  EXPECT_EQ(sluice_queue_close(queue_, 0), SLUICE_OK);
}

// Else whoever serves the other port would wait for a turn that never ends.
TEST_F(OneQueue, APortThatFailsInItsTurnEndsTheOthers) {
  make_queue();
  put_turn();
  serve(0, SLUICE_TURN, 0);
  guest_->starts = [](std::uint64_t) { return false; };
  EXPECT_EQ(attempt(entry(), 0), SLUICE_FAILED);
  sluice_event event = SLUICE_EVENT_INIT;
  EXPECT_EQ(sluice_queue_serve(queue_, 0, &event), SLUICE_UNAVAILABLE);
  EXPECT_EQ(sluice_queue_serve(queue_, 1, &event), SLUICE_UNAVAILABLE);
}

TEST_F(OneQueue, PortsOfOtherMemoriesAndKindsAndTwiceAreRefused) {
  make_queue();
  sluice_queue* queue = nullptr;
  sluice_port* ports[2] = {port_, port_};
  refused(sluice_queue_make(ports, 1, 0, &queue), "ports[0] is in another queue; accepted: one");
  sluice_queue_free(std::exchange(queue_, nullptr));
  refused(sluice_queue_make(nullptr, 1, 0, &queue), "ports is NULL");
  refused(sluice_queue_make(ports, 1, 0, nullptr), "queue is NULL");
  refused(sluice_queue_make(ports, 0, 0, &queue), "port_count is 0; accepted: 1 to 64");
  refused(sluice_queue_make(ports, 65, 0, &queue), "port_count is 65");
  refused(sluice_queue_make(ports, 1, UINT64_MAX, &queue), "wave is 18446744073709551615");
  refused(sluice_queue_make(ports, 2, 0, &queue), "ports[1] is there twice");
  ports[1] = nullptr;
  refused(sluice_queue_make(ports, 2, 0, &queue), "ports[1] is NULL");
  sluice_memory* other = nullptr;
  sluice_options options = SLUICE_OPTIONS_INIT;
  options.workers = 1;
  ASSERT_EQ(sluice_memory_make(&options, &other), SLUICE_OK);
  const sluice_collectives calls = other_guest_.calls();
  ASSERT_EQ(sluice_port_over(other, &calls, 60, &ports[1]), SLUICE_OK);
  refused(sluice_queue_make(ports, 2, 0, &queue), "ports[1] is of another memory than ports[0]");
  sluice_port_free(ports[1]);
  sluice_memory_free(other);
  sluice_aggregator* aggregator = nullptr;
  ASSERT_EQ(sluice_aggregator_start("127.0.0.1:0", &aggregator), SLUICE_OK);
  ASSERT_EQ(
      sluice_port_open(memory_, sluice_aggregator_addresses(aggregator), 1, 4, 60, -1, &ports[1]),
      SLUICE_OK)
      << sluice_last_error();
  refused(sluice_queue_make(ports, 2, 0, &queue), "ports[1] is of another kind than ports[0]");
  sluice_port_free(ports[1]);
  sluice_aggregator_free(aggregator, 10);
  EXPECT_EQ(queue, nullptr);
  EXPECT_EQ(sluice_queue_make(ports, 1, 0, &queue_), SLUICE_OK) << "as if nothing had been tried";
}

TEST_F(OneQueue, EverythingMayBeFreedBeforeTheQueue) {
  make("f32", "none", 0);
  make_queue();
  put();
  sluice_memory_free(std::exchange(memory_, nullptr));
  sluice_port_free(std::exchange(second_, nullptr));
  sluice_port_free(std::exchange(port_, nullptr));
  serve(0, SLUICE_BUCKET, 0);
  EXPECT_EQ(mean_, gradient_);
  put();
  sluice_queue_free(std::exchange(queue_, nullptr));
  sluice_queue_free(nullptr);
}

TEST_F(OneQueue, PortsGoOnInTheNextQueue) {
  make("f32", "none", 0);
  make_queue();
  put();
  serve(0, SLUICE_BUCKET, 0);
  put();
  sluice_queue_free(std::exchange(queue_, nullptr));
  mean_.assign(kCount, 0.0f);
  sluice_port* const ports[2] = {second_, port_};
  ASSERT_EQ(sluice_queue_make(ports, 2, 0, &queue_), SLUICE_OK) << sluice_last_error();
  EXPECT_EQ(put(), 0u);
  serve(0, SLUICE_BUCKET, 0);
  EXPECT_EQ(mean_, gradient_);
}

}  // namespace
}  // namespace sluice::abi
