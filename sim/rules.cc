#include "sim/rules.h"

namespace sluice::sim {
namespace {

using protocol::Verdict;
using protocol::Version;

std::uint64_t bit_of(std::uint32_t worker) { return std::uint64_t{1} << worker; }

}  // namespace

Verdict published(Version (&versions)[2], std::uint32_t chunk, std::uint32_t worker) {
  Version& version = versions[chunk % 2];
  const std::uint64_t was = version.seen;
  const std::uint64_t bit = bit_of(worker);
  version = {.used = true, .chunk = chunk, .seen = was | bit};
  versions[(chunk + 1) % 2].seen &= ~bit;
  if ((was & bit) != 0) return Verdict::again;
  return was == 0 ? Verdict::first : Verdict::next;
}

Verdict no_chunk_test(Version (&versions)[2], std::uint32_t chunk, std::uint32_t worker) {
  const Version& version = versions[chunk % 2];
  const bool stale = version.used && protocol::is_later(version.chunk, chunk);
  return protocol::slot_rule(versions, stale ? version.chunk : chunk, worker);
}

Verdict clears_other_version(Version (&versions)[2], std::uint32_t chunk, std::uint32_t worker) {
  const Verdict verdict = protocol::slot_rule(versions, chunk, worker);
  if (verdict != Verdict::stale) versions[(chunk + 1) % 2].seen &= ~bit_of(worker);
  return verdict;
}

Verdict counts_twice(Version (&versions)[2], std::uint32_t chunk, std::uint32_t worker) {
  const Verdict verdict = protocol::slot_rule(versions, chunk, worker);
  return verdict == Verdict::again ? Verdict::next : verdict;
}

}  // namespace sluice::sim
