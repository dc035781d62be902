// Any bytes as datagrams to an aggregator, many of them with the right checksum, epoch, sender and
// cookie: counted and dropped or answered, never more.
#include "protocol/aggregator.h"

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/assert.h"
#include "protocol/assembly.h"
#include "protocol/forged_frame.h"
#include "round/block_sum.h"

namespace {

using namespace sluice;
using namespace sluice::protocol;
using wire::Kind;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kJob = 3;
constexpr std::uint32_t kWorkers = 2;
constexpr std::uint32_t kFrameSize = 1232;
constexpr std::uint64_t kSenders = 3;
constexpr Limits kLimits{
    .jobs_max = 2, .slots_max = 16, .memory_max = 300'000, .lease = std::chrono::seconds(5)};

// Every answer is a frame that parses, no longer than the job's frames or than a refusal.
struct CheckedOutbox final : Outbox {
  std::uint32_t epoch = 0;
  std::array<std::uint64_t, kSenders> cookies{};
  std::size_t sent = 0;  // bytes, to all

  void send(std::span<const Address> to, std::span<const std::byte, wire::kHeaderSize> header,
            std::span<const std::byte> payload) override {
    SLUICE_ASSERT(!to.empty());
    Bytes bytes(header.begin(), header.end());
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    SLUICE_ASSERT(bytes.size() <= kFrameSize);
    const auto frame = wire::parse(bytes);
    SLUICE_ASSERT(frame.has_value());
    sent += to.size() * bytes.size();
    const wire::Header& said = frame->header;
    if (said.job == kJob && said.kind == Kind::welcome && said.epoch != 0) epoch = said.epoch;
    if (said.kind == Kind::prove) cookies[to[0].low] = wire::parse_cookie(payload);
  }
};

Reduction reduction_from(FuzzedDataProvider& data) {
  return {.op = static_cast<Op>(data.ConsumeIntegralInRange<std::uint8_t>(0, 7)),
          .bits = data.PickValueInArray<std::uint8_t>({1, 4, 8, 16, 32, 64, 255}),
          .down = static_cast<Down>(data.ConsumeIntegralInRange<std::uint8_t>(0, 2)),
          .extra = data.PickValueInArray<std::uint8_t>({0, 1, 17, 255}),
          .count = data.ConsumeBool() ? data.ConsumeIntegralInRange<std::uint32_t>(0, 1500)
                                      : data.ConsumeIntegral<std::uint32_t>(),
          .grain = 8 * data.ConsumeIntegralInRange<std::uint32_t>(0, 40)};
}

wire::Header header_from(FuzzedDataProvider& data, std::uint32_t epoch, std::uint64_t sender) {
  return {.flags = data.ConsumeIntegralInRange<std::uint8_t>(0, 1),
          .worker = data.ConsumeProbability<float>() < 0.8f
                        ? static_cast<std::uint16_t>(sender)
                        : data.ConsumeIntegralInRange<std::uint16_t>(0, 3),
          .job = data.ConsumeIntegralInRange<std::uint64_t>(kJob, kJob + 1),
          .epoch = data.ConsumeProbability<float>() < 0.9f ? epoch : epoch + 2,
          .slot = data.ConsumeIntegralInRange<std::uint16_t>(0, 8),  // four slots, four rings
          .use = data.PickValueInArray<std::uint32_t>({0, 1, 2, 3, 5, 0x80000001, 0xffffffff}),
          .digest = data.ConsumeIntegralInRange<std::uint64_t>(0, 8) / 8,
          .workers = data.PickValueInArray<std::uint64_t>({3, 3, 3, 1, 2, 0, 7}),
          .what = reduction_from(data),
          .next = data.PickValueInArray<std::uint32_t>({0, 0, 2, 3, 4, 6, 12, 0x80000002})};
}

// Frames about a ring, so that its sums come about: mostly small numbers, blocks as they should be.
Bytes sparse_from(FuzzedDataProvider& data, wire::Header header) {
  header.kind = data.PickValueInArray(
      {Kind::contribution, Kind::contribution, Kind::contribution, Kind::ask, Kind::restore});
  header.slot = data.ConsumeIntegralInRange<std::uint16_t>(4, 7);
  header.use = data.ConsumeIntegralInRange<std::uint32_t>(1, 20);
  header.next = header.kind == Kind::contribution
                    ? header.use + data.ConsumeIntegralInRange<std::uint32_t>(0, 6)
                    : 0;
  header.workers = 3;
  header.digest = 1;
  header.what = {.op = Op::block_sum,
                 .bits = data.PickValueInArray<std::uint8_t>({8, 16, 32, 64}),
                 .count = 24,
                 .grain = 8};
  if (header.kind == Kind::ask) return written(header, {});
  Bytes list(up_size(header.what));
  Bytes integers(header.what.bits);
  std::size_t used = kBlockListHeader;
  std::uint32_t blocks = 0;
  for (std::uint32_t number = 0; number < 3; ++number) {
    if (data.ConsumeBool()) continue;
    integers[number] = static_cast<std::byte>(data.ConsumeIntegral<std::uint8_t>());
    used += write_block(header.what, number, integers, std::span(list).subspan(used));
    ++blocks;
  }
  store_le(std::span(list), 0, blocks);
  list.resize(blocks == 0 && data.ConsumeBool() ? 0 : used);
  if (!list.empty() && data.ConsumeIntegralInRange<int>(0, 7) == 0) {
    list[data.ConsumeIntegralInRange<std::size_t>(0, list.size() - 1)] ^= std::byte{1};
  }
  return written(header, list);
}

Bytes join_from(FuzzedDataProvider& data, wire::Header header, std::uint64_t cookie) {
  const std::string terms = data.ConsumeIntegralInRange<int>(0, 7) != 0 ? "" : "other";
  const auto fits =
      data.PickValueInArray<std::uint32_t>({kFrameSize, kFrameSize, 0, 1104, 1103, 1500, 576});
  const auto attempt = data.PickValueInArray<std::uint16_t>({0, 0, 1, 2, 0xffff});
  std::string body;
  wire::write_join({.workers = data.PickValueInArray<std::uint16_t>({kWorkers, kWorkers, 1, 3, 64}),
                    .slots = data.PickValueInArray<std::uint16_t>({4, 4, 1, 65535}),
                    .frame_size = data.PickValueInArray<std::uint32_t>({kFrameSize, 576, 1500}),
                    .fits = fits,
                    .is_bound = fits != 0 && data.ConsumeBool(),
                    .token = data.ConsumeIntegralInRange<int>(0, 7) != 0
                                 ? wire::make_token(header.worker, attempt)
                                 : wire::make_token(9, attempt),
                    .cookie = data.ConsumeIntegralInRange<int>(0, 7) != 0
                                  ? cookie
                                  : data.ConsumeIntegral<std::uint64_t>(),
                    .terms = terms},
                   body);
  header.kind = Kind::join;
  return written(header, std::as_bytes(std::span(body)));
}

Bytes table_from(FuzzedDataProvider& data, wire::Header& header) {
  std::vector<std::uint16_t> table(data.PickValueInArray<std::size_t>({2, 16, 256}));
  for (std::uint16_t& entry : table) entry = data.ConsumeIntegral<std::uint16_t>();
  header.table = wire::table_name(table);
  const auto bytes = std::as_bytes(std::span(table));
  return {bytes.begin(), bytes.end()};
}

// A contribution or a restore whose payload has the size that its reduction asks for, mostly.
Bytes placed_from(FuzzedDataProvider& data, wire::Header header, std::uint32_t table) {
  header.kind = data.ConsumeBool() ? Kind::contribution : Kind::restore;
  header.table = data.ConsumeBool() ? table : 0;
  std::size_t size = data.ConsumeIntegralInRange<std::size_t>(0, 64);
  if (check(header.what, kWorkers) && data.ConsumeProbability<float>() < 0.8f) {
    size = header.kind == Kind::contribution ? up_size(header.what)
                                             : down_size_max(header.what, kWorkers);
  }
  const auto some = data.ConsumeBytes<std::uint8_t>(std::min<std::size_t>(size, 64));
  Bytes payload(std::min<std::size_t>(size, 1500));
  std::ranges::transform(some, payload.begin(), [](std::uint8_t b) { return std::byte{b}; });
  return written(header, payload);
}

// A question about nothing, or a leave.
Bytes idle_from(FuzzedDataProvider& data, wire::Header header) {
  header.kind = data.ConsumeIntegralInRange<int>(0, 2) == 0 ? Kind::leave : Kind::ask;
  if (data.ConsumeBool()) {
    header.slot = 0;
    header.use = 0;
    header.digest = 0;
  }
  return written(header, {});
}

Bytes datagram_from(FuzzedDataProvider& data, const CheckedOutbox& out, std::uint64_t sender,
                    std::uint32_t& table) {
  wire::Header header = header_from(data, out.epoch, sender);
  const std::uint64_t cookie = out.cookies[sender];
  switch (data.ConsumeIntegralInRange<int>(0, 12)) {
    case 0: return join_from(data, header, cookie);
    case 1: {
      const Bytes entries = table_from(data, header);
      table = header.table;
      header.kind = Kind::table;
      return written(header, entries);
    }
    case 2: return idle_from(data, header);
    case 3: {
      const std::string raw = data.ConsumeRandomLengthString(200);
      const auto bytes = std::as_bytes(std::span(raw));
      Bytes datagram(bytes.begin(), bytes.end());
      if (datagram.size() >= wire::kHeaderSize) seal(datagram);
      return datagram;
    }
    case 4: {
      Bytes datagram =
          data.ConsumeBool() ? join_from(data, header, cookie) : placed_from(data, header, table);
      const auto at = data.ConsumeIntegralInRange<std::size_t>(0, datagram.size() - 1);
      datagram[at] ^= std::byte{data.ConsumeIntegral<std::uint8_t>()};
      if (data.ConsumeBool()) seal(datagram);
      return datagram;
    }
    case 5:
    case 6:
    case 7:
    case 8: return placed_from(data, header, table);
    default: return sparse_from(data, header);
  }
}

// Two workers find out their cookies, and join.
void form(Aggregator& aggregator, CheckedOutbox& out) {
  std::string body;
  for (int round = 0; round < 2; ++round) {
    for (std::uint16_t worker = 0; worker < kWorkers; ++worker) {
      wire::write_join({.workers = kWorkers,
                        .slots = 4,
                        .frame_size = wire::kFrameSizeMin,
                        .fits = kFrameSize,
                        .token = wire::make_token(worker, 0),
                        .cookie = out.cookies[worker],
                        .terms = ""},
                       body);
      aggregator.receive({.low = worker},
                         written({.kind = Kind::join, .worker = worker, .job = kJob},
                                 std::as_bytes(std::span(body))),
                         Time{}, out);
    }
  }
  SLUICE_ASSERT(out.epoch != 0 && aggregator.taken().slots == 4);
}

void check(const Aggregator& aggregator) {
  const Counters& c = aggregator.counters();
  SLUICE_ASSERT(c.received == c.malformed + c.unexpected + c.strangers + c.unproven + c.gone +
                                  c.control + c.accepted + c.again + c.passed + c.blocked +
                                  c.asked + c.stale + c.tableless + c.mismatched);
  const Share taken = aggregator.taken();
  SLUICE_ASSERT(taken.jobs <= kLimits.jobs_max && taken.slots <= kLimits.slots_max);
  SLUICE_ASSERT(taken.memory <= kLimits.memory_max);
  SLUICE_ASSERT(aggregator.reports().size() == aggregator.jobs() && aggregator.jobs() <= 2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider data(bytes, size);
  Aggregator aggregator({.limits = kLimits, .frame_size = kFrameSize, .secret = {3, 4}});
  CheckedOutbox out;
  form(aggregator, out);
  Time now{};
  std::uint32_t table = 0;
  while (data.remaining_bytes() > 0) {
    const auto sender = data.ConsumeIntegralInRange<std::uint64_t>(0, kSenders - 1);
    const Bytes datagram = datagram_from(data, out, sender, table);
    now += std::chrono::milliseconds(data.ConsumeIntegralInRange<int>(0, 3000));
    const std::uint64_t unproven = aggregator.counters().unproven;
    out.sent = 0;
    aggregator.receive({.low = sender}, datagram, now, out);
    // Nobody gets more for what was sent in its name by others.
    SLUICE_ASSERT(aggregator.counters().unproven == unproven || out.sent <= datagram.size());
    const int else_what = data.ConsumeIntegralInRange<int>(0, 63);
    if (else_what < 4) aggregator.expire(now);
    if (else_what == 63) aggregator.drain();
    check(aggregator);
  }
  return 0;
}
