// Aggregators and ports through the C functions.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <sluice/sluice.hpp>

#include <array>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

namespace {

using sluice_api::Codec;

constexpr std::uint32_t kWorkers = 2;
constexpr std::uint64_t kCount = 30'000;
const sluice_tensor kTensor{1, 100, 300};

void refused(sluice_code code, const char* says) {
  EXPECT_EQ(code, SLUICE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sluice_last_error()).find(says), std::string::npos) << sluice_last_error();
}

class Ports : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(sluice_aggregator_start("127.0.0.1:0,127.0.0.1:0", &aggregator_), SLUICE_OK)
        << sluice_last_error();
    for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
      sluice_options options{};
      options.size = sizeof options;
      options.workers = kWorkers;
      options.rank = rank;
      options.chunk = 4096;
      ASSERT_EQ(sluice_memory_make(&options, &memories_[rank]), SLUICE_OK);
      ASSERT_EQ(sluice_memory_add(memories_[rank], codec_.get(), &kTensor, 1), SLUICE_OK);
      for (std::uint64_t i = 0; i < kCount; ++i) {
        const auto at = static_cast<float>(i);
        gradients_[rank].push_back(std::sin(at) + 0.1f * static_cast<float>(rank));
      }
      means_[rank].resize(kCount);
    }
  }
  void TearDown() override {
    for (sluice_memory* memory : memories_) sluice_memory_free(memory);
    sluice_aggregator_free(aggregator_, patience_);
  }

  // On a thread of each worker.
  template <class Work>
  static void on_all(const Work& work) {
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < kWorkers; ++rank) threads.emplace_back(work, rank);
    for (std::thread& thread : threads) thread.join();
  }

  // As far from it as four bits are.
  void expect_near_the_mean() const {
    double error = 0;
    double energy = 0;
    for (std::uint64_t i = 0; i < kCount; ++i) {
      const double exact = (double{gradients_[0][i]} + gradients_[1][i]) / 2;
      error += (means_[0][i] - exact) * (means_[0][i] - exact);
      energy += exact * exact;
    }
    EXPECT_LT(error, 0.01 * energy);
    EXPECT_GT(error, 0);
  }

  Codec codec_{"tide:bits=4"};
  sluice_aggregator* aggregator_ = nullptr;
  double patience_ = 10;
  std::array<sluice_memory*, kWorkers> memories_{};
  std::array<std::vector<float>, kWorkers> gradients_;
  std::array<std::vector<float>, kWorkers> means_;
};

TEST_F(Ports, AverageBucketsAlikeOnAllWorkers) {
  std::array<sluice_report, kWorkers> reports{};
  reports.fill(SLUICE_REPORT_INIT);
  std::array<sluice_traffic, kWorkers> traffic{};
  traffic.fill(SLUICE_TRAFFIC_INIT);
  on_all([&](std::uint32_t rank) {
    sluice_port* port = nullptr;
    ASSERT_EQ(sluice_port_open(memories_[rank], sluice_aggregator_addresses(aggregator_), 77, 4, 60,
                               -1, &port),
              SLUICE_OK)
        << sluice_last_error();
    sluice_traffic joining = SLUICE_TRAFFIC_INIT;
    sluice_port_traffic(port, &joining);
    for (std::uint64_t number = 0; number < 2; ++number) {
      const sluice_order order{sizeof(sluice_order), 0, number, 1, 0, 0, 0, nullptr};
      const sluice_entry entry{0, kCount, gradients_[rank].data(), means_[rank].data()};
      ASSERT_EQ(sluice_port_run(port, &order, &entry, 1), SLUICE_OK) << sluice_last_error();
    }
    sluice_port_report(port, &reports[rank]);
    sluice_port_traffic(port, &traffic[rank]);
    traffic[rank].sent_bytes -= joining.sent_bytes;
    sluice_port_free(port);
  });
  EXPECT_EQ(means_[0], means_[1]);
  expect_near_the_mean();
  EXPECT_EQ(reports[0].digest, reports[1].digest);
  EXPECT_EQ(reports[0].chunks, 8u) << "of the second bucket";
  EXPECT_GT(traffic[0].sent_bytes, 2 * kCount / 2);
  EXPECT_LT(traffic[0].sent_bytes, 2 * kCount * 3) << "4 bits, headers, questions if it takes long";
  EXPECT_GT(traffic[0].received_bytes, 2 * kCount / 2);
}

// Each port joins a job of its own; a bucket of eight chunks is four waves.
TEST_F(Ports, TwoOfThemServeAQueue) {
  constexpr std::size_t kPorts = 2;
  std::array<sluice_event, kWorkers> events{};
  std::array<std::array<sluice_traffic, kPorts>, kWorkers> traffic{};
  on_all([&](std::uint32_t rank) {
    std::array<sluice_port*, kPorts> ports{};
    sluice_queue* queue = nullptr;
    for (std::size_t i = 0; i < kPorts; ++i) {
      ASSERT_EQ(sluice_port_open(memories_[rank], sluice_aggregator_addresses(aggregator_), 20 + i,
                                 4, 60, -1, &ports[i]),
                SLUICE_OK)
          << sluice_last_error();
    }
    ASSERT_EQ(sluice_queue_make(ports.data(), kPorts, 8192, &queue), SLUICE_OK);
    const sluice_order order{sizeof(sluice_order), 0, 0, 1, 0, 0, 0, nullptr};
    const sluice_entry entry{0, kCount, gradients_[rank].data(), means_[rank].data()};
    std::uint64_t number = 7;
    ASSERT_EQ(sluice_queue_put(queue, &order, &entry, 1, &number), SLUICE_OK)
        << sluice_last_error();
    ASSERT_EQ(sluice_queue_close(queue, 0), SLUICE_OK);
    const auto serve = [&](std::size_t port) {
      while (true) {
        sluice_event event = SLUICE_EVENT_INIT;
        ASSERT_EQ(sluice_queue_serve(queue, port, &event), SLUICE_OK) << sluice_last_error();
        if (event.kind == SLUICE_CLOSED) break;
        ASSERT_EQ(event.kind, static_cast<std::uint32_t>(SLUICE_BUCKET));
        events[rank] = event;
      }
      traffic[rank][port] = SLUICE_TRAFFIC_INIT;
      ASSERT_EQ(sluice_port_traffic(ports[port], &traffic[rank][port]), SLUICE_OK);
    };
    std::thread second([&] { serve(1); });
    serve(0);
    second.join();
    sluice_queue_free(queue);
    for (sluice_port* port : ports) sluice_port_free(port);
  });
  EXPECT_EQ(means_[0], means_[1]);
  expect_near_the_mean();
  EXPECT_EQ(events[0].digest, events[1].digest);
  EXPECT_NE(events[0].digest, 0u);
  for (const auto& of_worker : traffic) {
    for (const sluice_traffic& one : of_worker) EXPECT_GT(one.sent_bytes, kCount / 5);
  }
}

TEST_F(Ports, WhoIsMissingIsNamed) {
  patience_ = 0;  // the job forms for ever
  sluice_port* port = nullptr;
  EXPECT_EQ(sluice_port_open(memories_[0], sluice_aggregator_addresses(aggregator_), 1, 4, 0.3, -1,
                             &port),
            SLUICE_TIMEOUT);
  EXPECT_NE(std::string(sluice_last_error()).find("waiting for workers to join: 1"),
            std::string::npos)
      << sluice_last_error();
  EXPECT_EQ(port, nullptr);
}

// A descriptor that another thread makes readable.
struct Bell {
  Bell() = default;
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  ~Bell() { close(descriptor); }
  void ring() const { ASSERT_EQ(eventfd_write(descriptor, 1), 0); }
  int descriptor = eventfd(0, EFD_CLOEXEC);
};

TEST_F(Ports, TheBellEndsARunThatWaitsForAWorkerForGood) {
  patience_ = 0;
  const Bell bell;
  std::array<sluice_port*, kWorkers> ports{};
  on_all([&](std::uint32_t rank) {
    ASSERT_EQ(sluice_port_open(memories_[rank], sluice_aggregator_addresses(aggregator_), 5, 4,
                               86400, rank == 0 ? bell.descriptor : -1, &ports[rank]),
              SLUICE_OK)
        << sluice_last_error();
  });
  std::thread other([&] { bell.ring(); });
  const sluice_order order = SLUICE_ORDER_INIT;
  const sluice_entry entry{0, kCount, gradients_[0].data(), means_[0].data()};
  EXPECT_EQ(sluice_port_run(ports[0], &order, &entry, 1), SLUICE_UNAVAILABLE);
  const std::string said = sluice_last_error();
  other.join();
  EXPECT_NE(said.find("rang the bell"), std::string::npos) << said;
  EXPECT_EQ(sluice_port_run(ports[0], &order, &entry, 1), SLUICE_UNAVAILABLE);
  EXPECT_NE(std::string(sluice_last_error()).find("failed before"), std::string::npos)
      << sluice_last_error();
  for (sluice_port* port : ports) sluice_port_free(port);
}

TEST_F(Ports, TheBellEndsJoining) {
  patience_ = 0;
  const Bell bell;
  bell.ring();
  sluice_port* port = nullptr;
  EXPECT_EQ(sluice_port_open(memories_[0], sluice_aggregator_addresses(aggregator_), 6, 4, 86400,
                             bell.descriptor, &port),
            SLUICE_UNAVAILABLE);
  const std::string said = sluice_last_error();
  EXPECT_NE(said.find("rang the bell"), std::string::npos) << said;
  EXPECT_EQ(port, nullptr);
}

TEST_F(Ports, AnAggregatorThatIsNoneIsNamedByItsAddressLongBeforeTheTimeOut) {
  const int other = socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  void* const bytes = &address;
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(other, static_cast<sockaddr*>(bytes), size), 0);
  ASSERT_EQ(getsockname(other, static_cast<sockaddr*>(bytes), &size), 0);
  const std::string wrong = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  const std::string named = std::string(sluice_aggregator_addresses(aggregator_)) + "," + wrong;
  constexpr double kDay = 86400;
  std::uint64_t job = 0;
  const auto says = [&](const char* why) {
    sluice_port* port = nullptr;
    EXPECT_EQ(sluice_port_open(memories_[0], named.c_str(), ++job, 4, kDay, -1, &port),
              SLUICE_TIMEOUT);
    const std::string said = sluice_last_error();
    EXPECT_NE(said.find(wrong + " does not answer"), std::string::npos) << said;
    EXPECT_NE(said.find(why), std::string::npos) << said;
  };
  patience_ = 0;  // the job forms for ever
  says("no word from there");
  std::thread stranger([&] {
    while (true) {
      std::array<char, 2048> datagram{};
      sockaddr_in from{};
      void* const whom = &from;
      socklen_t length = sizeof from;
      const auto count = recvfrom(other, datagram.data(), datagram.size(), 0,
                                  static_cast<sockaddr*>(whom), &length);
      if (count <= 4) return;
      sendto(other, "who?", 4, 0, static_cast<sockaddr*>(whom), length);
    }
  });
  says("what listens there is none");
  EXPECT_EQ(sendto(other, "stop", 4, 0, static_cast<sockaddr*>(bytes), size), 4);
  stranger.join();
  close(other);
  says("nothing listens there");
}

TEST_F(Ports, WhatCannotBeIsRefused) {
  sluice_port* port = nullptr;
  const char* where = sluice_aggregator_addresses(aggregator_);
  refused(sluice_port_open(nullptr, where, 1, 4, 1, -1, &port), "NULL");
  refused(sluice_port_open(memories_[0], nullptr, 1, 4, 1, -1, &port), "NULL");
  refused(sluice_port_open(memories_[0], "", 1, 4, 1, -1, &port), "address ''");
  refused(sluice_port_open(memories_[0], "127.0.0.1:x", 1, 4, 1, -1, &port), "port 'x'");
  refused(sluice_port_open(memories_[0], where, 1, 0, 1, -1, &port), "window 0");
  refused(sluice_port_open(memories_[0], where, 1, 4, 0, -1, &port), "timeout 0");
  refused(sluice_port_open(memories_[0], where, 1, 4, NAN, -1, &port), "timeout nan");
  sluice_aggregator* second = nullptr;
  refused(sluice_aggregator_start(nullptr, &second), "NULL");
  refused(sluice_aggregator_start("127.0.0.1:99999", &second), "99999");
  EXPECT_NE(sluice_aggregator_start(where, &second), SLUICE_OK) << "taken";
  EXPECT_NE(std::string(sluice_last_error()).find("cannot listen on 127.0.0.1:"), std::string::npos)
      << sluice_last_error();
  EXPECT_EQ(second, nullptr);
  sluice_aggregator_free(nullptr, 1);
  sluice_port_free(nullptr);
}

}  // namespace
