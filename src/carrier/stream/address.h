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

// "host", "host:port", "[v6]:port"; names are looked up.
Checked<SocketAddress> resolve(std::string_view text, std::uint16_t port_default = kPortDefault);
// "a:1,b:2", and "a:1-4" for four ports of a host: at least one.
Checked<std::vector<SocketAddress>> resolve_list(std::string_view text);

// Two addresses of one socket's peers are alike where the peers are.
protocol::Address to_protocol(const SocketAddress& address);
// Back again, for a socket of this family (AF_INET or AF_INET6), as the address came from one.
SocketAddress to_socket(const protocol::Address& address, int family);
std::string text_of(const SocketAddress& address);

}  // namespace sluice::stream
