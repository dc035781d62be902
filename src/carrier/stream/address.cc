#include "carrier/stream/address.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fmt/format.h>
#include <netdb.h>

#include <array>
#include <charconv>
#include <cstring>
#include <memory>

namespace sluice::stream {
namespace {

constexpr unsigned kRangeMax = 64;  // ports

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

Checked<unsigned> port_of(std::string_view text, std::string_view digits) {
  unsigned port = 0;
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, port);
  if (parsed.ec != std::errc() || parsed.ptr != end || port > 65535) {
    return refused(text, fmt::format("port '{}' is not 0 to 65535", digits));
  }
  return port;
}

// One, or those of a range of ports.
Verdict resolve_range(std::string_view text, std::vector<SocketAddress>& into) {
  SLUICE_TRY_ASSIGN(const Split parts, split(text));
  const std::size_t dash = parts.port.find('-');
  if (dash == std::string_view::npos) {
    SLUICE_TRY_ASSIGN(const SocketAddress address, resolve(text));
    into.push_back(address);
    return Nothing{};
  }
  SLUICE_TRY_ASSIGN(const unsigned first, port_of(text, parts.port.substr(0, dash)));
  SLUICE_TRY_ASSIGN(const unsigned last, port_of(text, parts.port.substr(dash + 1)));
  if (first == 0 || last < first || last - first >= kRangeMax) {
    return refused(
        text, fmt::format("ports {} to {} are not 1 to {} that count up", first, last, kRangeMax));
  }
  const std::string_view host = text.substr(0, text.size() - parts.port.size());
  for (unsigned port = first; port <= last; ++port) {
    SLUICE_TRY_ASSIGN(const SocketAddress address, resolve(fmt::format("{}{}", host, port)));
    into.push_back(address);
  }
  return Nothing{};
}

}  // namespace

Checked<SocketAddress> resolve(std::string_view text, std::uint16_t port_default) {
  SLUICE_TRY_ASSIGN(const Split parts, split(text));
  if (parts.host.empty()) return refused(text, "no host");
  unsigned port = port_default;
  if (!parts.port.empty()) {
    SLUICE_TRY_ASSIGN(port, port_of(text, parts.port));
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
    SLUICE_TRY(resolve_range(text.substr(0, comma), addresses));
    if (comma == std::string_view::npos) return addresses;
    text = text.substr(comma + 1);
  }
}

namespace {

constexpr std::uint64_t kMappedIpv4 = 0xffff;  // ::ffff:0:0/96

}  // namespace

protocol::Address to_protocol(const SocketAddress& address) {
  protocol::Address result;
  if (address.storage.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address.storage, sizeof v4);
    result.low = kMappedIpv4 << 32 | be32toh(v4.sin_addr.s_addr);
    result.port = v4.sin_port;
    return result;
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, &address.storage, sizeof v6);
  std::memcpy(&result.high, v6.sin6_addr.s6_addr, 8);
  std::memcpy(&result.low, v6.sin6_addr.s6_addr + 8, 8);
  result.high = be64toh(result.high);
  result.low = be64toh(result.low);
  result.port = v6.sin6_port;
  result.scope = v6.sin6_scope_id;
  return result;
}

SocketAddress to_socket(const protocol::Address& address, int family) {
  SocketAddress result;
  if (family == AF_INET) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = static_cast<in_port_t>(address.port);
    v4.sin_addr.s_addr = htobe32(static_cast<std::uint32_t>(address.low));
    std::memcpy(&result.storage, &v4, sizeof v4);
    result.size = sizeof v4;
    return result;
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = static_cast<in_port_t>(address.port);
  const std::array<std::uint64_t, 2> words{htobe64(address.high), htobe64(address.low)};
  std::memcpy(v6.sin6_addr.s6_addr, words.data(), sizeof words);
  v6.sin6_scope_id = address.scope;
  std::memcpy(&result.storage, &v6, sizeof v6);
  result.size = sizeof v6;
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
