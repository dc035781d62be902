#include "http_server.h"

#include <fmt/format.h>
#include <httplib.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace sluice::daemon {
namespace {

constexpr std::size_t kThreads = 2;
constexpr std::size_t kWaitingMax = 8;
constexpr std::size_t kBodySizeMax = 4096;
constexpr time_t kPatienceSeconds = 2;

// The library's own pool queues connections without limit. This one lets the accepting thread wait,
// so what is too much waits in the kernel, which has a limit.
class Pool final : public httplib::TaskQueue {
 public:
  Pool() {
    for (std::size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { work(); });
  }

  void enqueue(std::function<void()> task) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return tasks_.size() < kWaitingMax; });
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }

  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      has_ended_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return has_ended_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      changed_.notify_all();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool has_ended_ = false;
  std::vector<std::thread> threads_;
};

struct HostPort {
  std::string host;
  int port = 0;
};

// Of numbers, as text_of() writes them.
HostPort split(const std::string& text) {
  HostPort result;
  const std::size_t colon = text.rfind(':');
  result.host = text.substr(0, colon);
  if (result.host.starts_with('[')) result.host = result.host.substr(1, result.host.size() - 2);
  std::from_chars(text.data() + colon + 1, text.data() + text.size(), result.port);
  return result;
}

void set_limits(httplib::Server& server) {
  server.new_task_queue = [] { return std::make_unique<Pool>().release(); };  // it deletes it
  server.set_read_timeout(kPatienceSeconds);
  server.set_write_timeout(kPatienceSeconds);
  server.set_keep_alive_timeout(kPatienceSeconds);
  server.set_keep_alive_max_count(1);
  server.set_payload_max_length(kBodySizeMax);
  // The library would share the port with whoever else asks for it.
  server.set_socket_options([](socket_t socket) {
    const int on = 1;
    static_cast<void>(setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
  });
}

}  // namespace

struct HttpServer::Inside {
  httplib::Server server;
  std::string address;
  std::atomic<bool> has_ended{false};
  std::thread thread;
};

Checked<std::unique_ptr<HttpServer>> HttpServer::open(const stream::SocketAddress& address,
                                                      const std::vector<Route>& routes) {
  auto inside = std::make_unique<Inside>();
  set_limits(inside->server);
  for (const Route& route : routes) {
    inside->server.Get(route.path, [page = route.page](const httplib::Request&,
                                                       httplib::Response& response) {
      Page answer = page();
      response.status = answer.status;
      response.set_content(answer.body, answer.type);
    });
  }
  const std::string wanted = text_of(address);
  auto [host, port] = split(wanted);
  errno = 0;
  if (port == 0) {
    port = inside->server.bind_to_any_port(host);
  } else if (!inside->server.bind_to_port(host, port)) {
    port = -1;
  }
  if (port <= 0) {
    const char* const why = errno == 0 ? "the address cannot be bound" : std::strerror(errno);
    return Problem{Code::io, fmt::format("http on {}: {}", wanted, why)};
  }
  inside->address = fmt::format("{}:{}", wanted.substr(0, wanted.rfind(':')), port);
  return std::make_unique<HttpServer>(std::move(inside));
}

HttpServer::HttpServer(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {
  inside_->thread = std::thread([at = inside_.get()] {
    at->server.listen_after_bind();
    at->has_ended = true;
  });
  // A stop before the library's loop has begun would be overlooked.
  while (!inside_->server.is_running() && !inside_->has_ended) std::this_thread::yield();
}

HttpServer::~HttpServer() {
  inside_->server.stop();
  inside_->thread.join();
}

const std::string& HttpServer::address() const { return inside_->address; }

}  // namespace sluice::daemon
