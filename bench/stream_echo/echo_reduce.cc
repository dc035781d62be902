#include <fmt/format.h>

#include <array>
#include <chrono>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/random.h"
#include "bench/stream_echo/echo_threads.h"
#include "bench/stream_echo/run.h"
#include "carrier/stream/clock.h"
#include "carrier/stream/server.h"
#include "carrier/stream/stream_port.h"

namespace sluice::bench {
namespace {

using Lanes = AlignedVector<std::uint32_t>;

constexpr std::uint32_t kInFlight = 4;  // tickets of a worker
// Contents, one after another. More than are in flight, so that a sum that was never written is
// that of another ticket.
constexpr std::uint32_t kContents = kInFlight + 1;
constexpr std::uint32_t kSlots = 512;  // wanted, as a world does
constexpr std::chrono::seconds kPatience{60};
// Comparing all lanes of all tickets would be a few percent of the time. A ticket of 16 is compared
// in full, of the others one lane of 61, which is several of every datagram.
constexpr std::uint64_t kFullEach = 16;
constexpr std::size_t kStride = 61;

// What workers contribute, and the sums.
struct Contents {
  explicit Contents(std::uint32_t workers) : ups(workers), sums(kContents, Lanes(kLanes, 0u)) {
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      ups[rank].assign(kContents, Lanes(kLanes));
      for (std::uint32_t content = 0; content < kContents; ++content) {
        for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
          const auto value = static_cast<std::uint32_t>(mix(mix(rank, content), lane));
          ups[rank][content][lane] = value;
          sums[content][lane] += value;
        }
      }
    }
  }
  std::vector<std::vector<Lanes>> ups;  // by rank, then content
  std::vector<Lanes> sums;
};

// One worker's tickets, several at a time.
class Reducer {
 public:
  Reducer(Carrier& port, const Contents& contents, std::uint32_t rank, std::uint64_t tickets)
      : port_(port), contents_(contents), rank_(rank), tickets_(tickets) {
    for (Flight& flight : flights_) flight.down.resize(kLanes);
  }

  Verdict run() {
    for (std::uint32_t i = 0; i < kInFlight; ++i) SLUICE_TRY(post(flights_[i], i));
    while (taken_ < tickets_) {
      const std::uint64_t before = taken_;
      for (Flight& flight : flights_) SLUICE_TRY(take(flight));
      if (taken_ != before) continue;
      if (const Status waited = port_.wait(kPatience); !waited) {
        return failed(waited.error(), flights_[0].ticket);
      }
    }
    return Nothing{};
  }

 private:
  struct Flight {
    Ticket ticket;
    Round round;
    Lanes down;
    bool busy = false;
  };

  Verdict post(Flight& flight, std::uint64_t sequence) {
    if (sequence >= tickets_) return Nothing{};
    flight.ticket = {sequence, 0x6563686f};
    flight.round = {{.op = Op::wrap_sum, .bits = 32, .count = kLanes},
                    std::as_bytes(std::span(contents_.ups[rank_][sequence % kContents])),
                    std::as_writable_bytes(std::span(flight.down)),
                    {}};
    const Status posted = port_.post(flight.ticket, {}, std::span(&flight.round, 1));
    if (!posted) return failed(posted.error(), flight.ticket);
    flight.busy = true;
    return Nothing{};
  }

  // Checks the sums, if they are there, and posts what comes after.
  Verdict take(Flight& flight) {
    if (!flight.busy) return Nothing{};
    const auto answers = port_.take(flight.ticket);
    if (!answers && answers.error().code == Code::pending) return Nothing{};
    if (!answers) return failed(answers.error(), flight.ticket);
    flight.busy = false;
    ++taken_;
    const std::uint64_t sequence = flight.ticket.sequence;
    const Lanes& sums = contents_.sums[sequence % kContents];
    const std::size_t stride = sequence % kFullEach == 0 ? 1 : kStride;
    for (std::size_t i = sequence % stride; i < kLanes; i += stride) {
      if (flight.down[i] == sums[i]) continue;
      return Problem{Code::mismatch, fmt::format("worker {}, ticket {}, lane {}: {} instead of {}",
                                                 rank_, sequence, i, flight.down[i], sums[i])};
    }
    return post(flight, sequence + kInFlight);
  }

  Problem failed(const Error& error, const Ticket& ticket) {
    return {error.code, fmt::format("worker {}: {}: {}", rank_, error.what, port_.explain(ticket))};
  }

  Carrier& port_;
  const Contents& contents_;
  std::uint32_t rank_;
  std::uint64_t tickets_;
  std::uint64_t taken_ = 0;
  std::array<Flight, kInFlight> flights_;
};

using Ports = std::vector<std::unique_ptr<stream::Port>>;

Checked<Ports> open_ports(const Workload& workload, const stream::SocketAddress& server) {
  const std::array aggregators{server};
  Ports ports;
  for (std::uint32_t rank = 0; rank < workload.workers; ++rank) {
    protocol::LinkOptions options;
    options.rank = rank;
    options.workers = workload.workers;
    options.job = 1;
    options.life = rank + 1;
    options.terms = "stream_echo";
    options.channels = kInFlight;
    options.slots = kSlots;
    options.frame_size = workload.frame;
    SLUICE_TRY_ASSIGN(auto port, stream::Port::open(options, aggregators, stream::Caretaker::no));
    ports.push_back(std::move(port));
  }
  return ports;
}

// None joins before all do, so all are moved on in turn.
Verdict join_all(const Ports& ports) {
  const auto deadline = stream::now() + kPatience;
  for (std::size_t joined = 0; joined < ports.size();) {
    if (stream::now() >= deadline) return Problem{Code::timeout, "joining took too long"};
    joined = 0;
    for (const auto& port : ports) {
      SLUICE_TRY_ASSIGN(const bool is_in, port->try_join());
      joined += is_in ? 1u : 0u;
    }
    std::this_thread::yield();
  }
  return Nothing{};
}

}  // namespace

Checked<Run> run_reduce(const Workload& workload) {
  const Contents contents(workload.workers);
  SLUICE_TRY_ASSIGN(const auto any, stream::resolve("127.0.0.1:0"));
  SLUICE_TRY_ASSIGN(const auto server, stream::Server::open(any, {}));
  Beside beside([&] { static_cast<void>(server->run()); }, [&] { server->stop(); });
  SLUICE_TRY_ASSIGN(const Ports ports, open_ports(workload, server->address()));
  SLUICE_TRY(join_all(ports));
  const double before = server->cpu_seconds();
  Run run;
  SLUICE_TRY_ASSIGN(run.seconds, run_together(workload.workers, [&](std::uint32_t rank) {
                      return Reducer(*ports[rank], contents, rank, workload.tickets).run();
                    }));
  for (const auto& port : ports) {
    const protocol::LinkCounters counters = port->counters();
    run.datagrams += counters.sent + counters.received;
    run.bytes += counters.sent_bytes + counters.received_bytes;
    run.again += counters.retransmits;
  }
  beside.end();
  run.server_seconds = server->cpu_seconds() - before;
  return run;
}

}  // namespace sluice::bench
