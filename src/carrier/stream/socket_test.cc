#include "carrier/stream/socket.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace sluice::stream {
namespace {

using Bytes = std::vector<std::byte>;

Bytes numbered(std::size_t size, unsigned number) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + number);
  return bytes;
}

// What arrives until so many are there; the senders are done, so nothing is waited for in vain.
std::vector<Bytes> receive_all(const Socket& socket, Receiver& receiver, std::size_t count,
                               std::vector<protocol::Address>* from = nullptr) {
  std::vector<Bytes> all;
  while (all.size() < count) {
    pollfd waiting{socket.descriptor(), POLLIN, 0};
    if (poll(&waiting, 1, 10'000) <= 0) break;
    const auto received = receiver.receive();
    EXPECT_TRUE(received.has_value());
    for (const Received& one : *received) {
      all.emplace_back(one.bytes.begin(), one.bytes.end());
      if (from != nullptr) from->push_back(to_protocol(*one.from));
    }
  }
  return all;
}

class Sockets : public ::testing::TestWithParam<const char*> {
 protected:
  Sockets()
      : bound(std::move(*open_bound(*resolve(GetParam())))),
        connected(std::move(*open_connected(address_of(bound)))) {}
  Socket bound;
  Socket connected;
};

TEST_P(Sockets, TrainsOfEverySizeArriveAsTheDatagramsTheyWere) {
  Receiver receiver(bound, 9000);
  Sender sender(connected);
  std::vector<Bytes> sent;
  for (unsigned i = 0; i < 300; ++i) {
    const std::size_t size = i < 100 ? 1472 : i % 3 == 0 ? 80 + i : 1000;
    sent.push_back(numbered(size, i));
  }
  for (const Bytes& one : sent) {
    const std::span<const std::byte> bytes(one);
    sender.add(bytes.first(80), bytes.subspan(80), nullptr);
  }
  const std::size_t total =
      std::accumulate(sent.begin(), sent.end(), std::size_t{0},
                      [](std::size_t sum, const Bytes& one) { return sum + one.size(); });
  EXPECT_EQ(sender.flush(), total);
  EXPECT_EQ(sender.count(), 0u);
  EXPECT_EQ(receive_all(bound, receiver, sent.size()), sent);
}

TEST_P(Sockets, AnswersGoToWhomeverTheyAreFor) {
  Socket other = std::move(*open_connected(address_of(bound)));
  Receiver receiver(bound, 9000);
  for (const Socket* socket : {&connected, &other}) {
    Sender sender(*socket);
    const Bytes hello = numbered(100, 1);
    sender.add(hello, {}, nullptr);
    EXPECT_EQ(sender.flush(), 100u);
  }
  std::vector<protocol::Address> from;
  ASSERT_EQ(receive_all(bound, receiver, 2, &from).size(), 2u);
  EXPECT_EQ(from[0], to_protocol(address_of(connected)));
  EXPECT_EQ(from[1], to_protocol(address_of(other)));

  Sender sender(bound);
  const SocketAddress first = address_of(connected);
  const SocketAddress second = address_of(other);
  const std::vector<Bytes> sent{numbered(200, 3), numbered(200, 4), numbered(300, 5)};
  sender.add(sent[0], {}, &first);
  sender.add(sent[1], {}, &first);
  sender.add(sent[2], {}, &second);
  EXPECT_EQ(sender.flush(), 700u);
  Receiver at_first(connected, 9000);
  Receiver at_second(other, 9000);
  EXPECT_EQ(receive_all(connected, at_first, 2), (std::vector<Bytes>{sent[0], sent[1]}));
  EXPECT_EQ(receive_all(other, at_second, 1), std::vector<Bytes>{sent[2]});
}

TEST_P(Sockets, NothingThereIsNoError) {
  Receiver receiver(bound, 9000);
  const auto received = receiver.receive();
  ASSERT_TRUE(received.has_value());
  EXPECT_TRUE(received->empty());
}

TEST_P(Sockets, NobodyThereIsNoErrorEither) {
  const SocketAddress gone = address_of(bound);
  { const Socket closes = std::move(bound); }
  Sender sender(connected);
  const Bytes bytes = numbered(100, 1);
  for (int i = 0; i < 3; ++i) {
    sender.add(bytes, {}, nullptr);
    sender.flush();
    Receiver receiver(connected, 9000);
    EXPECT_TRUE(receiver.receive().has_value());
  }
  // And whoever comes back there is heard.
  const Socket back = std::move(*open_bound(gone));
  Receiver receiver(back, 9000);
  sender.add(bytes, {}, nullptr);
  if (sender.flush() == 0) {  // the error of the last one was still waiting
    sender.add(bytes, {}, nullptr);
    EXPECT_EQ(sender.flush(), 100u);
  }
  EXPECT_EQ(receive_all(back, receiver, 1), std::vector<Bytes>{bytes});
}

TEST_P(Sockets, SizesAreThoseOfThePath) {
  EXPECT_GE(datagram_size(connected, address_of(bound)), 1232u);
  EXPECT_GT(receive_buffer_size(bound), 100'000u);
}

INSTANTIATE_TEST_SUITE_P(Families, Sockets, ::testing::Values("127.0.0.1:0", "[::1]:0"));

TEST(Sockets, AnAddressInUseIsNamed) {
  const Socket first = std::move(*open_bound(*resolve("127.0.0.1:0")));
  const auto second = open_bound(address_of(first));
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Code::io);
  EXPECT_NE(second.error().message.find(text_of(address_of(first))), std::string::npos);
}

}  // namespace
}  // namespace sluice::stream
