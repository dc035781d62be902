// Addresses of UDP sockets, IPv4 and IPv6, and their form in the protocol.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "protocol/outbox.h"

namespace sluice::stream {

inline constexpr std::uint16_t kPortDefault = 48864;

// An address as the kernel takes it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

// "host", "host:port", "[v6]:port". Names are looked up, which may block for long; the first
// address counts. Code::invalid_argument says what is accepted.
Checked<SocketAddress> resolve(std::string_view text, std::uint16_t port_default = kPortDefault);
// The same of "a:1,b:2", and of "a:1-4" for four ports of a host, 64 at most. Never empty.
Checked<std::vector<SocketAddress>> resolve_list(std::string_view text);

// Equal for two peers of one socket if and only if the peers are the same.
protocol::Address to_protocol(const SocketAddress& address);
// Back again, for a socket of this family (AF_INET or AF_INET6). The address came from such a one.
SocketAddress to_socket(const protocol::Address& address, int family);
// As resolve() takes it, in numbers; "unknown" where it is no address.
std::string text_of(const SocketAddress& address);

}  // namespace sluice::stream
