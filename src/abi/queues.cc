// The C functions over Waves and Tracks: buckets in one order, over several ports.
#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "abi/edge.h"
#include "abi/port_handle.h"
#include "group/relay.h"
#include "group/track.h"
#include "group/waves.h"

using sluice::Code;
using sluice::Nothing;
using sluice::Problem;
using sluice::Track;
using sluice::Verdict;
using sluice::Waves;
using sluice::abi::call;
using sluice::abi::check_pointers;
using sluice::abi::invalid;
using sluice::abi::PortEnd;

struct sluice_queue {
  // A port, the track on it, and what its last event showed.
  struct Served {
    Served(std::shared_ptr<PortEnd> of, Waves& waves, std::size_t index)
        : end(std::move(of)), track(waves, index, end->driver(), end->fused()) {}
    std::shared_ptr<PortEnd> end;
    Track track;
    std::vector<sluice_probe> probes;
  };

  sluice_queue(std::span<sluice_port* const> ports, const sluice::WavesOptions& options)
      : worker(ports[0]->end->worker()), waves(*worker->memory, options) {
    for (std::size_t i = 0; i < ports.size(); ++i) served.emplace_back(ports[i]->end, waves, i);
    for (const Served& one : served) one.end->is_queued = true;
  }
  // What is not finished never will be.
  ~sluice_queue() {
    worker->busy -= unfinished;
    for (const Served& one : served) one.end->is_queued = false;
  }
  sluice_queue(const sluice_queue&) = delete;
  sluice_queue& operator=(const sluice_queue&) = delete;

  void began() {
    ++worker->busy;
    ++unfinished;
  }
  void finished() {
    --worker->busy;
    --unfinished;
  }

  std::shared_ptr<sluice::abi::WorkerHandle> worker;  // shared with the memory's handle
  std::atomic<std::uint32_t> unfinished = 0;          // buckets
  Waves waves;
  std::deque<Served> served;
  std::unique_ptr<sluice::Relay> relay;  // of sluice_queue_serve_all
};

namespace {

constexpr std::size_t kPortsMax = 64;
constexpr std::uint64_t kWaveMax = std::uint64_t{1} << 40;

Verdict check_ports(std::span<sluice_port* const> ports) {
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (ports[i] == nullptr) return invalid(fmt::format("ports[{}] is NULL; accepted: ports", i));
    PortEnd& first = *ports[0]->end;
    PortEnd& one = *ports[i]->end;
    if (one.worker() != first.worker()) {
      return invalid(fmt::format("ports[{}] is of another memory than ports[0]", i));
    }
    if ((one.fused() == nullptr) != (first.fused() == nullptr) ||
        one.has_device() != first.has_device() || one.carries_device() != first.carries_device()) {
      return invalid(fmt::format("ports[{}] is of another kind than ports[0]", i));
    }
    if (one.is_queued) {
      return invalid(fmt::format("ports[{}] is in another queue; accepted: one that is free", i));
    }
    const auto same = [&](const sluice_port* other) { return other->end == ports[i]->end; };
    if (std::any_of(ports.begin(), ports.begin() + static_cast<std::ptrdiff_t>(i), same)) {
      return invalid(fmt::format("ports[{}] is there twice; accepted: once", i));
    }
  }
  return Nothing{};
}

// A bucket that is unfinished from here on, unless it is refused.
class Counted {
 public:
  explicit Counted(sluice_queue& queue) : queue_(queue) { queue.began(); }
  ~Counted() {
    if (!stays_) queue_.finished();
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  void stays() { stays_ = true; }

 private:
  sluice_queue& queue_;
  bool stays_ = false;
};

// Unless it comes to its end, nobody serves the queue any more: not after an exception either.
class Serving {
 public:
  Serving(sluice_queue& queue, sluice::Driver& driver) : queue_(queue), attempt_(driver) {}
  ~Serving() {
    if (!ended_) queue_.waves.fail();
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;
  void ended() {
    ended_ = true;
    attempt_.ended();
  }

 private:
  sluice_queue& queue_;
  sluice::abi::Attempt attempt_;
  bool ended_ = false;
};

// The same of all ports at once.
class ServingAll {
 public:
  explicit ServingAll(sluice_queue& queue) : queue_(queue) {}
  ~ServingAll() {
    if (ended_) return;
    queue_.waves.fail();
    for (auto& one : queue_.served) one.end->driver().give_up();
  }
  ServingAll(const ServingAll&) = delete;
  ServingAll& operator=(const ServingAll&) = delete;
  void ended() { ended_ = true; }

 private:
  sluice_queue& queue_;
  bool ended_ = false;
};

void show(sluice_queue& queue, sluice_queue::Served& served, const Track::Event& event,
          sluice_event& shown) {
  switch (event.kind) {
    case Track::Event::Kind::nothing:
    case Track::Event::Kind::closed: shown.kind = SLUICE_CLOSED; return;
    case Track::Event::Kind::turn:
      shown.kind = SLUICE_TURN;
      shown.number = event.turn;
      return;
    case Track::Event::Kind::bucket: break;
  }
  queue.finished();
  shown.kind = SLUICE_BUCKET;
  shown.number = event.bucket.number;
  shown.digest = event.bucket.outcome.digest;
  shown.infinite = event.bucket.outcome.infinite;
  shown.probes = served.probes.data();
  shown.probe_count = served.probes.size();
}

// One relay for all ports, which all move bytes of devices.
Verdict check_relay(sluice_queue& queue) {
  if (queue.relay != nullptr && queue.relay->owes_error()) return Nothing{};
  std::vector<sluice::Relay::End> ends;
  for (auto& one : queue.served) {
    if (one.end->driver().is_dead()) {
      queue.waves.fail();
      return Problem{Code::unavailable, "queue: it failed before; accepted: another queue"};
    }
    if (!one.end->carries_device()) {
      return invalid("a port that does not carry device bytes; accepted: sluice_queue_serve");
    }
    ends.push_back({&one.end->driver(), one.end->fused()});
  }
  if (queue.relay == nullptr) {
    queue.relay = std::make_unique<sluice::Relay>(queue.waves, std::move(ends));
  }
  return Nothing{};
}

}  // namespace

extern "C" {

sluice_code sluice_queue_make(sluice_port* const* ports, size_t port_count, uint64_t wave,
                              sluice_queue** queue) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{ports, "ports"}, {queue, "queue"}}));
    if (port_count < 1 || port_count > kPortsMax) {
      return invalid(fmt::format("port_count is {}; accepted: 1 to {}", port_count, kPortsMax));
    }
    if (wave > kWaveMax) return invalid(fmt::format("wave is {}; accepted: at most 2^40", wave));
    const std::span all(ports, port_count);
    SLUICE_TRY(check_ports(all));
    sluice::WavesOptions options;
    options.tracks = port_count;
    if (wave != 0) options.coordinates_max = wave;
    options.agreed = all[0]->end->fused() != nullptr;
    *queue = std::make_unique<sluice_queue>(all, options).release();
    return Nothing{};
  });
}

void sluice_queue_free(sluice_queue* queue) { std::unique_ptr<sluice_queue>{queue}; }

sluice_code sluice_queue_put(sluice_queue* queue, const sluice_order* order,
                             const sluice_entry* entries, size_t entry_count, uint64_t* number) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{queue, "queue"}, {number, "number"}}));
    SLUICE_TRY_ASSIGN(const auto wanted, sluice::abi::order_from(order));
    SLUICE_TRY_ASSIGN(const auto parsed, sluice::abi::entries_from(entries, entry_count));
    // Counted first: a track may finish it before this function returns.
    Counted counted(*queue);
    SLUICE_TRY_ASSIGN(*number, queue->waves.put(wanted, parsed));
    counted.stays();
    return Nothing{};
  });
}

sluice_code sluice_queue_put_turn(sluice_queue* queue, uint64_t* number) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{queue, "queue"}, {number, "number"}}));
    SLUICE_TRY_ASSIGN(*number, queue->waves.put_turn());
    return Nothing{};
  });
}

sluice_code sluice_queue_serve(sluice_queue* queue, size_t port, sluice_event* event) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{queue, "queue"}}));
    SLUICE_TRY(sluice::abi::check_sized("event", event));
    if (port >= queue->served.size()) {
      return invalid(fmt::format("port {}; accepted: below {}", port, queue->served.size()));
    }
    sluice_queue::Served& served = queue->served[port];
    sluice::Driver& driver = served.end->driver();
    if (driver.is_dead()) {
      queue->waves.fail();  // It may have died in its turn, and others wait for the end of that.
      return Problem{Code::unavailable, "queue: it failed before; accepted: another queue"};
    }
    Serving serving(*queue, driver);
    auto told = served.track.serve(served.end->timeout());
    if (told) {
      served.probes.clear();
      for (const auto& probe : told->bucket.probes) {
        served.probes.push_back(sluice::abi::shown_from(probe));
      }
    }
    serving.ended();
    served.end->note();
    if (!told) return sluice::abi::fatal(sluice::abi::problem_of(driver, told.error()));
    sluice_event shown = SLUICE_EVENT_INIT;
    show(*queue, served, *told, shown);
    shown.port = port;
    return sluice::abi::write_sized("event", shown, event);
  });
}

sluice_code sluice_queue_serve_all(sluice_queue* queue, sluice_event* event) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{queue, "queue"}}));
    SLUICE_TRY(sluice::abi::check_sized("event", event));
    SLUICE_TRY(check_relay(*queue));
    ServingAll serving(*queue);
    auto told = queue->relay->serve(queue->served[0].end->timeout());
    for (auto& one : queue->served) one.end->note();
    if (!told) {  // Words before serving gives the drivers up, which takes theirs away.
      const auto& failed = queue->served[queue->relay->failed()].end;
      return sluice::abi::fatal(sluice::abi::problem_of(failed->driver(), told.error()));
    }
    serving.ended();
    sluice_event shown = SLUICE_EVENT_INIT;
    show(*queue, queue->served[told->end], told->event, shown);
    shown.port = told->end;
    return sluice::abi::write_sized("event", shown, event);
  });
}

sluice_code sluice_queue_close(sluice_queue* queue, uint32_t at_once) {
  return call({__func__}, [&]() -> Verdict {
    SLUICE_TRY(check_pointers({{queue, "queue"}}));
    queue->waves.close(at_once != 0);
    return Nothing{};
  });
}

}  // extern "C"
