#include "carrier/stream/address.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

namespace sluice::stream {
namespace {

std::string canonical(std::string_view text) {
  const auto address = resolve(text);
  EXPECT_TRUE(address.has_value()) << text;
  return address ? text_of(*address) : "";
}

TEST(Address, HostAndPortInEveryForm) {
  EXPECT_EQ(canonical("127.0.0.1"), "127.0.0.1:48864");
  EXPECT_EQ(canonical("127.0.0.1:0"), "127.0.0.1:0");
  EXPECT_EQ(canonical("10.77.0.101:65535"), "10.77.0.101:65535");
  EXPECT_EQ(canonical("::1"), "[::1]:48864");
  EXPECT_EQ(canonical("[::1]"), "[::1]:48864");
  EXPECT_EQ(canonical("[fe80::2]:9"), "[fe80::2]:9");
}

TEST(Address, BadOnesAreRefusedWithTheirTextAndWhatIsAccepted) {
  for (const std::string text : {"", ":1", "127.0.0.1:65536", "127.0.0.1:x", "127.0.0.1:1x", "[::1",
                                 "[::1]7", "[]:1", "no such host.invalid:1", "127.0.0.1:-1"}) {
    const auto address = resolve(text);
    ASSERT_FALSE(address.has_value()) << text;
    EXPECT_EQ(address.error().code, Code::invalid_argument);
    EXPECT_NE(address.error().message.find("'" + text + "'"), std::string::npos);
    EXPECT_NE(address.error().message.find("accepted: host"), std::string::npos);
  }
}

TEST(Address, ListsAreSeparatedByCommas) {
  const auto list = resolve_list("127.0.0.1:1,127.0.0.1:2,[::1]:3");
  ASSERT_TRUE(list.has_value());
  ASSERT_EQ(list->size(), 3u);
  EXPECT_EQ(text_of((*list)[1]), "127.0.0.1:2");
  EXPECT_EQ(text_of((*list)[2]), "[::1]:3");
  EXPECT_FALSE(resolve_list("").has_value());
  EXPECT_FALSE(resolve_list("127.0.0.1:1,").has_value());
}

TEST(Address, ARangeOfPortsIsAListOfThem) {
  const auto list = resolve_list("127.0.0.1:9-11,[::1]:7-7");
  ASSERT_TRUE(list.has_value());
  ASSERT_EQ(list->size(), 4u);
  EXPECT_EQ(text_of((*list)[0]), "127.0.0.1:9");
  EXPECT_EQ(text_of((*list)[2]), "127.0.0.1:11");
  EXPECT_EQ(text_of((*list)[3]), "[::1]:7");
  for (const std::string text : {"127.0.0.1:9-", "127.0.0.1:-9", "127.0.0.1:9-8", "127.0.0.1:0-3",
                                 "127.0.0.1:1-65", "127.0.0.1:65530-65536", "127.0.0.1:1-2-3"}) {
    const auto refused = resolve_list(text);
    ASSERT_FALSE(refused.has_value()) << text;
    EXPECT_NE(refused.error().message.find("'" + text + "'"), std::string::npos);
  }
  EXPECT_FALSE(resolve("127.0.0.1:9-11").has_value()) << "one address is wanted";
}

TEST(Address, TheProtocolTellsThemApart) {
  const std::array texts{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.2:1", "[::1]:1", "[::2]:1"};
  for (const char* a : texts) {
    for (const char* b : texts) {
      const bool same = to_protocol(*resolve(a)) == to_protocol(*resolve(b));
      EXPECT_EQ(same, std::string_view(a) == b) << a << " " << b;
    }
  }
}

SocketAddress v6_of(std::string_view text, std::uint32_t scope) {
  SocketAddress address = *resolve(text);
  sockaddr_in6 v6{};
  std::memcpy(&v6, &address.storage, sizeof v6);
  v6.sin6_scope_id = scope;
  std::memcpy(&address.storage, &v6, sizeof v6);
  return address;
}

TEST(Address, TheProtocolsFormGoesBackToTheKernels) {
  // The last is how a socket of IPv6 sees a peer of IPv4.
  for (const SocketAddress& address :
       {*resolve("0.0.0.0:0"), *resolve("127.0.0.1:1"), *resolve("255.254.253.1:65535"),
        *resolve("[::1]:1"), *resolve("[2001:db8:1:2:3:4:5:6]:48864"), v6_of("[fe80::2]:9", 7),
        v6_of("[fe80::2]:9", 0xffffffff), *resolve("[::ffff:10.1.2.3]:80")}) {
    const SocketAddress back = to_socket(to_protocol(address), address.storage.ss_family);
    EXPECT_EQ(back.size, address.size);
    EXPECT_EQ(std::memcmp(&back.storage, &address.storage, sizeof back.storage), 0)
        << text_of(address) << " became " << text_of(back);
  }
}

TEST(Address, TheSameHostIsTheSameNumberInBothFamilies) {
  const protocol::Address v4 = to_protocol(*resolve("10.1.2.3:80"));
  EXPECT_EQ(v4.high, 0u);
  EXPECT_EQ(v4.low, 0x0000ffff'0a010203u);
  EXPECT_EQ(v4, to_protocol(*resolve("[::ffff:10.1.2.3]:80")));
  EXPECT_EQ(to_protocol(*resolve("[2001:db8::1]:80")).high, 0x20010db8'00000000u);
}

}  // namespace
}  // namespace sluice::stream
