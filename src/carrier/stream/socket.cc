#include "carrier/stream/socket.h"

#include <fmt/format.h>
#include <netinet/udp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.h"

namespace sluice::stream {
namespace {

constexpr std::size_t kBatch = 64;          // datagrams, or trains of them, per call
constexpr std::size_t kTrainCount = 40;     // datagrams of a train
constexpr std::size_t kTrainSize = 60'000;  // bytes of a train
constexpr std::size_t kControl = 64;        // bytes of control messages per datagram
constexpr int kBufferWanted = 8 << 20;
constexpr int kSegment = 103;        // UDP_SEGMENT, which older headers lack
constexpr int kReceiveTrains = 104;  // UDP_GRO

Problem failed(std::string_view what, int error) {
  return {Code::io, fmt::format("{}: {}", what, std::strerror(error))};
}

const sockaddr* as_sockaddr(const SocketAddress& address) {
  const void* const storage = &address.storage;
  return static_cast<const sockaddr*>(storage);
}

Checked<Socket> open_udp(int family) {
  Socket udp(socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (udp.descriptor() < 0) return failed("socket", errno);
  // More than the system allows is cut to that, or for root, with FORCE, is not.
  for (const int option : {SO_RCVBUF, SO_SNDBUF, SO_RCVBUFFORCE, SO_SNDBUFFORCE}) {
    setsockopt(udp.descriptor(), SOL_SOCKET, option, &kBufferWanted, sizeof kBufferWanted);
  }
  // Datagrams too large for the path are refused here, not cut up on the way: each fragment lost
  // loses all.
  const int discover = IP_PMTUDISC_DO;
  if (family == AF_INET) {
    setsockopt(udp.descriptor(), IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof discover);
  } else {
    setsockopt(udp.descriptor(), IPPROTO_IPV6, IPV6_MTU_DISCOVER, &discover, sizeof discover);
  }
  return udp;
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}

Checked<Socket> open_bound(const SocketAddress& address) {
  SLUICE_TRY_ASSIGN(Socket udp, open_udp(address.storage.ss_family));
  if (bind(udp.descriptor(), as_sockaddr(address), address.size) != 0) {
    return failed(fmt::format("cannot listen on {}", text_of(address)), errno);
  }
  return udp;
}

Checked<Socket> open_connected(const SocketAddress& target) {
  SLUICE_TRY_ASSIGN(Socket udp, open_udp(target.storage.ss_family));
  if (connect(udp.descriptor(), as_sockaddr(target), target.size) != 0) {
    return failed(fmt::format("cannot reach {}", text_of(target)), errno);
  }
  return udp;
}

SocketAddress address_of(const Socket& socket) {
  SocketAddress address;
  address.size = sizeof address.storage;
  void* const storage = &address.storage;
  getsockname(socket.descriptor(), static_cast<sockaddr*>(storage), &address.size);
  return address;
}

std::uint32_t datagram_size(const Socket& socket, const SocketAddress& target) {
  const bool is_v4 = target.storage.ss_family == AF_INET;
  int mtu = 0;
  socklen_t size = sizeof mtu;
  const int code = is_v4 ? getsockopt(socket.descriptor(), IPPROTO_IP, IP_MTU, &mtu, &size)
                         : getsockopt(socket.descriptor(), IPPROTO_IPV6, IPV6_MTU, &mtu, &size);
  if (code != 0) mtu = 1500;
  return static_cast<std::uint32_t>(mtu - (is_v4 ? 28 : 48));
}

std::size_t receive_buffer_size(const Socket& socket) {
  int value = 0;
  socklen_t size = sizeof value;
  getsockopt(socket.descriptor(), SOL_SOCKET, SO_RCVBUF, &value, &size);
  return static_cast<std::size_t>(std::max(value, 0));
}

// --- receiving ---

Receiver::Receiver(const Socket& socket, std::size_t datagram_max)
    : descriptor_(socket.descriptor()),
      addresses_(kBatch),
      vectors_(kBatch),
      messages_(kBatch),
      control_(kBatch * kControl) {
  const int on = 1;
  const bool trains = setsockopt(descriptor_, IPPROTO_UDP, kReceiveTrains, &on, sizeof on) == 0;
  room_ = trains ? 65536 : datagram_max;
  memory_ = AlignedBuffer(kBatch * room_);
}

namespace {

// The size of the datagrams that a train is made of; 0: it is none.
std::size_t segment_of(msghdr& header) {
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr;
       control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level == IPPROTO_UDP && control->cmsg_type == kReceiveTrains) {
      int size = 0;
      std::memcpy(&size, CMSG_DATA(control), sizeof size);
      return static_cast<std::size_t>(std::max(size, 0));
    }
  }
  return 0;
}

}  // namespace

Result<std::span<const Received>> Receiver::receive() {
  for (std::size_t i = 0; i < kBatch; ++i) {
    vectors_[i] = {memory_.bytes().data() + i * room_, room_};
    msghdr& header = messages_[i].msg_hdr;
    header = {};
    header.msg_name = &addresses_[i].storage;
    header.msg_namelen = sizeof addresses_[i].storage;
    header.msg_iov = &vectors_[i];
    header.msg_iovlen = 1;
    header.msg_control = control_.bytes().data() + i * kControl;
    header.msg_controllen = kControl;
  }
  received_.clear();
  const int count = recvmmsg(descriptor_, messages_.data(), kBatch, MSG_DONTWAIT, nullptr);
  if (count < 0) {
    refused_ |= errno == ECONNREFUSED;
    // Refused: nobody listens there yet, or no longer. The protocol's timers deal with that.
    if (errno == EAGAIN || errno == EINTR || errno == ECONNREFUSED) {
      return std::span<const Received>();
    }
    return Error{Code::io, errno, "stream: receiving"};
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    addresses_[i].size = messages_[i].msg_hdr.msg_namelen;
    std::span<const std::byte> bytes =
        std::as_const(memory_).bytes().subspan(i * room_, messages_[i].msg_len);
    const std::size_t segment = segment_of(messages_[i].msg_hdr);
    while (segment != 0 && bytes.size() > segment) {
      received_.push_back({bytes.first(segment), &addresses_[i]});
      bytes = bytes.subspan(segment);
    }
    received_.push_back({bytes, &addresses_[i]});
  }
  return std::span<const Received>(received_);
}

// --- sending ---

namespace {

// Tells the kernel to cut the message into datagrams of this size.
void cut_into(msghdr& header, std::span<std::byte> control, std::size_t size) {
  SLUICE_ASSERT(control.size() >= CMSG_SPACE(sizeof(std::uint16_t)));
  std::memset(control.data(), 0, control.size());
  header.msg_control = control.data();
  header.msg_controllen = CMSG_SPACE(sizeof(std::uint16_t));
  cmsghdr* const message = CMSG_FIRSTHDR(&header);
  message->cmsg_level = IPPROTO_UDP;
  message->cmsg_type = kSegment;
  message->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
  const auto segment = static_cast<std::uint16_t>(size);
  std::memcpy(CMSG_DATA(message), &segment, sizeof segment);
}

}  // namespace

Sender::Sender(const Socket& socket)
    : descriptor_(socket.descriptor()), control_(kBatch * kControl) {
  int value = 0;
  socklen_t size = sizeof value;
  segments_ = getsockopt(descriptor_, IPPROTO_UDP, kSegment, &value, &size) == 0;
}

void Sender::add(std::span<const std::byte> header, std::span<const std::byte> payload,
                 const SocketAddress* to) {
  entries_.push_back({header, payload, to});
}

// Datagrams to the same target, all of one size but the last, which may be smaller.
std::size_t Sender::train_at(std::size_t first) const {
  if (!segments_) return 1;
  const auto size_of = [&](std::size_t i) {
    return entries_[i].header.size() + entries_[i].payload.size();
  };
  const std::size_t size = size_of(first);
  std::size_t count = 1;
  while (first + count < entries_.size() && count < kTrainCount &&
         (count + 1) * size <= kTrainSize) {
    const std::size_t next = first + count;
    if (entries_[next].to != entries_[first].to || size_of(next) > size) break;
    ++count;
    if (size_of(next) < size) break;
  }
  return count;
}

void Sender::lay_out() {
  vectors_.clear();
  messages_.clear();
  // Reserved, since messages point into it.
  vectors_.reserve(2 * entries_.size());
  grow(control_, entries_.size() * kControl);
  for (std::size_t first = 0; first < entries_.size();) {
    const std::size_t count = train_at(first);
    mmsghdr message{};
    msghdr& header = message.msg_hdr;
    header.msg_iov = vectors_.data() + vectors_.size();
    for (std::size_t i = first; i < first + count; ++i) {
      for (const auto bytes : {entries_[i].header, entries_[i].payload}) {
        if (bytes.empty()) continue;
        vectors_.push_back({const_cast<std::byte*>(bytes.data()), bytes.size()});
        ++header.msg_iovlen;
      }
    }
    if (const SocketAddress* to = entries_[first].to; to != nullptr) {
      header.msg_name = const_cast<sockaddr_storage*>(&to->storage);
      header.msg_namelen = to->size;
    }
    if (count > 1) {
      cut_into(header, control_.bytes().subspan(messages_.size() * kControl, kControl),
               entries_[first].header.size() + entries_[first].payload.size());
    }
    messages_.push_back(message);
    first += count;
  }
}

std::size_t Sender::flush() {
  std::size_t sent = 0;
  lay_out();
  for (std::size_t first = 0; first < messages_.size();) {
    const auto count = static_cast<unsigned>(std::min(kBatch, messages_.size() - first));
    const int taken = sendmmsg(descriptor_, messages_.data() + first, count, 0);
    if (taken <= 0) {
      if (errno == EINTR) continue;
      // No room, nobody there, too large: the datagram is lost, and the protocol sends it again.
      ++first;
      continue;
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(taken); ++i) {
      sent += messages_[first + i].msg_len;
    }
    first += static_cast<std::size_t>(taken);
  }
  entries_.clear();
  return sent;
}

}  // namespace sluice::stream
