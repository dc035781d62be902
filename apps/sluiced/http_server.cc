#include "http_server.h"

#include <fmt/format.h>
#include <malloc.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <string_view>
#include <thread>
#include <utility>

#include "http_connection.h"

namespace sluice::daemon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kAcceptedMax = 64;  // per turn, and no more than a quarter of all
constexpr std::size_t kMany = 64;         // connections at a time that leave memory worth returning
constexpr int kSendBuffer = 128 << 10;    // bytes of the kernel's memory per connection
constexpr int kReceiveBuffer = 16 << 10;
constexpr std::chrono::milliseconds kPause{100};  // after the kernel had no descriptor to give

std::string_view reason_of(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    default: return "Unknown";
  }
}

std::string head_of(const Page& page) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n",
      page.status, reason_of(page.status), page.type, page.body.size(),
      page.status == 405 ? "Allow: GET, HEAD\r\n" : "");
}

Page refusal_page(int status) {
  return {.status = status, .body = fmt::format("{} {}\n", status, reason_of(status))};
}

std::size_t connections_max(const HttpLimits& limits) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return limits.connections;
  return std::clamp<std::size_t>(files.rlim_cur / 2, 1, limits.connections);
}

Checked<stream::Socket> listen_on(const stream::SocketAddress& address) {
  stream::Socket tcp(
      socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  const int descriptor = tcp.descriptor();
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
  setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof kReceiveBuffer);
  const void* const storage = &address.storage;
  if (descriptor < 0 ||
      bind(descriptor, static_cast<const sockaddr*>(storage), address.size) != 0 ||
      listen(descriptor, SOMAXCONN) != 0) {
    return Problem{Code::io, fmt::format("http on {}: {}", text_of(address), std::strerror(errno))};
  }
  return tcp;
}

}  // namespace

struct HttpServer::Inside {
  stream::Socket listener;
  stream::Socket end;
  std::vector<Route> routes;
  HttpLimits limits;
  std::string address;
  std::thread thread;

  std::vector<HttpConnection> connections;  // the oldest first
  Clock::time_point accept_next;            // not before
  bool had_many = false;

  using Pages = std::map<std::string_view, HttpAnswer>;  // of one turn: made once, however many ask

  void serve() {
    std::vector<pollfd> waiting;
    while (true) {
      wait(waiting);
      if (waiting[1].revents != 0) return;
      Pages pages;
      for (std::size_t i = 0; i < connections.size(); ++i) {
        if (waiting[i + 2].revents == 0) continue;
        if (const auto request = connections[i].go_on()) {
          connections[i].answer(answer_to(*request, pages), Clock::now() + limits.patience);
        }
      }
      tidy();
      if (waiting[0].revents != 0) accept_some();
    }
  }

  void wait(std::vector<pollfd>& waiting) const {
    const Clock::time_point now = Clock::now();
    const bool accepts = now >= accept_next;
    Clock::time_point deadline = accepts ? Clock::time_point::max() : accept_next;
    waiting.assign({pollfd{accepts ? listener.descriptor() : -1, POLLIN, 0},
                    pollfd{end.descriptor(), POLLIN, 0}});
    for (const HttpConnection& connection : connections) {
      waiting.push_back({connection.descriptor(), connection.events(), 0});
      deadline = std::min(deadline, connection.deadline());
    }
    int patience_ms = -1;
    if (deadline != Clock::time_point::max()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
      patience_ms = static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
    }
    if (poll(waiting.data(), waiting.size(), patience_ms) < 0) {
      for (pollfd& one : waiting) one.revents = 0;  // interrupted
    }
  }

  HttpAnswer answer_to(const Request& request, Pages& pages) const {
    const auto found = std::ranges::find(routes, request.path, &Route::path);
    int status = request.refusal;
    if (status == 0 && found == routes.end()) status = 404;
    if (status != 0) {
      const Page page = refusal_page(status);
      return {head_of(page), std::make_shared<const std::string>(request.is_head ? "" : page.body)};
    }
    HttpAnswer& answer = pages[found->path];
    if (answer.body == nullptr) {
      Page page = found->page();
      answer.head = head_of(page);
      answer.body = std::make_shared<const std::string>(std::move(page.body));
    }
    return {answer.head, request.is_head ? std::make_shared<const std::string>() : answer.body};
  }

  // Ends what is over or too late, and the oldest where too much waits to be read. The last one
  // stays: a page may be larger than the limit.
  void tidy() {
    const Clock::time_point now = Clock::now();
    std::size_t waiting = 0;
    for (const HttpConnection& connection : connections) waiting += connection.waiting();
    std::erase_if(connections, [&](const HttpConnection& connection) {
      const std::size_t own = connection.waiting();
      const bool is_too_much = waiting > limits.answers && own > 0 && own < waiting;
      if (is_too_much) waiting -= own;
      return is_too_much || connection.is_over() || now >= connection.deadline();
    });
    had_many |= connections.size() >= kMany;
    if (had_many && connections.empty()) {
      had_many = false;
      malloc_trim(0);
    }
  }

  void accept_some() {
    // Those that came in one turn are still there in the next, and can ask.
    const std::size_t count = std::min(kAcceptedMax, limits.connections / 4 + 1);
    for (std::size_t i = 0; i < count; ++i) {
      stream::Socket socket(
          accept4(listener.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (socket.descriptor() < 0) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno != EAGAIN) accept_next = Clock::now() + kPause;
        return;
      }
      if (connections.size() >= limits.connections) connections.erase(connections.begin());
      connections.emplace_back(std::move(socket), Clock::now() + limits.patience);
    }
  }
};

Checked<std::unique_ptr<HttpServer>> HttpServer::open(const stream::SocketAddress& address,
                                                      const std::vector<Route>& routes,
                                                      const HttpLimits& limits) {
  auto inside = std::make_unique<Inside>();
  SLUICE_TRY_ASSIGN(inside->listener, listen_on(address));
  inside->end = stream::Socket(eventfd(0, EFD_CLOEXEC));
  if (inside->end.descriptor() < 0) {
    return Problem{Code::io, fmt::format("http on {}: {}", text_of(address), std::strerror(errno))};
  }
  inside->routes = routes;
  inside->limits = limits;
  inside->limits.connections = connections_max(limits);
  inside->address = text_of(address_of(inside->listener));
  return std::make_unique<HttpServer>(std::move(inside));
}

HttpServer::HttpServer(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {
  inside_->thread = std::thread([at = inside_.get()] { at->serve(); });
}

HttpServer::~HttpServer() {
  const std::uint64_t one = 1;
  static_cast<void>(!write(inside_->end.descriptor(), &one, sizeof one));
  inside_->thread.join();
}

const std::string& HttpServer::address() const { return inside_->address; }

}  // namespace sluice::daemon
