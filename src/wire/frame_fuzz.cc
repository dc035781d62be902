// Any bytes as a datagram, a join, a welcome and a cookie: refused, or written again as the same
// bytes.
#include "wire/frame.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/assert.h"
#include "base/bytes.h"
#include "kernels/checksum/checksum.h"
#include "wire/bodies.h"

namespace {

using namespace sluice;
using Bytes = std::span<const std::byte>;

std::string again;  // Kept, so that its memory is.

void read_join(Bytes payload) {
  const auto join = wire::parse_join(payload);
  if (!join) {
    SLUICE_ASSERT(join.error().code == Code::malformed);
    return;
  }
  wire::write_join(*join, again);
  SLUICE_ASSERT(std::ranges::equal(std::as_bytes(std::span(again)), payload));
}

void read_welcome(Bytes payload) {
  const auto welcome = wire::parse_welcome(payload);
  if (!welcome) {
    SLUICE_ASSERT(welcome.error().code == Code::malformed);
    return;
  }
  wire::write_welcome(*welcome, payload.size(), again);
  SLUICE_ASSERT(std::ranges::equal(std::as_bytes(std::span(again)), payload));
}

void read_cookie(Bytes payload) {
  if (!wire::is_cookie(payload)) return;
  wire::write_cookie(wire::parse_cookie(payload), again);
  SLUICE_ASSERT(std::ranges::equal(std::as_bytes(std::span(again)), payload));
}

void read_refusal(Bytes payload) {
  const void* const text = payload.data();
  const std::string_view why(static_cast<const char*>(text), payload.size());
  wire::write_refusal(why, again);
  SLUICE_ASSERT(!wire::is_refusal(payload) || again == why);
}

void read_frame(Bytes datagram) {
  const auto frame = wire::parse(datagram);
  if (!frame) {
    SLUICE_ASSERT(frame.error().code == Code::malformed);
    return;
  }
  const Bytes payload = frame->payload;
  SLUICE_ASSERT(payload.size() + wire::kHeaderSize == datagram.size());
  // Debug builds do not let a join or welcome out that cannot be read.
  if (frame->header.kind == wire::Kind::join && !wire::parse_join(payload)) return;
  if (frame->header.kind == wire::Kind::welcome && !wire::parse_welcome(payload)) return;
  std::array<std::byte, wire::kHeaderSize> header;
  wire::write_header(frame->header, payload, header);
  SLUICE_ASSERT(std::ranges::equal(header, datagram.first(wire::kHeaderSize)));
}

// What chance does not find: magic, version, length, a table's name and the checksum.
void mend(std::vector<std::byte>& datagram) {
  if (datagram.size() < wire::kHeaderSize || datagram.size() > wire::kFrameSizeMax) return;
  store_le<std::uint16_t>(datagram, 0, 0x4C53);
  store_le<std::uint8_t>(datagram, 2, wire::kVersion);
  store_le<std::uint16_t>(datagram, 4, static_cast<std::uint16_t>(datagram.size()));
  const std::size_t entries = (datagram.size() - wire::kHeaderSize) / 2;
  if (datagram[3] == static_cast<std::byte>(wire::Kind::table) && entries >= 1 && entries <= 256) {
    std::vector<std::uint16_t> table(entries);
    for (std::size_t i = 0; i < entries; ++i) {
      table[i] = load_le<std::uint16_t>(datagram, wire::kHeaderSize + 2 * i);
    }
    store_le<std::uint32_t>(datagram, 28, wire::table_name(table));
  }
  store_le<std::uint32_t>(datagram, 64, 0);
  store_le<std::uint32_t>(datagram, 64, checksum::crc32c(datagram));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const Bytes datagram = std::as_bytes(std::span(bytes, size));
  read_frame(datagram);
  read_join(datagram);
  read_welcome(datagram);
  read_cookie(datagram);
  read_refusal(datagram);
  std::vector<std::byte> mended(datagram.begin(), datagram.end());
  mend(mended);
  read_frame(mended);
  if (mended.size() <= wire::kHeaderSize) return 0;
  const Bytes payload = Bytes(mended).subspan(wire::kHeaderSize);
  read_join(payload);
  read_welcome(payload);
  read_cookie(payload);
  return 0;
}
