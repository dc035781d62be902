#include "daemon.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/shared/standard_descriptors.h"
#include "carrier/stream/clock.h"
#include "carrier/stream/servers.h"
#include "daemon_options.h"
#include "daemon_terminal.h"
#include "http_server.h"
#include "job_log.h"
#include "log.h"
#include "metrics.h"
#include "reload.h"
#include "signals.h"
#include "start_failure.h"

namespace sluice::daemon {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr int kExitBrokenPipe = 128 + SIGPIPE;  // as if the signal had ended it

// Reads flags, variables and the file: at the start, and again.
using Configure = std::function<Checked<Options>()>;

class Daemon {
 public:
  Daemon(const Options& options, Configure configure, std::unique_ptr<stream::Servers> servers)
      : options_(options),
        configure_(std::move(configure)),
        servers_(std::move(servers)),
        job_log_(std::chrono::seconds(options.wait_log_seconds)) {}

  Verdict start() {
    SLUICE_TRY_ASSIGN(signals_, Signals::watch({.first = [this] { return drain(); },
                                                .second = [this] { stop(); },
                                                .reload = [this] { reload_options(); }}));
    return open_http();
  }

  // The exit status.
  int serve() {
    log_.say(fmt::format("listening on {} (udp), http {}{}", fmt::join(names(), ","),
                         http_ == nullptr ? "off" : "on ",
                         http_ == nullptr ? "" : http_->address()));
    const Status served = servers_->run([this] { look(); });
    if (served) {
      look();
      log_.say(fmt::format("ends, {} job{} left", jobs_left(), jobs_left() == 1 ? "" : "s"));
    } else {
      log_.say(fmt::format("{}: {}", served.error().what,
                           std::generic_category().message(served.error().detail)));
    }
    log_.flush(kLogPatience);
    return served ? 0 : kExitFailure;
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
        {"/jobs",
         [this] {
           return Page{200, "application/json", jobs_json(snapshot())};
         }},
        {"/healthz", [this] {
           const bool draining = is_draining_.load(std::memory_order_relaxed);
           return draining ? Page{.status = 503, .body = "draining\n"} : Page{.body = "ok\n"};
         }}};
    SLUICE_TRY_ASSIGN(http_, HttpServer::open(address, routes));
    return Nothing{};
  }

  // On the thread of the signals.
  std::chrono::seconds drain() {
    is_draining_.store(true, std::memory_order_relaxed);
    const std::chrono::seconds patience(options().drain_seconds);
    log_.say(fmt::format("draining: no new jobs, {} here, ends in {} s at the latest", jobs_left(),
                         patience.count()));
    servers_->drain();
    return patience;
  }
  void stop() {
    log_.say("stops at once");
    servers_->stop();
  }
  void reload_options() {
    const Options running = options();
    if (running.config.empty()) {
      log_.say("SIGHUP: no --config file was given, nothing is read again");
      return;
    }
    const Checked<Options> wanted = configure_();
    if (!wanted) {
      log_.say(fmt::format("nothing changes: {}", wanted.error().message));
      return;
    }
    const Reload result = reload(running, *wanted);
    servers_->set_limits(result.options.limits());
    {
      const std::lock_guard lock(mutex_);
      options_ = result.options;
      job_log_.set_wait(std::chrono::seconds(options_.wait_log_seconds));
    }
    for (const std::string& line : result.lines) log_.say(line);
  }

  [[nodiscard]] Options options() const {
    const std::lock_guard lock(mutex_);
    return options_;
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
    for (const std::string& line : job_log_.look(reports, stream::now())) log_.say(line);
  }

  // On the thread of the pages.
  Snapshot snapshot() {
    Snapshot result{.counters = servers_->counters(),
                    .jobs = servers_->reports(),
                    .now = stream::now(),
                    .cpu_seconds = servers_->cpu_seconds(),
                    .log_lost = log_.lost(),
                    .is_draining = is_draining_.load(std::memory_order_relaxed)};
    const std::lock_guard lock(mutex_);
    result.jobs_max = options_.jobs_max;
    result.slots_max = options_.slots_max;
    job_log_.date(result.jobs, result.now);
    return result;
  }

  Log log_{STDERR_FILENO};
  mutable std::mutex
      mutex_;  // the options and what is remembered of jobs: several threads use both
  Options options_;
  const Configure configure_;
  std::unique_ptr<stream::Servers> servers_;
  JobLog job_log_;
  std::atomic<bool> is_draining_{false};
  std::unique_ptr<Signals> signals_;
  std::unique_ptr<HttpServer> http_;
};

std::string environment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::string() : std::string(value);
}

// Returns where it could not start.
Problem serve(const Options& options, const Configure& configure) {
  const auto daemon = [&]() -> Checked<std::unique_ptr<Daemon>> {
    SLUICE_TRY_ASSIGN(const auto addresses, stream::resolve_list(options.listen));
    SLUICE_TRY_ASSIGN(auto servers, stream::Servers::open(addresses, options.aggregator()));
    auto made = std::make_unique<Daemon>(options, configure, std::move(servers));
    SLUICE_TRY(made->start());
    return made;
  }();
  if (!daemon) return daemon.error();
  // Without the destructors: they would wait for whoever reads slowly, and there is nothing to
  // save.
  std::_Exit((*daemon)->serve());
}

int refuse(const Problem& problem) {
  complain(problem.message);
  return problem.code == Code::invalid_argument ? kExitUsage : kExitFailure;
}

// What --help and --version ask for; the exit status.
int tell(const std::string& asked) {
  const int error = print(asked);
  if (error == 0) return 0;
  if (error == EPIPE) return kExitBrokenPipe;
  complain(fmt::format("standard output: cannot be written: {}", std::strerror(error)));
  return kExitFailure;
}

int start(int argc, const char* const* argv) {
  const Configure configure = [arguments = std::vector<std::string>(argv + 1, argv + argc)] {
    return parse_options(arguments, environment);
  };
  const Checked<Options> options = configure();
  if (!options) return refuse(options.error());
  if (!options->asked.empty()) return tell(options->asked);
  return refuse(serve(*options, configure));
}

}  // namespace

int run(int argc, const char* const* argv) {
  Signals::hold_reload();
  std::signal(SIGPIPE, SIG_IGN);  // a reader of the log or of a page may go away
  keep_standard_descriptors();
  try {
    return start(argc, argv);
  } catch (const std::exception& error) {
    complain(words_for(error));
  }
  // Without the destructors of what was made so far: threads may still use it.
  std::_Exit(kExitFailure);
}

}  // namespace sluice::daemon
