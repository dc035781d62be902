#include <fmt/format.h>
#include <poll.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "bench/stream_echo/crew.h"
#include "bench/stream_echo/run.h"
#include "carrier/stream/socket.h"
#include "wire/frame.h"

namespace sluice::bench {
namespace {

constexpr int kServerPollMs = 100;  // how soon a stop is seen, as an aggregator's
constexpr int kPatienceMs = 20;     // after which what is on its way counts as lost
constexpr int kRefillsMax = 500;    // in a row: 10 s without any answer

double thread_seconds() {
  timespec spent{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) + 1e-9 * static_cast<double>(spent.tv_nsec);
}

bool is_readable(const stream::Socket& socket, int timeout_ms) {
  pollfd waiting{socket.descriptor(), POLLIN, 0};
  return poll(&waiting, 1, timeout_ms) > 0;
}

class EchoServer {
 public:
  EchoServer(stream::Socket socket, std::size_t frame)
      : socket_(std::move(socket)), frame_(frame) {}

  [[nodiscard]] stream::SocketAddress address() const { return stream::address_of(socket_); }
  void stop() { stopping_.store(true, std::memory_order_relaxed); }
  // When it has stopped.
  [[nodiscard]] double seconds() const { return seconds_; }

  void run() {
    stream::Receiver receiver(socket_, frame_);
    stream::Sender sender(socket_);
    while (!stopping_.load(std::memory_order_relaxed)) {
      if (!is_readable(socket_, kServerPollMs)) continue;
      const auto received = receiver.receive();
      if (!received) break;  // The workers find out.
      for (const stream::Received& one : *received) sender.add(one.bytes, {}, one.from);
      sender.flush();
    }
    seconds_ = thread_seconds();
  }

 private:
  stream::Socket socket_;
  std::size_t frame_;
  std::atomic<bool> stopping_{false};
  double seconds_ = 0;
};

// One worker: as many datagrams as carry its elements, each until it is answered.
class Asker {
 public:
  Asker(stream::Socket socket, const Workload& workload)
      : socket_(std::move(socket)),
        window_(workload.window),
        receiver_(socket_, workload.frame),
        sender_(socket_),
        header_(wire::kHeaderSize),
        payload_((workload.frame - wire::kHeaderSize) / sizeof(std::uint32_t) *
                 sizeof(std::uint32_t)),
        // What several tickets name, so that caches have as much to do as beside it.
        memory_(std::size_t{4} * kLanes * sizeof(std::uint32_t)) {
    const std::uint64_t lanes = payload_ / sizeof(std::uint32_t);
    wanted_ = (workload.elements() + lanes - 1) / lanes;
  }

  Verdict run() {
    int refills = 0;
    while (answered_ < wanted_) {
      fill_window();
      SLUICE_TRY_ASSIGN(const std::uint64_t count, take_answers());
      if (count != 0) {
        refills = 0;
      } else if (!is_readable(socket_, kPatienceMs)) {
        if (++refills > kRefillsMax) return Problem{Code::timeout, "the echo does not answer"};
        again_ += on_way_;
        on_way_ = 0;
      }
    }
    return Nothing{};
  }

  void add_to(Run& run) const {
    run.datagrams += sent_ + answered_;
    run.bytes += (sent_ + answered_) * (header_.size() + payload_);
    run.again += again_;
  }

 private:
  void fill_window() {
    const std::uint64_t left = wanted_ - answered_;
    while (on_way_ < std::min<std::uint64_t>(window_, left)) {
      if (offset_ + payload_ > memory_.size()) offset_ = 0;
      sender_.add(header_, std::span(memory_).subspan(offset_, payload_), nullptr);
      offset_ += payload_;
      ++on_way_;
      ++sent_;
    }
    sender_.flush();
  }

  // How many; late ones count too.
  Checked<std::uint64_t> take_answers() {
    const auto received = receiver_.receive();
    if (!received) return Problem{received.error().code, received.error().what};
    for (const stream::Received& one : *received) {
      if (one.bytes.size() != header_.size() + payload_) {
        return Problem{Code::malformed, fmt::format("an echo of {} bytes", one.bytes.size())};
      }
    }
    answered_ += received->size();
    on_way_ -= std::min<std::uint64_t>(on_way_, received->size());
    return received->size();
  }

  stream::Socket socket_;
  std::uint32_t window_;
  stream::Receiver receiver_;
  stream::Sender sender_;
  std::vector<std::byte> header_;
  std::size_t payload_;
  std::vector<std::byte> memory_;
  std::size_t offset_ = 0;
  std::uint64_t wanted_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t answered_ = 0;
  std::uint64_t on_way_ = 0;
  std::uint64_t again_ = 0;
};

}  // namespace

Checked<Run> run_echo(const Workload& workload) {
  SLUICE_TRY_ASSIGN(const auto any, stream::resolve("127.0.0.1:0"));
  SLUICE_TRY_ASSIGN(stream::Socket bound, stream::open_bound(any));
  EchoServer server(std::move(bound), workload.frame);
  std::vector<std::unique_ptr<Asker>> askers;
  for (std::uint32_t rank = 0; rank < workload.workers; ++rank) {
    SLUICE_TRY_ASSIGN(stream::Socket socket, stream::open_connected(server.address()));
    askers.push_back(std::make_unique<Asker>(std::move(socket), workload));
  }
  Beside beside([&] { server.run(); }, [&] { server.stop(); });
  Run run;
  SLUICE_TRY_ASSIGN(run.seconds, run_together(workload.workers, [&](std::uint32_t rank) {
    return askers[rank]->run();
  }));
  beside.end();
  run.server_seconds = server.seconds();
  for (const auto& asker : askers) asker->add_to(run);
  return run;
}

}  // namespace sluice::bench
