#include <fmt/format.h>
#include <poll.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "bench/stream_echo/echo_threads.h"
#include "bench/stream_echo/run.h"
#include "carrier/stream/socket.h"
#include "wire/frame.h"

namespace sluice::bench {
namespace {

constexpr int kServerPollMs = 100;  // how soon a stop is seen, as an aggregator's
constexpr int kPatienceMs = 20;     // after which what is on its way counts as lost
constexpr int kRefillsMax = 500;    // in a row: 10 s without any answer
// Datagrams that plain receives between two polls: one poll for each would make it slower than it
// need be. Refused: echoing one by one until there are none, which differs by less than the noise.
constexpr std::size_t kBurst = 64;

double thread_seconds() {
  timespec spent{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) + 1e-9 * static_cast<double>(spent.tv_nsec);
}

bool is_readable(const stream::Socket& socket, int timeout_ms) {
  pollfd waiting{socket.descriptor(), POLLIN, 0};
  return poll(&waiting, 1, timeout_ms) > 0;
}

// One datagram per call into the kernel. Shaped as stream::Receiver, which would switch the
// kernel's joining of datagrams on.
class PlainReceiver {
 public:
  PlainReceiver(const stream::Socket& socket, std::size_t datagram_max)
      : descriptor_(socket.descriptor()),
        room_(datagram_max + 1),  // More, so that one too large does not pass for a whole one.
        memory_(kBurst * room_),
        addresses_(kBurst) {}

  Result<std::span<const stream::Received>> receive() {
    received_.clear();
    while (received_.size() < kBurst) {
      const std::span<std::byte> into =
          std::span(memory_).subspan(received_.size() * room_, room_);
      stream::SocketAddress& from = addresses_[received_.size()];
      from.size = sizeof from.storage;
      void* const storage = &from.storage;
      const ssize_t size = recvfrom(descriptor_, into.data(), into.size(), 0,
                                    static_cast<sockaddr*>(storage), &from.size);
      if (size < 0) {
        if (errno == EAGAIN || errno == EINTR || errno == ECONNREFUSED) break;
        return Error{Code::io, errno, "plain: receiving"};
      }
      received_.push_back({into.first(static_cast<std::size_t>(size)), &from});
    }
    return std::span<const stream::Received>(received_);
  }

 private:
  int descriptor_;
  std::size_t room_;
  std::vector<std::byte> memory_;
  std::vector<stream::SocketAddress> addresses_;
  std::vector<stream::Received> received_;
};

// One datagram per call into the kernel, at once. Shaped as stream::Sender.
class PlainSender {
 public:
  explicit PlainSender(const stream::Socket& socket) : descriptor_(socket.descriptor()) {}

  // In one extent: the other is empty. What the kernel does not take is lost.
  void add(std::span<const std::byte> header, std::span<const std::byte> payload,
           const stream::SocketAddress* to) {
    SLUICE_ASSERT(header.empty() || payload.empty());
    const std::span<const std::byte> bytes = header.empty() ? payload : header;
    const void* const storage = to == nullptr ? nullptr : &to->storage;
    const socklen_t size = to == nullptr ? 0 : to->size;
    while (sendto(descriptor_, bytes.data(), bytes.size(), 0,
                  static_cast<const sockaddr*>(storage), size) < 0 &&
           errno == EINTR) {
    }
  }
  void flush() {}

 private:
  int descriptor_;
};

// How an echo's two sides move datagrams.
struct Plain {
  using Receiver = PlainReceiver;
  using Sender = PlainSender;
  static constexpr std::size_t kHeaderApart = 0;  // bytes of a question in a extent of their own
};

// As the carrier does.
struct Trains {
  using Receiver = stream::Receiver;
  using Sender = stream::Sender;
  static constexpr std::size_t kHeaderApart = wire::kHeaderSize;
};

template <class Way>
class EchoServer {
 public:
  EchoServer(stream::Socket socket, std::size_t frame)
      : socket_(std::move(socket)), frame_(frame) {}

  [[nodiscard]] stream::SocketAddress address() const { return stream::address_of(socket_); }
  void stop() { stopping_.store(true, std::memory_order_relaxed); }
  // When it has stopped.
  [[nodiscard]] double seconds() const { return seconds_; }

  void run() {
    typename Way::Receiver receiver(socket_, frame_);
    typename Way::Sender sender(socket_);
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
template <class Way>
class Asker {
 public:
  Asker(stream::Socket socket, const Workload& workload)
      : socket_(std::move(socket)),
        window_(workload.window),
        receiver_(socket_, workload.frame),
        sender_(socket_),
        lanes_((workload.frame - wire::kHeaderSize) / sizeof(std::uint32_t)),
        header_(Way::kHeaderApart),
        payload_(wire::kHeaderSize - header_.size() + lanes_ * sizeof(std::uint32_t)),
        // What several tickets name, so that caches have as much to do as beside it.
        memory_(std::size_t{4} * kLanes * sizeof(std::uint32_t)),
        wanted_((workload.elements() + lanes_ - 1) / lanes_) {}

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
  typename Way::Receiver receiver_;
  typename Way::Sender sender_;
  std::uint64_t lanes_;  // of a datagram
  std::vector<std::byte> header_;
  std::size_t payload_;
  std::vector<std::byte> memory_;
  std::size_t offset_ = 0;
  std::uint64_t wanted_;
  std::uint64_t sent_ = 0;
  std::uint64_t answered_ = 0;
  std::uint64_t on_way_ = 0;
  std::uint64_t again_ = 0;
};

template <class Way>
Checked<Run> run_echo(const Workload& workload) {
  SLUICE_TRY_ASSIGN(const auto any, stream::resolve("127.0.0.1:0"));
  SLUICE_TRY_ASSIGN(stream::Socket bound, stream::open_bound(any));
  EchoServer<Way> server(std::move(bound), workload.frame);
  std::vector<std::unique_ptr<Asker<Way>>> askers;
  for (std::uint32_t rank = 0; rank < workload.workers; ++rank) {
    SLUICE_TRY_ASSIGN(stream::Socket socket, stream::open_connected(server.address()));
    askers.push_back(std::make_unique<Asker<Way>>(std::move(socket), workload));
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

}  // namespace

Checked<Run> run_plain(const Workload& workload) { return run_echo<Plain>(workload); }
Checked<Run> run_trains(const Workload& workload) { return run_echo<Trains>(workload); }

}  // namespace sluice::bench
