// What a link counted since it was made. All are uint64_t, as add() of counters.h wants it.
#pragma once

#include <cstdint>

namespace sluice::protocol {

struct LinkCounters {
  std::uint64_t sent = 0;        // frames, all kinds
  std::uint64_t sent_bytes = 0;  // datagrams
  std::uint64_t received = 0;    // datagrams, whatever they hold
  std::uint64_t received_bytes = 0;
  std::uint64_t retransmits = 0;  // contributions sent again
  std::uint64_t asks = 0;         // about contributions that were not answered
  std::uint64_t timeouts = 0;     // asks and retransmits because time was over
  std::uint64_t waits = 0;        // told that contributions are not there yet
  std::uint64_t results = 0;
  std::uint64_t ignored = 0;  // stale, doubled, malformed or of another epoch
  std::uint64_t joins = 0;    // epochs that it was open in
};

}  // namespace sluice::protocol
