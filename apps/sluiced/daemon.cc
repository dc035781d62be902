#include "daemon.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "carrier/stream/clock.h"
#include "carrier/stream/servers.h"
#include "http_server.h"
#include "job_log.h"
#include "metrics.h"
#include "options.h"
#include "signals.h"
#include "terminal.h"

namespace sluice::daemon {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

class Daemon {
 public:
  Daemon(const Options& options, std::unique_ptr<stream::Servers> servers)
      : options_(options),
        servers_(std::move(servers)),
        log_(std::chrono::seconds(options.wait_log_seconds)) {}

  Verdict run() {
    SLUICE_TRY_ASSIGN(signals_, Signals::watch([this] { drain(); }, [this] { stop(); },
                                               std::chrono::seconds(options_.drain_seconds)));
    SLUICE_TRY(open_http());
    say(fmt::format("listening on {} (udp), http {}{}", fmt::join(names(), ","),
                    http_ == nullptr ? "off" : "on ", http_ == nullptr ? "" : http_->address()));
    const Status served = servers_->run([this] { look(); });
    if (!served) {
      return Problem{served.error().code,
                     fmt::format("{}: {}", served.error().what,
                                 std::generic_category().message(served.error().detail))};
    }
    look();
    say(fmt::format("ends, {} job{} left", jobs_left(), jobs_left() == 1 ? "" : "s"));
    return Nothing{};
  }

 private:
  Verdict open_http() {
    if (!options_.has_http()) return Nothing{};
    SLUICE_TRY_ASSIGN(const stream::SocketAddress address, stream::resolve(options_.http));
    const std::vector<Route> routes{
        {"/metrics",
         [this] {
           return Page{200, "text/plain; version=0.0.4; charset=utf-8", metrics_text(snapshot())};
         }},
        {"/jobs", [this] { return Page{200, "application/json", jobs_json(snapshot())}; }},
        {"/healthz", [this] {
           const bool draining = is_draining_.load(std::memory_order_relaxed);
           return draining ? Page{.status = 503, .body = "draining\n"} : Page{.body = "ok\n"};
         }}};
    SLUICE_TRY_ASSIGN(http_, HttpServer::open(address, routes));
    return Nothing{};
  }

  // On the thread of the signals.
  void drain() {
    is_draining_.store(true, std::memory_order_relaxed);
    say(fmt::format("draining: no new jobs, {} here, ends in {} s at the latest", jobs_left(),
                    options_.drain_seconds));
    servers_->drain();
  }
  void stop() {
    say("stops at once");
    servers_->stop();
  }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const stream::SocketAddress& address : servers_->addresses()) {
      names.push_back(text_of(address));
    }
    return names;
  }
  [[nodiscard]] std::size_t jobs_left() const { return servers_->reports().size(); }

  void look() {
    const std::vector<protocol::JobReport> reports = servers_->reports();
    const std::lock_guard lock(mutex_);
    for (const std::string& line : log_.look(reports, stream::now())) say(line);
  }

  // On the threads of the pages.
  Snapshot snapshot() {
    Snapshot result{.counters = servers_->counters(),
                    .jobs = servers_->reports(),
                    .now = stream::now(),
                    .cpu_seconds = servers_->cpu_seconds(),
                    .jobs_max = options_.jobs_max,
                    .slots_max = options_.slots_max,
                    .is_draining = is_draining_.load(std::memory_order_relaxed)};
    const std::lock_guard lock(mutex_);
    log_.date(result.jobs, result.now);
    return result;
  }

  Options options_;
  std::unique_ptr<stream::Servers> servers_;
  std::mutex mutex_;  // the log's memory: the serving thread writes it, pages read it
  JobLog log_;
  std::atomic<bool> is_draining_{false};
  std::unique_ptr<Signals> signals_;
  std::unique_ptr<HttpServer> http_;
};

std::string environment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::string() : std::string(value);
}

Verdict serve(const Options& options) {
  SLUICE_TRY_ASSIGN(const auto addresses, stream::resolve_list(options.listen));
  SLUICE_TRY_ASSIGN(auto servers, stream::Servers::open(addresses, options.aggregator()));
  const auto daemon = std::make_unique<Daemon>(options, std::move(servers));
  SLUICE_TRY(daemon->run());
  // Without the destructors: they would wait for whoever reads a page slowly, and there is nothing
  // to save.
  std::_Exit(0);
}

int complain(const Problem& problem) {
  say(problem.message);
  return problem.code == Code::invalid_argument ? kExitUsage : kExitFailure;
}

}  // namespace

int run(int argc, const char* const* argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader of the log or of a page may go away
  const Checked<Options> options =
      parse_options(std::vector<std::string>(argv + 1, argv + argc), environment);
  if (!options) return complain(options.error());
  if (!options->asked.empty()) {
    print(options->asked);
    return 0;
  }
  const Verdict served = serve(*options);
  return served ? 0 : complain(served.error());
}

}  // namespace sluice::daemon
