// A frame: what one datagram between a worker and an aggregator says. docs/wire-format.md is the
// specification; names here are the names there.
//
// Functions have no state: any thread may call them. They never allocate. Payloads are never
// copied: a Frame points into the datagram it was parsed from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "round/reduction.h"

namespace sluice::wire {

inline constexpr std::uint8_t kVersion = 3;  // frames of any other are malformed
inline constexpr std::size_t kHeaderSize = 80;
inline constexpr std::size_t kFrameSizeMin = 576;    // of a join: what every path carries
inline constexpr std::size_t kFrameSizeMax = 65507;  // of a UDP datagram over IPv4
inline constexpr std::uint32_t kWorkersMax = 64;     // of one aggregator: one word of bits

enum class Kind : std::uint8_t {
  contribution = 1,  // worker: my bytes for a use of a slot
  result,            // aggregator: the answer of a use
  wait,              // aggregator: not complete, these are here (in `workers`)
  restore,           // worker: the result of a use, for an aggregator that lost it
  restored,          // aggregator: has it
  need_table,        // aggregator: does not know the table
  table,             // worker: its entries, two bytes each
  join,              // worker: wants to be rank `worker` of the job (payload: Join)
  welcome,           // aggregator: who has joined, and the terms once all have (payload: Welcome)
  refused,           // aggregator: the job cannot go on; payload: why, as text for a person
  leave,             // worker: will send no more
  gone,              // aggregator: knows no such job or epoch; join again
  ask,               // worker: what about this use?
  prove,  // aggregator: join again with this cookie, if you hear me (payload: eight bytes)
  left,   // aggregator: who needs nobody any more (in `workers`)
};

// Bits of Header::flags.
enum Flag : std::uint8_t {
  kNonFinite = 1,  // a float sum met Inf or NaN; set by workers, united by the aggregator
  kRepeated = 2,   // of results alone: went to all before, and now to one that asks
};

// What a frame is about. Fields that a kind does not use are zero on the wire.
struct Header {
  Kind kind = Kind::contribution;
  std::uint8_t flags = 0;
  std::uint16_t worker = 0;  // rank of the worker at either end; below kWorkersMax
  std::uint64_t job = 0;
  std::uint32_t epoch = 0;  // of the aggregator's memory of the job; 0 before it is known
  std::uint16_t slot = 0;
  std::uint32_t use = 0;  // counts the uses of the slot
  // Stands for what is reduced: ticket, leg, round, place in it, reduction. In an answer to a join
  // (prove, welcome, refused) it is the join's token.
  std::uint64_t digest = 0;
  std::uint64_t workers = 0;  // contribution: whom to count; result: counted; wait, welcome: here
  Reduction what = {};        // of this use's lanes alone; its table is not here but in `table`
  std::uint32_t table = 0;    // names a table of the job, 0: none
  std::uint32_t next = 0;     // contribution to a ring: the sender's next use there; else 0
  std::uint32_t stamp = 0;    // ask: any number; wait, result: that of the ask they answer, else 0
};

struct Frame {
  Header header;
  std::span<const std::byte> payload;  // within the datagram
};

// Writes the header of a frame, checksum included; the caller puts this payload behind it. Fields
// that the kind does not use are written as zero whatever they hold. what.table is not written.
// Asserts that ranges are right and that the payload is one of the kind, at most kFrameSizeMax with
// the header. A refusal's comes from write_refusal (bodies.h). Reads the whole payload.
void write_header(const Header& header, std::span<const std::byte> payload,
                  std::span<std::byte, kHeaderSize> into);

// Bytes from outside. Code::malformed unless version, kind, length, checksum and the fields' ranges
// are right, and reserved bytes and unused fields are zero. The error's literal says what is wrong.
// Of payloads it checks tables, refusals, cookies, and that kinds without one have none. Joins and
// welcomes have parsers of their own (bodies.h). Not checked: lanes, and whether the job's workers
// can do the reduction. The frame lives as long as the datagram.
Result<Frame> parse(std::span<const std::byte> datagram);

// The name of a table in frames: never 0. Asserts 1 to 256 entries. Two tables may share it.
std::uint32_t table_name(std::span<const std::uint16_t> table);

}  // namespace sluice::wire
