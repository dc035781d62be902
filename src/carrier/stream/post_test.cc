#include "carrier/stream/post.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace sluice::stream {
namespace {

Socket bound(const char* where) {
  auto socket = open_bound(*resolve(where));
  EXPECT_TRUE(socket.has_value());
  return *std::move(socket);
}

protocol::Address name_of(const Socket& socket) { return to_protocol(address_of(socket)); }

std::string port_of(const Socket& socket) {
  const std::string text = text_of(address_of(socket));
  return text.substr(text.rfind(':') + 1);
}

// A frame that says its number; `more` bytes behind.
void send(Post& post, std::span<const protocol::Address> to, std::uint32_t number,
          std::size_t more = 0) {
  std::array<std::byte, wire::kHeaderSize> header{};
  store_le<std::uint32_t>(header, 0, number);
  post.send(to, header, std::vector<std::byte>(more, std::byte{7}));
}

// The numbers of the frames that have come. Datagrams on this machine are there once sent.
std::vector<std::uint32_t> numbers(const Socket& socket) {
  Receiver receiver(socket, 2000);
  std::vector<std::uint32_t> result;
  while (true) {
    const auto received = receiver.receive();
    EXPECT_TRUE(received.has_value());
    if (!received || received->empty()) return result;
    for (const Received& one : *received) result.push_back(load_le<std::uint32_t>(one.bytes, 0));
  }
}

using Numbers = std::vector<std::uint32_t>;

TEST(Post, EveryTargetGetsItsFramesInTheirOrder) {
  const Socket from = bound("127.0.0.1:0");
  const Socket a = bound("127.0.0.1:0");
  const Socket b = bound("127.0.0.1:0");
  Post post(from);
  const std::array both{name_of(a), name_of(b)};
  for (std::uint32_t batch = 0; batch < 3; ++batch) {
    send(post, both, 1);
    send(post, std::span(both).first(1), 2, 100);
    send(post, std::span(both).last(1), 3, 50);
    send(post, both, 4);
    EXPECT_EQ(numbers(a), Numbers{}) << "sent before the batch has ended";
    post.flush();
    EXPECT_EQ(numbers(a), (Numbers{1, 2, 4}));
    EXPECT_EQ(numbers(b), (Numbers{1, 3, 4}));
  }
  post.flush();
  EXPECT_EQ(numbers(a), Numbers{});
}

TEST(Post, SomebodyWhoHasNotSpokenInThisBatchIsReached) {
  // Nobody is ever forgotten, however many others there were.
  const Socket from = bound("127.0.0.1:0");
  const Socket member = bound("127.0.0.1:0");
  Post post(from);
  const protocol::Address to = name_of(member);
  for (std::uint32_t number = 0; number < 5; ++number) {
    for (std::uint32_t i = 0; i < 2000; ++i) {
      // Of nobody: the port 0 cannot be sent to.
      const protocol::Address other{.low = 0x100007f + (i << 16), .scope = to.scope};
      send(post, std::span(&other, 1), 9);
      if (i == 1000) send(post, std::span(&to, 1), 2 * number);
    }
    send(post, std::span(&to, 1), 2 * number + 1);
    post.flush();
  }
  EXPECT_EQ(numbers(member), (Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(Post, PeersOfBothKindsOfAddressesAreReached) {
  auto from = open_bound(*resolve("[::]:0"));
  if (!from) GTEST_SKIP() << "no IPv6 here: " << from.error().message;
  const Socket v4 = bound("127.0.0.1:0");
  // As a socket of IPv6 sees a peer of IPv4.
  const protocol::Address to = to_protocol(*resolve("[::ffff:127.0.0.1]:" + port_of(v4)));
  Post post(*from);
  send(post, std::span(&to, 1), 5);
  post.flush();
  EXPECT_EQ(numbers(v4), Numbers{5});
}

}  // namespace
}  // namespace sluice::stream
