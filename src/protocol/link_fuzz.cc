// Any bytes as datagrams to a worker's link, many of them with the right checksum, job, epoch and
// token: a result that was waited for, or ignored; what the link sends is always a frame.
#include "protocol/link.h"

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "base/assert.h"
#include "protocol/assembly.h"
#include "protocol/forged_frame.h"

namespace {

using namespace sluice;
using namespace sluice::protocol;
using wire::Kind;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kJob = 3;
constexpr std::uint32_t kFrameSize = 1300;
constexpr std::uint32_t kSlots = 6;
constexpr std::array<std::uint16_t, 4> kTable{1, 2, 5, 9};

Bytes welcome_from(FuzzedDataProvider& data, const wire::Header& header) {
  std::string body;
  wire::write_welcome(
      {.workers = data.PickValueInArray<std::uint16_t>({2, 2, 3}),
       .slots = data.PickValueInArray<std::uint16_t>({kSlots, kSlots, 1, 3, 65535}),
       .frame_size = data.PickValueInArray<std::uint32_t>({kFrameSize, kFrameSize, 576, 65507}),
       .window = data.PickValueInArray<std::uint32_t>({1, 2, 100, 0xffffffff})},
      data.PickValueInArray<std::size_t>({0, 496, 1152, 1220, 1300}), body);
  return written(header, std::as_bytes(std::span(body)));
}

Bytes datagram_from(FuzzedDataProvider& data, std::uint64_t token) {
  wire::Header header{
      .kind = static_cast<Kind>(data.ConsumeIntegralInRange<std::uint8_t>(1, 15)),
      .flags = data.ConsumeIntegralInRange<std::uint8_t>(0, 3),
      .job = data.ConsumeIntegralInRange<std::uint64_t>(0, 15) == 0 ? kJob + 1 : kJob,
      .epoch = data.PickValueInArray<std::uint32_t>({1, 1, 1, 3, 0}),
      .slot = data.ConsumeIntegralInRange<std::uint16_t>(0, kSlots + 2),  // two of them rings
      .use = data.ConsumeIntegralInRange<std::uint32_t>(0, 4),
      .digest = data.ConsumeIntegralInRange<std::uint64_t>(0, 20),
      .workers = data.ConsumeIntegralInRange<std::uint64_t>(0, 7),
      .what = {.op = static_cast<Op>(data.ConsumeIntegralInRange<std::uint8_t>(0, 7)),
               .bits = data.ConsumeIntegral<std::uint8_t>(),
               .count = data.ConsumeIntegral<std::uint32_t>()},
      .table = data.ConsumeBool() ? wire::table_name(kTable) : 7};
  const bool answers_join =
      header.kind == Kind::welcome || header.kind == Kind::refused || header.kind == Kind::prove;
  if (answers_join && data.ConsumeIntegralInRange<int>(0, 7) != 0) header.digest = token;
  Bytes datagram;
  const bool is_bare = header.kind == Kind::wait || header.kind == Kind::restored ||
                       header.kind == Kind::need_table || header.kind == Kind::leave ||
                       header.kind == Kind::gone || header.kind == Kind::ask ||
                       header.kind == Kind::left;
  if (header.kind == Kind::welcome) {
    datagram = welcome_from(data, header);
  } else if (header.kind == Kind::prove) {
    std::string cookie;
    wire::write_cookie(data.ConsumeIntegralInRange<std::uint64_t>(1, 3), cookie);
    datagram = written(header, std::as_bytes(std::span(cookie)));
  } else if (header.kind == Kind::refused) {
    std::string text;
    wire::write_refusal(data.ConsumeRandomLengthString(20), text);
    datagram = written(header, std::as_bytes(std::span(text)));
  } else if (is_bare) {
    datagram = written(header, {});
  } else {
    // A payload of any kind that has lanes; joins and tables are for others, and damaged here.
    const auto payload = data.ConsumeBytes<std::uint8_t>(8);
    const Kind kind = header.kind;
    header.kind = Kind::result;
    Bytes lanes(data.PickValueInArray<std::size_t>({4, 0, 1300, 1220, 60000}));
    std::copy_n(std::as_bytes(std::span(payload)).begin(), std::min(payload.size(), lanes.size()),
                lanes.begin());
    datagram = written(header, lanes);
    datagram[3] = static_cast<std::byte>(kind);
    seal(datagram);
  }
  if (data.ConsumeIntegralInRange<int>(0, 7) == 0) {
    const auto at = data.ConsumeIntegralInRange<std::size_t>(0, datagram.size() - 1);
    datagram[at] ^= std::byte{data.ConsumeIntegral<std::uint8_t>()};
    if (data.ConsumeBool()) seal(datagram);
  }
  if (data.ConsumeIntegralInRange<int>(0, 15) == 0) {
    datagram.resize(data.ConsumeIntegralInRange<std::size_t>(0, datagram.size()));
  }
  return datagram;
}

// Puts items of two channels and takes their results; each comes at most once.
class Driver {
 public:
  explicit Driver(bool joins_again)
      : link_({.rank = 1,
               .workers = 2,
               .job = kJob,
               .life = 7,
               .terms = "fuzz",
               .channels = 2,
               .slots = kSlots,
               .frame_size = kFrameSize,
               .joins_again = joins_again}) {}

  // As with an aggregator that works.
  void open() {
    send(8);
    std::string body;
    wire::write_cookie(1, body);
    receive(written({.kind = Kind::prove, .job = kJob, .digest = token_},
                    std::as_bytes(std::span(body))));
    send(8);
    for (const std::uint32_t epoch : {0u, 1u}) {
      wire::write_welcome({2, kSlots, kFrameSize, 100}, kFrameSize - wire::kHeaderSize, body);
      receive(written(
          {.kind = Kind::welcome, .job = kJob, .epoch = epoch, .digest = token_, .workers = 3},
          std::as_bytes(std::span(body))));
      send(8);
    }
    SLUICE_ASSERT(link_.is_open());
  }
  void put() {
    if (!link_.was_open() || number_ == 20) return;
    Reduction what{.op = Op::lane_sum, .bits = 2, .count = 16};
    if (number_ % 3 == 0) what.table = kTable;
    const bool is_sparse = number_ % 8 >= 4;
    if (is_sparse) what = {.op = Op::block_sum, .bits = 8, .count = 8, .grain = 8};
    const bool is_silent = is_sparse && number_ % 4 >= 1;
    link_.put({.what = what,
               .up = is_silent ? std::span<const std::byte>() : std::span<const std::byte>(up_),
               .only = 3,
               .digest = number_,
               .channel = number_ % 2,
               .piece = number_,
               .is_sparse = is_sparse});
    waiting_.insert(number_++);
  }
  void receive(const Bytes& datagram) {
    const auto arrived = link_.receive(datagram, now_);
    if (!arrived) return;
    SLUICE_ASSERT(arrived->channel == arrived->piece % 2);
    SLUICE_ASSERT(waiting_.erase(arrived->piece) == 1);
    SLUICE_ASSERT(arrived->payload.data() == datagram.data() + wire::kHeaderSize);
  }
  void send(std::size_t room) {
    std::vector<Outgoing> out(room);
    const std::size_t count = link_.send(now_, out);
    SLUICE_ASSERT(count <= room);
    for (const Outgoing& one : std::span(out).first(count)) {
      Bytes bytes(one.header.begin(), one.header.end());
      bytes.insert(bytes.end(), one.payload.begin(), one.payload.end());
      SLUICE_ASSERT(bytes.size() <= kFrameSize);
      const auto frame = wire::parse(bytes);
      SLUICE_ASSERT(frame.has_value());
      SLUICE_ASSERT(frame->header.job == kJob && frame->header.worker == 1);
      if (frame->header.kind == Kind::join) token_ = wire::parse_join(frame->payload)->token;
    }
    SLUICE_ASSERT(!had_left_ || count == 0);
    had_left_ = link_.has_left();
  }
  void drop() {
    link_.drop_items();
    waiting_.clear();
    number_ = 20;
  }
  void wait(int ms) { now_ += std::chrono::milliseconds(ms); }
  // Who leaves has nothing on its way.
  void leave(bool in_a_hurry) {
    drop();
    link_.leave(in_a_hurry);
  }
  [[nodiscard]] std::uint64_t token() const { return token_; }
  void check() const {
    SLUICE_ASSERT(link_.wake() >= Time{} || link_.is_open());
    SLUICE_ASSERT(link_.explain().size() < 2000);
    const LinkCounters& counters = link_.counters();
    SLUICE_ASSERT(counters.results + counters.waits + counters.ignored <= counters.received);
    SLUICE_ASSERT(counters.timeouts <= counters.asks + counters.retransmits);
    SLUICE_ASSERT(!link_.has_left() || link_.wake() == kNever);
  }

 private:
  Link link_;
  const std::array<std::byte, 4> up_{};
  std::set<std::uint32_t> waiting_;
  std::uint32_t number_ = 0;
  std::uint64_t token_ = 0;  // of the last join
  bool had_left_ = false;
  Time now_{};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider data(bytes, size);
  Driver driver(data.ConsumeIntegralInRange<int>(0, 7) != 0);
  driver.send(8);
  if (data.ConsumeIntegralInRange<int>(0, 3) != 0) driver.open();
  while (data.remaining_bytes() > 0) {
    switch (data.ConsumeIntegralInRange<int>(0, 31)) {
      case 0: driver.drop(); break;
      case 1: driver.leave(data.ConsumeBool()); break;
      case 2:
      case 3:
      case 4:
      case 5: driver.wait(data.ConsumeIntegralInRange<int>(0, 500)); break;
      case 6:
      case 7:
      case 8:
      case 9: driver.put(); break;
      case 10:
      case 11:
      case 12: driver.send(data.ConsumeIntegralInRange<std::size_t>(0, 10)); break;
      default: driver.receive(datagram_from(data, driver.token())); break;
    }
    driver.check();
  }
  return 0;
}
