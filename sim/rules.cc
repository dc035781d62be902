#include "sim/rules.h"

namespace sluice::sim {
namespace {

using protocol::SlotRuling;
using protocol::Version;

std::uint64_t bit_of(std::uint32_t worker) { return std::uint64_t{1} << worker; }

}  // namespace

SlotRuling published(Version (&versions)[2], std::uint32_t use, std::uint32_t worker) {
  Version& version = versions[use % 2];
  const std::uint64_t was = version.seen;
  const std::uint64_t bit = bit_of(worker);
  version = {.used = true, .use = use, .seen = was | bit};
  versions[(use + 1) % 2].seen &= ~bit;
  if ((was & bit) != 0) return SlotRuling::again;
  return was == 0 ? SlotRuling::first : SlotRuling::next;
}

SlotRuling no_use_test(Version (&versions)[2], std::uint32_t use, std::uint32_t worker) {
  const Version& version = versions[use % 2];
  const bool stale = version.used && protocol::is_later(version.use, use);
  return protocol::slot_rule(versions, stale ? version.use : use, worker);
}

SlotRuling clears_other_version(Version (&versions)[2], std::uint32_t use, std::uint32_t worker) {
  const SlotRuling ruling = protocol::slot_rule(versions, use, worker);
  if (ruling != SlotRuling::stale) versions[(use + 1) % 2].seen &= ~bit_of(worker);
  return ruling;
}

SlotRuling counts_twice(Version (&versions)[2], std::uint32_t use, std::uint32_t worker) {
  const SlotRuling ruling = protocol::slot_rule(versions, use, worker);
  return ruling == SlotRuling::again ? SlotRuling::next : ruling;
}

}  // namespace sluice::sim
