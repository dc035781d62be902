// What a fused leg is about, for ranks that disagree: in which part, and both values.
#include <fmt/format.h>

#include "base/random.h"
#include "carrier/fusion.h"

namespace sluice {
namespace {

std::uint32_t fold(std::uint64_t bits) { return static_cast<std::uint32_t>(bits >> 32); }

void add(std::string& text, std::string_view more) {
  if (!text.empty()) text += ", ";
  text += more;
}

// Where nothing that is named differs. Digests of tickets stand for what codecs go by, too.
constexpr const char* kRest =
    "what the codec has learnt (a state that not all have loaded?) or rounds of the exchanges";

}  // namespace

// Exchanges of a leg share the seed. Step and bucket are those of the first: the others follow.
Fusion::Claim Fusion::claim_of_leg(const Fusion* leads) const {
  const std::span<const Entry> led = leads == nullptr ? std::span<const Entry>() : leads->posted_;
  if (sealed_.empty() && led.empty()) return {};
  const Ticket& first = (sealed_.empty() ? led : std::span<const Entry>(sealed_)).front().ticket;
  const Topic& topic = first.topic;
  std::uint64_t tensors = 0;
  std::uint64_t codecs = 0;
  for (const std::span<const Entry> entries : {std::span<const Entry>(sealed_), led}) {
    for (const Entry& entry : entries) {
      const Topic& one = entry.ticket.topic;
      tensors = mix(mix(mix(tensors, one.tensor), one.offset), one.count);
      codecs = mix(codecs, mix(one.codec, one.chunk));
    }
  }
  return {.digest = 0,
          .sequence = first.sequence,
          .step = topic.step,
          .bucket = topic.bucket,
          .codec = fold(codecs),
          .seed = fold(mix(topic.seed, 0)),
          .tensors = fold(tensors),
          .exchanges = static_cast<std::uint32_t>(sealed_.size() + led.size())};
}

std::string Fusion::compare(const Claim& other, std::uint32_t rank) const {
  std::string text;
  const auto both = [&](std::string_view what, std::uint64_t mine, std::uint64_t theirs) {
    if (mine == theirs) return;
    add(text, fmt::format("{} (rank {}: {}, rank {}: {})", what, rank_, mine, rank, theirs));
  };
  both("step", claim_.step, other.step);
  both("bucket", claim_.bucket, other.bucket);
  if (claim_.codec != other.codec) add(text, "codec, its options or the coordinates per chunk");
  if (claim_.seed != other.seed) add(text, "seed");
  both("number of chunks", claim_.exchanges, other.exchanges);
  if (claim_.tensors != other.tensors) add(text, "tensors (ids, shapes or order)");
  return text.empty() ? kRest : text;
}

// Of a maximum: each part and its complement, both largest where all are equal only. Of a sum: each
// times the number of workers when all are equal.
std::array<std::uint32_t, Fusion::kCheckLanes> Fusion::check_lanes() const {
  const std::array parts{static_cast<std::uint32_t>(claim_.digest),
                         fold(claim_.digest),
                         fold(mix(claim_.step, 0)),
                         fold(mix(claim_.bucket, 0)),
                         claim_.codec,
                         claim_.seed,
                         claim_.tensors};
  std::array<std::uint32_t, kCheckLanes> lanes{};
  static_assert(2 * parts.size() == lanes.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    // Another number than the part, for sums: its complement would say the same again.
    lanes[i] = parts[i];
    lanes[parts.size() + i] = native_ == Native::sum ? fold(mix(parts[i], i)) : ~parts[i];
  }
  return lanes;
}

std::string Fusion::compare_lanes(std::span<const std::uint32_t> lanes) const {
  const auto wanted = check_lanes();
  const std::uint32_t times = native_ == Native::sum ? workers_ : 1;
  constexpr std::size_t kParts = kCheckLanes / 2;
  constexpr std::array<std::string_view, kParts> kNames{
      "",
      "",
      "step",
      "bucket",
      "codec, its options or the coordinates per chunk",
      "seed",
      "tensors (ids, shapes or order)"};
  std::string text;
  bool is_equal = true;
  for (std::size_t i = 0; i < kParts; ++i) {
    if (lanes[i] == wanted[i] * times && lanes[kParts + i] == wanted[kParts + i] * times) continue;
    is_equal = false;
    if (!kNames[i].empty()) add(text, kNames[i]);
  }
  return is_equal || !text.empty() ? text : kRest;
}

}  // namespace sluice
