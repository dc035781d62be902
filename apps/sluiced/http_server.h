// A few pages over HTTP, from threads of their own: never in the way of datagrams.
#pragma once

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
  std::function<Page()> page;  // called from any of the server's threads
};

class HttpServer {
  struct Inside;

 public:
  // Bound, and served from here on until the destructor. Two connections are answered at a time and
  // a few wait; one that says nothing is closed after seconds.
  static Checked<std::unique_ptr<HttpServer>> open(const stream::SocketAddress& address,
                                                   const std::vector<Route>& routes);
  explicit HttpServer(std::unique_ptr<Inside> inside);  // for open()
  // Waits for requests that are being answered.
  ~HttpServer();

  // With the port that was given for port 0.
  [[nodiscard]] const std::string& address() const;

 private:
  std::unique_ptr<Inside> inside_;
};

}  // namespace sluice::daemon
