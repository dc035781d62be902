#include "wire/frame.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/limits.h"
#include "base/random.h"
#include "kernels/checksum/checksum.h"
#include "wire/bodies.h"

namespace sluice::wire {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint16_t kMagic = 0x4c53;  // "SL" as bytes
constexpr std::size_t kTagSize = 16;
constexpr std::size_t kChecksumSize = 4;

// Where the fields lie: the table of docs/wire-format.md.
constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kVersionAt = 2;
constexpr std::size_t kKindAt = 3;
constexpr std::size_t kLengthAt = 4;
constexpr std::size_t kFlagsAt = 6;
constexpr std::size_t kContributorsAt = 7;
constexpr std::size_t kJobAt = 8;
constexpr std::size_t kEpochAt = 16;
constexpr std::size_t kWorkerAt = 20;
constexpr std::size_t kSlotAt = 22;
constexpr std::size_t kUseAt = 24;
constexpr std::size_t kTableAt = 28;
constexpr std::size_t kDigestAt = 32;
constexpr std::size_t kWorkersAt = 40;
constexpr std::size_t kOpAt = 48;
constexpr std::size_t kBitsAt = 49;
constexpr std::size_t kDownAt = 50;
constexpr std::size_t kExtraAt = 51;
constexpr std::size_t kCountAt = 52;
constexpr std::size_t kGrainAt = 56;
constexpr std::size_t kNextAt = 60;
constexpr std::size_t kStampAt = kNextAt;  // no kind has both
constexpr std::size_t kTagAt = 64;

static_assert(kTagAt + kTagSize == kHeaderSize, "the tag ends the header");
static_assert(kFrameSizeMax <= 0xFFFF, "a length has two bytes");
static_assert(kHeaderSize + kJoinHeader < kFrameSizeMin, "every worker can send a join");

// What some kinds use and others do not; job and worker belong to all.
enum Use : unsigned {
  kUsesEpoch = 1,
  kUsesSlot = 2,  // and the use
  kUsesDigest = 4,
  kUsesWorkers = 8,
  kUsesTable = 16,
  kUsesReduction = 32,  // and the flags
  kUsesNext = 64,
  kUsesStamp = 128,
  kUsesSum = 63,  // all but the last two
};

constexpr unsigned uses_of(Kind kind) {
  switch (kind) {
    case Kind::contribution: return kUsesSum | kUsesNext;
    case Kind::result: return kUsesSum | kUsesStamp;
    case Kind::restore: return kUsesSum;
    case Kind::wait: return kUsesEpoch | kUsesSlot | kUsesDigest | kUsesWorkers | kUsesStamp;
    case Kind::restored: return kUsesEpoch | kUsesSlot;
    case Kind::ask: return kUsesEpoch | kUsesSlot | kUsesDigest | kUsesStamp;
    case Kind::need_table:
    case Kind::table: return kUsesEpoch | kUsesTable;
    case Kind::join: return 0;
    case Kind::prove: return kUsesDigest;
    case Kind::welcome: return kUsesEpoch | kUsesDigest | kUsesWorkers;
    case Kind::refused: return kUsesEpoch | kUsesDigest;
    case Kind::left: return kUsesEpoch | kUsesWorkers;
    case Kind::leave:
    case Kind::gone: return kUsesEpoch;
  }
  return 0;
}

// Bytes that are zero in frames of kinds without this use.
struct Field {
  unsigned use;
  std::size_t at;
  std::size_t size;
  const char* fault;
};

constexpr std::array kFields{
    Field{kUsesReduction, kFlagsAt, 1, "flags in a frame of a kind without"},
    Field{kUsesWorkers, kContributorsAt, 1, "a count of workers in a frame of a kind without"},
    Field{kUsesEpoch, kEpochAt, 4, "an epoch in a frame of a kind without"},
    Field{kUsesSlot, kSlotAt, 2, "a slot in a frame of a kind without"},
    Field{kUsesSlot, kUseAt, 4, "a use in a frame of a kind without"},
    Field{kUsesTable, kTableAt, 4, "a table's name in a frame of a kind without"},
    Field{kUsesDigest, kDigestAt, 8, "a digest in a frame of a kind without"},
    Field{kUsesWorkers, kWorkersAt, 8, "workers in a frame of a kind without"},
    Field{kUsesReduction, kOpAt, kNextAt - kOpAt, "a reduction in a frame of a kind without"},
    Field{kUsesNext | kUsesStamp, kNextAt, 4, "a next use or stamp in a frame of a kind without"},
};

constexpr bool is_kind(std::uint8_t number) {
  return number >= static_cast<std::uint8_t>(Kind::contribution) &&
         number <= static_cast<std::uint8_t>(Kind::left);
}

// All that a kind may have.
constexpr std::uint8_t flags_of(Kind kind) {
  return kind == Kind::result ? kNonFinite | kRepeated : kNonFinite;
}

bool all_zero(Bytes bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

Error malformed(const char* what) { return Error{Code::malformed, 0, what}; }

// Of the datagram with zeros where the checksum stands.
std::uint32_t checksum_of(std::span<const std::byte, kHeaderSize> header, Bytes payload) {
  std::array<std::byte, kHeaderSize> unsealed;
  std::ranges::copy(header, unsealed.begin());
  std::fill_n(unsealed.begin() + kTagAt, kChecksumSize, std::byte{0});
  return checksum::crc32c(payload, checksum::crc32c(unsealed));
}

// What makes a datagram one of ours, and whole; after it every byte is as the sender wrote it.
Status check_envelope(Bytes datagram) {
  if (datagram.size() < kHeaderSize) return malformed("shorter than a header");
  if (load_le<std::uint16_t>(datagram, kMagicAt) != kMagic) return malformed("not of Sluice");
  if (load_le<std::uint8_t>(datagram, kVersionAt) != kVersion) return malformed("another version");
  if (datagram.size() > kFrameSizeMax) return malformed("longer than a frame may be");
  if (load_le<std::uint16_t>(datagram, kLengthAt) != datagram.size()) {
    return malformed("the length is not the datagram's");
  }
  const auto header = datagram.first<kHeaderSize>();
  if (load_le<std::uint32_t>(datagram, kTagAt) !=
      checksum_of(header, datagram.subspan(kHeaderSize))) {
    return malformed("wrong checksum");
  }
  if (!all_zero(header.subspan<kTagAt + kChecksumSize>())) {
    return malformed("a tag other than a checksum");
  }
  return ok();
}

Status check_header(std::span<const std::byte, kHeaderSize> header) {
  const auto number = load_le<std::uint8_t>(header, kKindAt);
  if (!is_kind(number)) return malformed("unknown kind");
  const unsigned uses = uses_of(static_cast<Kind>(number));
  for (const Field& field : kFields) {
    if ((uses & field.use) == 0 && !all_zero(header.subspan(field.at, field.size))) {
      return malformed(field.fault);
    }
  }
  if (load_le<std::uint16_t>(header, kWorkerAt) >= kWorkersMax) {
    return malformed("a worker beyond the 64th");
  }
  if (load_le<std::uint8_t>(header, kContributorsAt) !=
      std::popcount(load_le<std::uint64_t>(header, kWorkersAt))) {
    return malformed("the count of workers is not that of their bits");
  }
  if ((uses & kUsesReduction) == 0) return ok();
  if ((load_le<std::uint8_t>(header, kFlagsAt) & ~flags_of(static_cast<Kind>(number))) != 0) {
    return malformed("unknown flag");
  }
  if (load_le<std::uint8_t>(header, kOpAt) > static_cast<std::uint8_t>(Op::f16_sum)) {
    return malformed("unknown operation");
  }
  if (load_le<std::uint8_t>(header, kDownAt) > static_cast<std::uint8_t>(Down::round)) {
    return malformed("unknown form of the answer");
  }
  return ok();
}

// A header that check_header let through.
Header read_header(std::span<const std::byte, kHeaderSize> from) {
  Header header;
  header.kind = static_cast<Kind>(load_le<std::uint8_t>(from, kKindAt));
  header.flags = load_le<std::uint8_t>(from, kFlagsAt);
  header.worker = load_le<std::uint16_t>(from, kWorkerAt);
  header.job = load_le<std::uint64_t>(from, kJobAt);
  header.epoch = load_le<std::uint32_t>(from, kEpochAt);
  header.slot = load_le<std::uint16_t>(from, kSlotAt);
  header.use = load_le<std::uint32_t>(from, kUseAt);
  header.digest = load_le<std::uint64_t>(from, kDigestAt);
  header.workers = load_le<std::uint64_t>(from, kWorkersAt);
  header.table = load_le<std::uint32_t>(from, kTableAt);
  if ((uses_of(header.kind) & kUsesStamp) != 0) {
    header.stamp = load_le<std::uint32_t>(from, kStampAt);
  } else {
    header.next = load_le<std::uint32_t>(from, kNextAt);
  }
  // Zeros would be a lane_sum of no bits; where there is no reduction the default stands.
  if ((uses_of(header.kind) & kUsesReduction) == 0) return header;
  header.what.op = static_cast<Op>(load_le<std::uint8_t>(from, kOpAt));
  header.what.bits = load_le<std::uint8_t>(from, kBitsAt);
  header.what.down = static_cast<Down>(load_le<std::uint8_t>(from, kDownAt));
  header.what.extra = load_le<std::uint8_t>(from, kExtraAt);
  header.what.count = load_le<std::uint32_t>(from, kCountAt);
  header.what.grain = load_le<std::uint32_t>(from, kGrainAt);
  return header;
}

// Whether the payload is a table of this name. It may lie at any address, hence the copy.
bool is_table(std::uint32_t name, Bytes payload) {
  const std::size_t count = payload.size() / 2;
  if (payload.size() % 2 != 0 || count < 1 || count > kTableEntriesMax) return false;
  std::array<std::uint16_t, kTableEntriesMax> entries;
  for (std::size_t i = 0; i < count; ++i) entries[i] = load_le<std::uint16_t>(payload, 2 * i);
  return table_name(std::span(entries).first(count)) == name;
}

// Joins and welcomes are left to the parsers of their bodies, lanes to the protocol.
Status check_payload(const Header& header, Bytes payload) {
  switch (header.kind) {
    case Kind::contribution:
    case Kind::result:
    case Kind::restore:
    case Kind::join:
    case Kind::welcome: return ok();
    case Kind::table:
      if (!is_table(header.table, payload)) return malformed("not the table of this name");
      return ok();
    case Kind::refused:
      if (!is_refusal(payload)) return malformed("a refusal that is no text");
      return ok();
    case Kind::prove:
      if (!is_cookie(payload)) return malformed("a proof without a cookie");
      return ok();
    case Kind::need_table:
      if (header.table == 0) return malformed("need of a table without a name");
      break;
    case Kind::wait:
    case Kind::restored:
    case Kind::leave:
    case Kind::gone:
    case Kind::ask:
    case Kind::left: break;
  }
  if (!payload.empty()) return malformed("a payload in a frame of a kind without");
  return ok();
}

void check_contract(const Header& header, Bytes payload) {
  SLUICE_ASSERT(is_kind(static_cast<std::uint8_t>(header.kind)));
  SLUICE_ASSERT(header.worker < kWorkersMax);
  SLUICE_ASSERT(payload.size() <= kFrameSizeMax - kHeaderSize);
  if ((uses_of(header.kind) & kUsesReduction) != 0) {
    SLUICE_ASSERT((header.flags & ~flags_of(header.kind)) == 0);
    SLUICE_ASSERT(header.what.op <= Op::f16_sum && header.what.down <= Down::round);
  }
  if (header.kind == Kind::refused) {
    // The text may quote a stranger: write_refusal makes it fit, and if nobody called it the
    // addressee drops the frame; that is no reason to stop an aggregator.
    SLUICE_ASSERT(!payload.empty() && payload.size() <= kRefusalMax);
    SLUICE_DASSERT(is_refusal(payload));
  } else {
    SLUICE_ASSERT(check_payload(header, payload).has_value());
  }
  SLUICE_DASSERT(header.kind != Kind::join || parse_join(payload).has_value());
  SLUICE_DASSERT(header.kind != Kind::welcome || parse_welcome(payload).has_value());
}

}  // namespace

void write_header(const Header& header, std::span<const std::byte> payload,
                  std::span<std::byte, kHeaderSize> into) {
  check_contract(header, payload);
  std::ranges::fill(into, std::byte{0});
  const auto contributors = static_cast<std::uint8_t>(std::popcount(header.workers));
  store_le<std::uint16_t>(into, kMagicAt, kMagic);
  store_le<std::uint8_t>(into, kVersionAt, kVersion);
  store_le<std::uint8_t>(into, kKindAt, static_cast<std::uint8_t>(header.kind));
  store_le<std::uint16_t>(into, kLengthAt,
                          static_cast<std::uint16_t>(kHeaderSize + payload.size()));
  store_le<std::uint8_t>(into, kFlagsAt, header.flags);
  store_le<std::uint8_t>(into, kContributorsAt, contributors);
  store_le<std::uint64_t>(into, kJobAt, header.job);
  store_le<std::uint32_t>(into, kEpochAt, header.epoch);
  store_le<std::uint16_t>(into, kWorkerAt, header.worker);
  store_le<std::uint16_t>(into, kSlotAt, header.slot);
  store_le<std::uint32_t>(into, kUseAt, header.use);
  store_le<std::uint32_t>(into, kTableAt, header.table);
  store_le<std::uint64_t>(into, kDigestAt, header.digest);
  store_le<std::uint64_t>(into, kWorkersAt, header.workers);
  store_le<std::uint8_t>(into, kOpAt, static_cast<std::uint8_t>(header.what.op));
  store_le<std::uint8_t>(into, kBitsAt, header.what.bits);
  store_le<std::uint8_t>(into, kDownAt, static_cast<std::uint8_t>(header.what.down));
  store_le<std::uint8_t>(into, kExtraAt, header.what.extra);
  store_le<std::uint32_t>(into, kCountAt, header.what.count);
  store_le<std::uint32_t>(into, kGrainAt, header.what.grain);
  const unsigned uses = uses_of(header.kind);
  store_le<std::uint32_t>(into, kNextAt, (uses & kUsesStamp) != 0 ? header.stamp : header.next);
  for (const Field& field : kFields) {
    if ((uses & field.use) != 0) continue;
    std::ranges::fill(into.subspan(field.at, field.size), std::byte{0});
  }
  SLUICE_DASSERT(check_header(into).has_value());
  store_le<std::uint32_t>(into, kTagAt, checksum_of(into, payload));
}

Result<Frame> parse(std::span<const std::byte> datagram) {
  SLUICE_TRY(check_envelope(datagram));
  const auto header = datagram.first<kHeaderSize>();
  SLUICE_TRY(check_header(header));
  const Frame frame{read_header(header), datagram.subspan(kHeaderSize)};
  SLUICE_TRY(check_payload(frame.header, frame.payload));
  return frame;
}

// Not a second CRC: what gets past the frame's would get past it, too.
std::uint32_t table_name(std::span<const std::uint16_t> table) {
  SLUICE_ASSERT(!table.empty() && table.size() <= kTableEntriesMax);
  std::uint64_t digest = table.size();
  for (const std::uint16_t entry : table) digest = mix(digest, entry);
  const auto name = static_cast<std::uint32_t>(digest >> 32);
  return name == 0 ? 1 : name;
}

}  // namespace sluice::wire
