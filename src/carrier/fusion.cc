#include "carrier/fusion.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/float_environment.h"
#include "base/limits.h"
#include "base/random.h"
#include "carrier/fused_bytes.h"
#include "carrier/ranks.h"

namespace sluice {

using fused::append;
using fused::append_size;
using fused::cut_off;
using fused::invalid;
using fused::kAnswerHeader;
using fused::kHeader;
using fused::kMagic;
using fused::kSize;
using fused::malformed;

Fusion::Fusion(std::uint32_t rank, std::uint32_t workers, std::uint64_t whole_max)
    : rank_(rank), workers_(workers), whole_max_(whole_max) {
  SLUICE_ASSERT(workers >= 1 && workers <= kWorkersMax && rank < workers);
  const WorkerSet all = WorkerSet::all(workers);
  everyone_.assign(all.view().words.begin(), all.view().words.end());
  send_sizes_.resize(workers);
  receive_sizes_.resize(workers);
  answer_sizes_.resize(workers);
  rests_.resize(workers);
  claims_.resize(workers);
  contributions_.reserve(workers);
}

// --- exchanges ---

Fusion::Entry* Fusion::find(std::vector<Entry>& entries, std::uint64_t sequence) {
  const auto at = std::lower_bound(
      entries.begin(), entries.end(), sequence,
      [](const Entry& entry, std::uint64_t wanted) { return entry.ticket.sequence < wanted; });
  return at != entries.end() && at->ticket.sequence == sequence ? &*at : nullptr;
}

Status Fusion::post(const Ticket& ticket, const Place& place, std::span<const Round> leg) {
  if (place.bench != bench_) {
    return Error{Code::unavailable, 0, "fusion: bytes on a device that it does not reach"};
  }
  if (leg.empty() || leg.size() > kLegRoundsMax) {
    return invalid("fusion: a leg has 1 to 32 rounds");
  }
  if (phase_ == Phase::dead) return Error{Code::unavailable, 0, "fusion: this end was abandoned"};
  const Entry* const before = find(sealed_, ticket.sequence);
  if ((before != nullptr && !before->taken) || find(posted_, ticket.sequence) != nullptr) {
    return Error{Code::exhausted, 0, "fusion: the exchange has posted and not taken"};
  }
  const bool goes_on = before != nullptr && before->ticket.digest == ticket.digest;
  const Entry entry{ticket, goes_on ? before->leg + 1 : 0, posted_rounds_.size(), leg.size()};
  const auto at = std::upper_bound(
      posted_.begin(), posted_.end(), ticket.sequence,
      [](std::uint64_t wanted, const Entry& other) { return wanted < other.ticket.sequence; });
  posted_.insert(at, entry);
  posted_rounds_.insert(posted_rounds_.end(), leg.begin(), leg.end());
  return ok();
}

Result<std::span<const Answer>> Fusion::take(const Ticket& ticket) {
  Entry* const entry = find(sealed_, ticket.sequence);
  if (entry == nullptr || entry->taken) {
    if (find(posted_, ticket.sequence) == nullptr) {
      return invalid("fusion: nothing posted under this ticket");
    }
    return Error{Code::pending, 0, "not sealed yet"};
  }
  if (phase_ != Phase::answered) return Error{Code::pending, 0, "not spread yet"};
  entry->taken = true;
  if (error_.code != Code::ok) return error_;
  return std::span<const Answer>(answers_).subspan(entry->first, entry->count);
}

bool Fusion::knows(const Ticket& ticket) {
  const Entry* const entry = find(sealed_, ticket.sequence);
  return (entry != nullptr && !entry->taken) || find(posted_, ticket.sequence) != nullptr;
}

Status Fusion::wait(std::chrono::nanoseconds /*timeout*/) {
  return Error{Code::unavailable, 0, "fusion: whoever moves the bytes waits for them"};
}

void Fusion::abandon() {
  phase_ = Phase::dead;
  posted_.clear();
  posted_rounds_.clear();
  sealed_.clear();
  rounds_.clear();
}

std::string Fusion::explain(const Ticket& /*ticket*/) {
  if (error_.code == Code::ok) return "";
  const std::uint64_t last = sealed_.empty() ? claim_.sequence : sealed_.back().ticket.sequence;
  const std::string here = fmt::format("rank {} (leg digest {:016x}, exchanges {} to {})", rank_,
                                       claim_.digest, claim_.sequence, last);
  if (error_.code == Code::mismatch && error_.detail < 0) {
    return fmt::format(
        "some rank reduces something else than {}; an all-reduce cannot tell which; "
        "different: {}",
        here, lanes_said_);
  }
  if (error_.code == Code::mismatch) {
    const Claim& first = claims_[static_cast<std::size_t>(error_.detail)];
    const auto [ranks, count] =
        list_ranks(workers_, [&](std::uint32_t rank) { return !(claims_[rank] == claim_); });
    return fmt::format(
        "{} of {} ranks ({}) reduce something else than {}: rank {} has leg digest {:016x}, from "
        "exchange {} on; different: {}",
        count, workers_, ranks, here, error_.detail, first.digest, first.sequence,
        compare(first, static_cast<std::uint32_t>(error_.detail)));
  }
  return fmt::format("{}, rank {}, seen by {}", error_.what, error_.detail, here);
}

bool Fusion::empty() const {
  return posted_.empty() && phase_ != Phase::sealed && phase_ != Phase::combined;
}

Status Fusion::fail(const Error& error) {
  error_ = error;
  phase_ = Phase::answered;
  return error;
}

Status Fusion::expect(Phase phase) const {
  if (phase_ == phase) return ok();
  if (phase_ == Phase::dead) return Error{Code::unavailable, 0, "fusion: this end was abandoned"};
  return invalid("fusion: out of turn: post, seal, pack, combine, spread, take");
}

// --- seal ---

Status Fusion::seal(std::uint64_t ready, const Fusion* leads) {
  if (phase_ == Phase::sealed || phase_ == Phase::combined || phase_ == Phase::dead) {
    return expect(Phase::answered);
  }
  lay_out();
  error_ = {};
  phase_ = Phase::sealed;
  ready_ = ready;
  least_ready_.reset();
  answer_into_ = {};
  claim_ = claim_of_leg(leads);
  if (const Status checked = check_rounds(); !checked) return fail(checked.error());
  claim_.digest = digest_of(sealed_, rounds_);
  if (leads != nullptr && !leads->posted_.empty()) {
    claim_.digest = mix(claim_.digest, digest_of(leads->posted_, leads->posted_rounds_));
  }
  prepare_answers();
  cut();
  measure();
  return ok();
}

// By what a rank may send at most, which all ranks know.
bool Fusion::fits_whole(std::span<const Round> rounds) const {
  std::uint64_t sent = 0;
  for (const Round& round : rounds) sent += up_size(round.what);
  return sent * (workers_ - 1) <= whole_max_ && whole_max_ != 0;
}

void Fusion::cut() {
  whole_ = fits_whole(rounds_);
  if (whole_) {
    shards_.copy(rounds_, workers_);
  } else {
    shards_.cut(rounds_, workers_);
  }
}

bool Fusion::only_maxima(const Entry& entry) const {
  const auto rounds = std::span(posted_rounds_).subspan(entry.first, entry.count);
  return !rounds.empty() && std::all_of(rounds.begin(), rounds.end(), [](const Round& round) {
    return round.what.op == Op::max && round.only.unrestricted();
  });
}

// Maxima alone are one all-reduce: with anything else they are two collectives, or three, and those
// who wait for them would send a leg of their own afterwards. A function of what all have posted.
bool Fusion::maxima_go_first() const {
  if (whole_max_ == 0 || fits_whole(posted_rounds_)) return false;
  const auto is_one = [&](const Entry& entry) { return only_maxima(entry); };
  return std::any_of(posted_.begin(), posted_.end(), is_one) &&
         !std::all_of(posted_.begin(), posted_.end(), is_one);
}

// The posted leg becomes the sealed one, its rounds in the order of its exchanges. What waits stays
// posted.
void Fusion::lay_out() {
  const bool splits = maxima_go_first();
  sealed_.clear();
  rounds_.clear();
  waiting_.clear();
  waiting_rounds_.clear();
  for (Entry entry : posted_) {
    const auto from = std::span(posted_rounds_).subspan(entry.first, entry.count);
    const bool waits = splits && !only_maxima(entry);
    std::vector<Round>& into = waits ? waiting_rounds_ : rounds_;
    entry.first = into.size();
    into.insert(into.end(), from.begin(), from.end());
    (waits ? waiting_ : sealed_).push_back(entry);
  }
  posted_.swap(waiting_);
  posted_rounds_.swap(waiting_rounds_);
}

Status Fusion::check_rounds() const {
  for (const Round& round : rounds_) {
    SLUICE_TRY(check(round.what, workers_));
    if (round.what.count == 0) return invalid("fusion: a round of zero lanes");
    if (bench_ != nullptr && !is_for_devices(round.what)) {
      return invalid("fusion: a reduction that a device does not know");
    }
    if (const Status checked = check_up(round.what, round.up); !checked) {
      return malformed(rank_, checked.error().what);
    }
    if (round.down.size() < down_size_max(round.what, workers_)) {
      return invalid("fusion: too little room for an answer");
    }
    if (!round.only.unrestricted() && (!round.only.fits(workers_) || round.only.count() == 0)) {
      return invalid("fusion: a round names workers that do not exist, or none");
    }
  }
  return ok();
}

std::uint64_t Fusion::digest_of(std::span<const Entry> entries, std::span<const Round> rounds) {
  std::uint64_t digest = mix(kMagic, entries.size());
  for (const Entry& entry : entries) {
    digest = mix(mix(digest, entry.ticket.sequence), entry.ticket.digest);
    digest = mix(digest, std::uint64_t{entry.leg} << 32 | entry.count);
  }
  for (const Entry& entry : entries) {
    for (const Round& round : rounds.subspan(entry.first, entry.count)) {
      digest = mix(mix(digest, sluice::digest_of(round.what)), round.only.words.size());
      for (const std::uint64_t word : round.only.words) digest = mix(digest, word);
    }
  }
  return digest;
}

// Sets are copied: a codec may write over what it named once it has the answer.
void Fusion::prepare_answers() {
  parts_.clear();
  words_.clear();
  words_.reserve(rounds_.size() * everyone_.size());
  for (const Round& round : rounds_) {
    Workers from{everyone_};
    if (!round.only.unrestricted()) {
      words_.insert(words_.end(), round.only.words.begin(), round.only.words.end());
      from = {std::span<const std::uint64_t>(words_).last(everyone_.size())};
    }
    parts_.push_back({0, round.what.count, from});
  }
  filled_.assign(rounds_.size(), 0);
  there_.assign(rounds_.size(), {});
  answers_.clear();
}

void Fusion::measure() {
  receives_vary_ = false;
  answers_vary_ = false;
  for (std::uint32_t rank = 0; rank < workers_; ++rank) {
    std::uint64_t send = kHeader;
    std::uint64_t receive = kHeader;
    std::uint64_t answer = round_up(kAnswerHeader, pad_);
    for (const Segment& segment : shards_.of(rank)) {
      const bool list = is_list(segment.what.op);
      const bool fixed = is_down_size_fixed(segment.what);
      send += list ? kSize + rounds_[segment.round].up.size() : round_up(segment.up_size, pad_);
      receive += (list ? kSize : 0) + round_up(segment.up_size, pad_);
      answer += (fixed ? 0 : kSize) + round_up(segment.down_size, pad_);
      receives_vary_ = receives_vary_ || list;
      answers_vary_ = answers_vary_ || !fixed;
      if (rank == rank_ && bench_ == nullptr) grow(scratch_, scratch_size(segment.what));
    }
    send_sizes_[rank] = send;
    answer_sizes_[rank] = answer;
    if (rank == rank_) std::fill(receive_sizes_.begin(), receive_sizes_.end(), receive);
  }
  answer_size_ = 0;
  native_ = whole_ || bench_ != nullptr ? Native::none : choose_native();
}

// --- all-to-all, combine, all-gather ---

std::span<const std::uint64_t> Fusion::send_sizes() const { return send_sizes_; }
std::span<const std::uint64_t> Fusion::receive_sizes() const { return receive_sizes_; }
bool Fusion::receives_vary() const { return receives_vary_; }
std::span<const std::uint64_t> Fusion::answer_sizes() const { return answer_sizes_; }
bool Fusion::answers_vary() const { return answers_vary_; }

void Fusion::write_header(std::span<std::byte> header) const {
  store_le(header, 0, claim_.digest);
  store_le(header, 8, claim_.sequence);
  store_le(header, 16, rank_);
  store_le(header, 20, kMagic);
  store_le(header, 24, claim_.step);
  store_le(header, 32, claim_.bucket);
  store_le(header, 40, claim_.codec);
  store_le(header, 44, claim_.seed);
  store_le(header, 48, claim_.tensors);
  store_le(header, 52, claim_.exchanges);
  store_le(header, 56, ready_);
}

void Fusion::pack(std::span<std::byte> send) const {
  SLUICE_ASSERT(phase_ == Phase::sealed);
  for (std::uint32_t rank = 0; rank < workers_; ++rank) {
    SLUICE_ASSERT(send.size() >= send_sizes_[rank]);
    write_header(send);
    send = send.subspan(kHeader);
    for (const Segment& segment : shards_.of(rank)) {
      const auto up = rounds_[segment.round].up;
      if (is_list(segment.what.op)) {
        append_size(up.size(), send);
        append(up, send);
      } else {
        append(up.subspan(segment.up_first, segment.up_size), send);
      }
    }
  }
}

Status Fusion::combine(std::span<const std::byte> received, std::span<const std::uint64_t> sizes) {
  SLUICE_TRY(expect(Phase::sealed));
  if (sizes.size() != workers_) return fail(invalid("fusion: a size per rank expected"));
  for (std::uint32_t rank = 0; rank < workers_; ++rank) {
    if (sizes[rank] > received.size()) return fail(malformed(rank, "fusion: a message is cut off"));
    rests_[rank] = received.first(sizes[rank]);
    received = received.subspan(sizes[rank]);
  }
  return combine(rests_);
}

Status Fusion::combine(std::span<const std::span<const std::byte>> received) {
  SLUICE_TRY(expect(Phase::sealed));
  if (received.size() != workers_) return fail(invalid("fusion: a message per rank expected"));
  if (const Status agreed = agree(received); !agreed) return fail(agreed.error());
  const FloatEnvironment environment;
  if (const Status combined = combine_shard(); !combined) return fail(combined.error());
  phase_ = Phase::combined;
  return ok();
}

// Reads all headers, so that everybody who disagrees can be named.
Status Fusion::agree(std::span<const std::span<const std::byte>> received) {
  for (std::uint32_t rank = 0; rank < workers_; ++rank) {
    SLUICE_TRY(read_header(rank, received[rank]));
  }
  for (std::uint32_t rank = 0; rank < workers_; ++rank) {
    if (claims_[rank] == claim_) continue;
    return Error{Code::mismatch, static_cast<std::int32_t>(rank),
                 "workers disagree on what they reduce"};
  }
  return ok();
}

Status Fusion::read_header(std::uint32_t rank, std::span<const std::byte> message) {
  if (message.size() < kHeader) return malformed(rank, "fusion: a message without header");
  claims_[rank] = {.digest = load_le<std::uint64_t>(message),
                   .sequence = load_le<std::uint64_t>(message, 8),
                   .step = load_le<std::uint64_t>(message, 24),
                   .bucket = load_le<std::uint64_t>(message, 32),
                   .codec = load_le<std::uint32_t>(message, 40),
                   .seed = load_le<std::uint32_t>(message, 44),
                   .tensors = load_le<std::uint32_t>(message, 48),
                   .exchanges = load_le<std::uint32_t>(message, 52)};
  const auto ready = load_le<std::uint64_t>(message, 56);
  least_ready_ = std::min(ready, least_ready_.value_or(ready));
  if (load_le<std::uint32_t>(message, 20) != kMagic) {
    return malformed(rank, "fusion: a message of something else, or of another version");
  }
  if (load_le<std::uint32_t>(message, 16) != rank) {
    return malformed(rank, "fusion: a message of another rank");
  }
  rests_[rank] = message.subspan(kHeader);
  return ok();
}

void Fusion::answer_into(std::span<std::byte> room) {
  SLUICE_ASSERT(phase_ == Phase::sealed && room.size() >= answer_sizes_[rank_]);
  answer_into_ = room;
}

std::span<std::byte> Fusion::answer_room() {
  if (!answer_into_.empty()) return answer_into_;
  grow(answer_, answer_sizes_[rank_]);
  return answer_.bytes();
}

Status Fusion::combine_shard() {
  const auto room = answer_room();
  store_le(room, 0, ready_);
  auto into = room.subspan(kAnswerHeader);
  for (const Segment& segment : shards_.of(rank_)) {
    SLUICE_TRY(collect(segment));
    const bool fixed = is_down_size_fixed(segment.what);
    const auto down = into.subspan(fixed ? 0 : kSize);
    const std::size_t used = sluice::combine(segment.what, workers_, 0, segment.what.count,
                                             contributions_, scratch_.bytes(), down);
    if (!fixed) append_size(used, into);
    into = into.subspan(used);
  }
  for (std::uint32_t rank = 0; rank < workers_; ++rank) {
    if (!rests_[rank].empty()) return malformed(rank, "fusion: a message is too long");
  }
  answer_size_ = room.size() - into.size();
  return ok();
}

// Everybody's bytes for one segment, of those who count, in ascending rank.
Status Fusion::collect(const Segment& segment) {
  const Workers counted = parts_[segment.round].from;
  const bool list = is_list(segment.what.op);
  contributions_.clear();
  for (std::uint32_t rank = 0; rank < workers_; ++rank) {
    std::span<const std::byte> up;
    if (!cut_off(segment.up_size, !list, rests_[rank], up)) {
      return malformed(rank, "fusion: a message is too short");
    }
    if (list) {
      const Status checked = check_up(segment.what, up);
      if (!checked) return malformed(rank, checked.error().what);
    }
    if (counted.has(rank)) contributions_.push_back({rank, up});
  }
  return ok();
}

}  // namespace sluice
