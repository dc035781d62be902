// The leg of the host that leads a wave: ranks that disagree on what their devices send hear of it
// there, before messages whose sizes may differ.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "carrier/fused_port.h"
#include "device/bench.h"
#include "tests/support/hall.h"

namespace sluice {
namespace {

constexpr std::uint32_t kWorkers = 2;
const device::Accelerator kDevice{&device::emulated(), 0};

Reduction sums_of(std::uint32_t count) {
  return {.op = Op::bf16_sum, .bits = 16, .count = count, .grain = 8};
}

// Two ranks whose devices have a round each.
class Led {
 public:
  Led() : hall_(kWorkers, &kDevice) {
    for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
      benches_.push_back(std::make_unique<device::Bench>(kDevice, nullptr));
      ports_.push_back(std::make_unique<FusedPort>(rank, kWorkers, hall_.of(rank)));
      ports_.back()->use_device(*benches_.back());
    }
  }
  void post(std::uint32_t rank, const Ticket& ticket, const Reduction& what) {
    tickets_.push_back(ticket);
    device::Bench& bench = *benches_[rank];
    ASSERT_TRUE(bench.begin());
    const Round round{what, bench.room(up_size(what), false),
                      bench.room(down_size_max(what, kWorkers), false)};
    ASSERT_TRUE(ports_[rank]->post(ticket, {&bench, false}, {&round, 1}));
    ports_[rank]->lead();
  }
  // Until neither gets on; what each says.
  std::vector<std::string> run() {
    std::vector<Status> said(kWorkers, ok());
    for (int times = 0; times < 10; ++times) {
      for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
        if (!said[rank]) continue;
        const Result<bool> went = ports_[rank]->flush();
        if (!went) said[rank] = went.error();
      }
    }
    std::vector<std::string> words;
    for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
      words.push_back(said[rank] ? "" : ports_[rank]->explain(tickets_[rank]));
    }
    return words;
  }
  [[nodiscard]] std::uint64_t collectives() const { return hall_.met(); }

 private:
  support::Hall hall_;
  std::vector<std::unique_ptr<device::Bench>> benches_;
  std::vector<std::unique_ptr<FusedPort>> ports_;
  std::vector<Ticket> tickets_;
};

TEST(Lead, IsACollectiveOfItsOwnWhereRanksAgree) {
  Led led;
  for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
    led.post(rank, {1, 7, {.step = 3}}, sums_of(4096));
  }
  EXPECT_EQ(led.run(), std::vector<std::string>(kWorkers));
  EXPECT_EQ(led.collectives(), 3u);
}

TEST(Lead, TellsInWhatDevicesDisagreeBeforeTheySend) {
  Led led;
  led.post(0, {1, 7, {.step = 3}}, sums_of(4096));
  led.post(1, {1, 8, {.step = 4}}, sums_of(4096));
  for (const std::string& words : led.run()) {
    EXPECT_NE(words.find("different: step"), std::string::npos) << words;
  }
  EXPECT_EQ(led.collectives(), 1u);
}

TEST(Lead, SeesRoundsOfOtherSizesUnderTheSameTickets) {
  Led led;
  led.post(0, {1, 7, {.step = 3}}, sums_of(4096));
  led.post(1, {1, 7, {.step = 3}}, sums_of(8192));
  for (const std::string& words : led.run()) {
    EXPECT_NE(words.find("what the codec has learnt"), std::string::npos) << words;
  }
  EXPECT_EQ(led.collectives(), 1u);
}

}  // namespace
}  // namespace sluice
