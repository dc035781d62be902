#include "carrier/stream/stream.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/random.h"
#include "carrier/stream/clock.h"
#include "carrier/stream/servers.h"
#include "carrier/stream/stream_port.h"
#include "round/lists.h"

namespace sluice::stream {
namespace {

constexpr std::uint32_t kWindowMax = 1024;
constexpr std::uint32_t kSlotsWanted = 512;     // at each aggregator, for all exchanges together
constexpr std::uint32_t kFrameSizeMost = 8952;  // larger ones gain little and cost memory

Problem refused(std::string message) { return {Code::invalid_argument, std::move(message)}; }

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

Checked<std::uint32_t> number_of(const char* name, std::uint32_t low, std::uint32_t high) {
  const std::string_view text = variable(name);
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < low ||
      value > high) {
    return refused(
        fmt::format("environment variable {} is '{}'; accepted: {} to {}", name, text, low, high));
  }
  return value;
}

std::uint64_t digest_of_text(std::uint64_t seed, std::string_view text) {
  for (const char c : text) seed = mix(seed, static_cast<unsigned char>(c));
  return seed;
}

// The name of this world's job, alike in all processes: SLUICE_JOB or what the launcher gave them,
// and which world of the process it is.
std::uint64_t job_name() {
  static std::atomic<std::uint64_t> worlds{0};
  std::uint64_t name = 0x6a6f62;
  if (const std::string_view job = variable("SLUICE_JOB"); !job.empty()) {
    name = digest_of_text(name, job);
  } else {
    for (const char* part : {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "WORLD_SIZE"}) {
      name = mix(digest_of_text(name, variable(part)), 1);
    }
  }
  return mix(name, worlds.fetch_add(1));
}

Checked<std::uint64_t> draw() {
  std::uint64_t bits = 0;
  if (getrandom(&bits, sizeof bits, 0) != sizeof bits) {
    return Problem{Code::io, "stream: no randomness from the system"};
  }
  return bits;
}

protocol::LinkOptions link_of(const WorldOptions& options, std::uint32_t rank, std::uint64_t job,
                              std::uint64_t life) {
  return {.rank = rank,
          .workers = options.workers,
          .job = job,
          .life = life >> 16,
          .terms = fmt::format("sluice {}, window {}", SLUICE_VERSION, options.window),
          .channels = options.window,
          .slots = std::max(kSlotsWanted, options.window),
          .frame_size = kFrameSizeMost};
}

// --- all in this process ---

// How many aggregators are started where none is named: beside as many workers one thread each
// would only take turns.
Checked<std::uint32_t> aggregators_here() {
  constexpr std::uint32_t kMost = 64;
  if (!variable("SLUICE_AGGREGATOR_THREADS").empty()) {
    return number_of("SLUICE_AGGREGATOR_THREADS", 1, kMost);
  }
  return std::clamp(std::thread::hardware_concurrency() / 8, 1u, 4u);
}

class WholeWorld final : public World {
 public:
  explicit WholeWorld(std::unique_ptr<Servers> servers)
      : servers_(std::move(servers)), thread_([this] { static_cast<void>(servers_->run()); }) {}
  ~WholeWorld() override {
    ports_.clear();
    servers_->stop();
    thread_.join();
  }

  static Checked<std::unique_ptr<World>> make(const WorldOptions& options) {
    SLUICE_TRY_ASSIGN(const SocketAddress any, resolve("127.0.0.1:0"));
    SLUICE_TRY_ASSIGN(const std::uint32_t count, aggregators_here());
    const std::vector<SocketAddress> wanted(count, any);
    SLUICE_TRY_ASSIGN(auto servers, Servers::open(wanted, {}));
    SLUICE_TRY_ASSIGN(const std::uint64_t job, draw());
    auto world = std::make_unique<WholeWorld>(std::move(servers));
    const std::vector<SocketAddress> aggregators = world->servers_->addresses();
    for (std::uint32_t rank = 0; rank < options.workers; ++rank) {
      SLUICE_TRY_ASSIGN(const std::uint64_t life, draw());
      SLUICE_TRY_ASSIGN(auto port,
                        Port::open(link_of(options, rank, job, life), aggregators, Caretaker::no));
      world->ports_.push_back(std::move(port));
      world->here_.push_back(rank);
    }
    const protocol::Time deadline = now() + options.timeout;
    // None joins before all do, so all are moved on in turn.
    for (std::size_t joined = 0; joined < options.workers;) {
      if (now() >= deadline) return Problem{Code::timeout, "stream: joining took too long"};
      joined = 0;
      for (const auto& port : world->ports_) {
        SLUICE_TRY_ASSIGN(const bool done, port->try_join());
        joined += done ? 1 : 0;
      }
      std::this_thread::yield();
    }
    return std::unique_ptr<World>(std::move(world));
  }

  Carrier& port(std::uint32_t rank) override {
    SLUICE_ASSERT(rank < ports_.size());
    return *ports_[rank];
  }
  [[nodiscard]] std::span<const std::uint32_t> here() const override { return here_; }
  [[nodiscard]] double combine_seconds() const override { return servers_->cpu_seconds(); }
  [[nodiscard]] WorldCounters counters() const override {
    std::uint64_t retransmits = 0;
    for (const auto& port : ports_) retransmits += port->counters().retransmits;
    return {.retransmits = retransmits, .aggregator_cpu_seconds = servers_->cpu_seconds()};
  }
  Verdict meet(std::span<double>) override { return Nothing{}; }
  Verdict plain_sum(std::span<float>) override {
    return Problem{Code::unavailable, "stream has no all-reduce of its own"};
  }

 private:
  std::unique_ptr<Servers> servers_;
  std::thread thread_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<std::uint32_t> here_;
};

// --- one worker of many processes ---

class OneWorld final : public World {
 public:
  OneWorld(std::uint32_t rank, const WorldOptions& options)
      : here_{rank}, workers_(options.workers), timeout_(options.timeout) {}

  static Checked<std::unique_ptr<World>> make(const WorldOptions& options,
                                              std::span<const SocketAddress> aggregators) {
    SLUICE_TRY_ASSIGN(const std::uint32_t rank, number_of("RANK", 0, options.workers - 1));
    SLUICE_TRY_ASSIGN(const std::uint64_t life, draw());
    const std::uint64_t job = job_name();
    auto world = std::make_unique<OneWorld>(rank, options);
    SLUICE_TRY_ASSIGN(world->port_,
                      Port::open(link_of(options, rank, job, life), aggregators, Caretaker::yes));
    // Meetings are a job of their own, at one aggregator: they are rare and small.
    protocol::LinkOptions meeting = link_of(options, rank, mix(job, 1), life);
    meeting.channels = 1;
    meeting.slots = 16;
    meeting.frame_size = 1232;
    SLUICE_TRY_ASSIGN(world->meeting_, Port::open(meeting, aggregators.first(1), Caretaker::yes));
    const std::array<Port*, 2> ports{world->port_.get(), world->meeting_.get()};
    SLUICE_TRY(Port::join_all(ports, options.timeout));
    return std::unique_ptr<World>(std::move(world));
  }

  Carrier& port(std::uint32_t rank) override {
    SLUICE_ASSERT(rank == here_[0]);
    return *port_;
  }
  [[nodiscard]] std::span<const std::uint32_t> here() const override { return here_; }
  [[nodiscard]] double combine_seconds() const override { return 0; }
  // Meetings are not counted: they are no operations.
  [[nodiscard]] WorldCounters counters() const override {
    return {.retransmits = port_->counters().retransmits, .aggregator_cpu_seconds = {}};
  }

  Verdict meet(std::span<double> values) override {
    const auto size = static_cast<std::uint32_t>(std::max<std::size_t>(8, values.size_bytes()));
    std::vector<std::byte> up(size);
    if (!values.empty()) std::memcpy(up.data(), values.data(), values.size_bytes());
    const Reduction what{.op = Op::gather, .bits = 8, .count = size};
    std::vector<std::byte> down(down_size_max(what, workers_));
    const Round round{what, up, down, {}};
    const Ticket ticket{meetings_++, 0x6d656574};
    const protocol::Time deadline = now() + timeout_;
    Status went = meeting_->post(ticket, {}, std::span(&round, 1));
    while (went) {
      const auto answers = meeting_->take(ticket);
      if (answers) return take_largest(what, answers->front(), values);
      if (answers.error().code != Code::pending) {
        went = answers.error();
      } else if (now() >= deadline) {
        went = Error{Code::timeout, 0, "not all came in time"};
      } else {
        const Status waited = meeting_->wait(deadline - now());
        if (!waited && waited.error().code != Code::timeout) went = waited;
      }
    }
    return Problem{went.error().code, fmt::format("stream: meeting: {}: {}", went.error().what,
                                                  meeting_->explain(ticket))};
  }
  Verdict plain_sum(std::span<float>) override {
    return Problem{Code::unavailable, "stream has no all-reduce of its own"};
  }

 private:
  // As MPI_MAX compares, in the order of ranks, so that all get the same of NaN too.
  static Verdict take_largest(const Reduction& what, const Answer& answer,
                              std::span<double> values) {
    MessageReader messages(what, answer);
    bool is_first = true;
    while (true) {
      const auto message = messages.next();
      if (!message) return Problem{Code::malformed, "stream: meeting: not a list of values"};
      if (!*message) return Nothing{};
      if ((*message)->bytes.size() < values.size_bytes()) {
        return Problem{
            Code::mismatch,
            fmt::format("stream: meeting: worker {} brought {} bytes, {} are needed",
                        (*message)->rank, (*message)->bytes.size(), values.size_bytes())};
      }
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto value = load_le<double>((*message)->bytes, i * sizeof(double));
        values[i] = !is_first && values[i] > value ? values[i] : value;
      }
      is_first = false;
    }
  }

  std::array<std::uint32_t, 1> here_;
  std::uint32_t workers_;
  std::chrono::nanoseconds timeout_;
  std::unique_ptr<Port> port_;
  std::unique_ptr<Port> meeting_;
  std::uint64_t meetings_ = 0;
};

Verdict check_options(const WorldOptions& options) {
  if (options.workers < 1 || options.workers > wire::kWorkersMax) {
    return refused(
        fmt::format("{} workers; stream accepts 1 to {}", options.workers, wire::kWorkersMax));
  }
  if (options.window < 1 || options.window > kWindowMax) {
    return refused(fmt::format("window {}; stream accepts 1 to {}", options.window, kWindowMax));
  }
  return Nothing{};
}

Checked<std::vector<SocketAddress>> aggregators_from(std::string_view named) {
  SLUICE_TRY_ASSIGN(auto aggregators, resolve_list(named));
  if (aggregators.size() > 64) {
    return refused(fmt::format("{} aggregators are named; accepted: 1 to 64", aggregators.size()));
  }
  return aggregators;
}

}  // namespace

Checked<std::unique_ptr<Port>> open_port(const PortOptions& options) {
  const WorldOptions world{.workers = options.workers, .window = options.window};
  SLUICE_TRY(check_options(world));
  if (options.rank >= options.workers) {
    return refused(
        fmt::format("rank {} of {} workers; accepted: below that", options.rank, options.workers));
  }
  SLUICE_TRY_ASSIGN(const auto aggregators, aggregators_from(options.aggregators));
  SLUICE_TRY_ASSIGN(const std::uint64_t life, draw());
  SLUICE_TRY_ASSIGN(auto port, Port::open(link_of(world, options.rank, options.job, life),
                                          aggregators, Caretaker::yes, options.bell));
  SLUICE_TRY(port->join(options.timeout));
  return port;
}

Checked<std::uint32_t> launched() {
  if (variable("SLUICE_AGGREGATORS").empty()) return std::uint32_t{0};
  return number_of("WORLD_SIZE", 1, wire::kWorkersMax);
}

Checked<std::unique_ptr<World>> make_world(const WorldOptions& options) {
  SLUICE_TRY(check_options(options));
  const std::string_view named = variable("SLUICE_AGGREGATORS");
  if (named.empty()) return WholeWorld::make(options);
  SLUICE_TRY_ASSIGN(const auto aggregators, aggregators_from(named));
  SLUICE_TRY_ASSIGN(const std::uint32_t workers, launched());
  if (options.workers != workers) {
    return refused(fmt::format("{} workers, but WORLD_SIZE is {}", options.workers, workers));
  }
  return OneWorld::make(options, aggregators);
}

}  // namespace sluice::stream
