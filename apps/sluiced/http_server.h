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

struct Page {
  int status = 200;
  const char* type = "text/plain; charset=utf-8";
  std::string body;
};

struct Route {
  std::string path;
  std::function<Page()> page;  // called from the server's thread
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
  // waits for another's request or reading, but for the making of pages. Half of the descriptors
  // that the process may have is the limit of connections where that is less.
  static Checked<std::unique_ptr<HttpServer>> open(const stream::SocketAddress& address,
                                                   const std::vector<Route>& routes,
                                                   const HttpLimits& limits = {});
  explicit HttpServer(std::unique_ptr<Inside> inside);  // for open()
  // Closes all connections, whatever they are at.
  ~HttpServer();

  // With the port that was given for port 0.
  [[nodiscard]] const std::string& address() const;

 private:
  std::unique_ptr<Inside> inside_;
};

}  // namespace sluice::daemon
