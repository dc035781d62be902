#include "carrier/stream/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <memory>

namespace sluice::stream {
namespace {

Problem refused(std::string_view text, std::string_view why) {
  return {Code::invalid_argument,
          fmt::format("address '{}': {}; accepted: host, host:port or [IPv6]:port", text, why)};
}

struct Split {
  std::string host;
  std::string_view port;
};

Checked<Split> split(std::string_view text) {
  if (!text.empty() && text.front() == '[') {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return refused(text, "no ] behind [");
    const std::string_view rest = text.substr(end + 1);
    if (!rest.empty() && rest.front() != ':') return refused(text, "no : behind ]");
    return Split{std::string(text.substr(1, end - 1)), rest.empty() ? rest : rest.substr(1)};
  }
  const std::size_t colon = text.find(':');
  // More than one colon is an IPv6 address without a port.
  if (colon == std::string_view::npos || text.find(':', colon + 1) != std::string_view::npos) {
    return Split{std::string(text), {}};
  }
  return Split{std::string(text.substr(0, colon)), text.substr(colon + 1)};
}

}  // namespace

Checked<SocketAddress> resolve(std::string_view text, std::uint16_t port_default) {
  SLUICE_TRY_ASSIGN(const Split parts, split(text));
  if (parts.host.empty()) return refused(text, "no host");
  unsigned port = port_default;
  if (!parts.port.empty()) {
    const auto [end, error] =
        std::from_chars(parts.port.data(), parts.port.data() + parts.port.size(), port);
    if (error != std::errc() || end != parts.port.data() + parts.port.size() || port > 65535) {
      return refused(text, fmt::format("port '{}' is not 0 to 65535", parts.port));
    }
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const std::string service = fmt::format("{}", port);
  if (const int code = getaddrinfo(parts.host.c_str(), service.c_str(), &hints, &found);
      code != 0) {
    return refused(text, gai_strerror(code));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  SocketAddress address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  return address;
}

Checked<std::vector<SocketAddress>> resolve_list(std::string_view text) {
  std::vector<SocketAddress> addresses;
  while (true) {
    const std::size_t comma = text.find(',');
    SLUICE_TRY_ASSIGN(const SocketAddress address, resolve(text.substr(0, comma)));
    addresses.push_back(address);
    if (comma == std::string_view::npos) return addresses;
    text = text.substr(comma + 1);
  }
}

protocol::Address to_protocol(const SocketAddress& address) {
  protocol::Address result;
  if (address.storage.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address.storage, sizeof v4);
    result.low = v4.sin_addr.s_addr;
    result.port = v4.sin_port;
    result.scope = AF_INET;
    return result;
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, &address.storage, sizeof v6);
  std::memcpy(&result.high, v6.sin6_addr.s6_addr, 8);
  std::memcpy(&result.low, v6.sin6_addr.s6_addr + 8, 8);
  result.port = v6.sin6_port;
  result.scope = v6.sin6_scope_id;
  return result;
}

std::string text_of(const SocketAddress& address) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  const void* const storage = &address.storage;
  if (getnameinfo(static_cast<const sockaddr*>(storage), address.size, host.data(), host.size(),
                  port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "unknown";
  }
  const bool is_v6 = address.storage.ss_family == AF_INET6;
  return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", host.data(), is_v6 ? "]" : "", port.data());
}

}  // namespace sluice::stream
