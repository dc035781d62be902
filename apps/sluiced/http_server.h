// A few pages over HTTP, from a thread of their own: never in the way of datagrams.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "carrier/stream/address.h"

namespace sluice::daemon {

// What a request is answered with. The type lives as long as the program.
struct Page {
  int status = 200;
  const char* type = "text/plain; charset=utf-8";
  std::string body;
};

struct Route {
  std::string path;
  std::function<Page()> page;  // called on the server's thread; must not throw
};

// What strangers may take.
struct HttpLimits {
  std::size_t connections = 1280;   // the oldest goes when one more comes
  std::size_t answers = 64u << 20;  // bytes that wait to be read; the oldest goes when it is more
  std::chrono::milliseconds patience{2000};  // to ask, and again to take the answer
};

class HttpServer {
  struct Inside;

 public:
  // Bound, and served from here on until the destructor. A connection is for one request. Nobody
  // waits for another's request or reading, but for the making of pages. Connections are limited to
  // half of the descriptors that the process may have, too. What pages refer to outlives the
  // server. Code::io names the address and the system's reason.
  static Checked<std::unique_ptr<HttpServer>> open(const stream::SocketAddress& address,
                                                   const std::vector<Route>& routes,
                                                   const HttpLimits& limits = {});
  explicit HttpServer(std::unique_ptr<Inside> inside);  // for open()
  // Closes all connections, whatever they are at. Waits for a page that is being made.
  ~HttpServer();

  // With the port that was given for port 0. Any thread.
  [[nodiscard]] const std::string& address() const;

 private:
  std::unique_ptr<Inside> inside_;
};

}  // namespace sluice::daemon
