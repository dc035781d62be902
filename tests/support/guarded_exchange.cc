#include "tests/support/guarded_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>

#include "base/random.h"
#include "catalog/feedbacks.h"
#include "feedback/keeping.h"
#include "tests/support/data.h"
#include "tests/support/recording_carrier.h"

namespace sluice::support {
namespace {

constexpr std::uint32_t kLegsMax = 64;  // of one exchange; more is taken for endless
constexpr std::uint64_t kSeed = 3;
constexpr std::uint64_t kTensorId = 0x2001;

using Bytes = std::vector<std::byte>;

Bytes copy_of(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

// One worker's memory, exchange and traffic.
class GuardedExchange {
 public:
  GuardedExchange(const Codec& codec, const GuardedCase& guarded_case, const Extent& extent,
                  Carrier& carrier, const Tampering& tampering)
      : tampering_(carrier, extent.workers, tampering),
        record_(tampering_, extent.workers),
        gradient_(extent.count * sizeof(float), guarded_case.borders),
        mean_(extent.count * sizeof(float), guarded_case.borders),
        feedback_(std::move(*make_feedback(guarded_case.feedback))),
        kept_memory_(feedback_.info->memories.size() * extent.count * sizeof(float),
                     guarded_case.borders),
        state_(codec.plan(extent.tensor, extent.workers).state_size, guarded_case.borders),
        in_place_(guarded_case.in_place) {
    const Traits traits = codec.traits(extent.workers);
    model_.resize(traits.model_size);
    tally_.resize(traits.tally_count);
    fill_gradient(guarded_case.data, kSeed, kTensorId, extent.rank, gradient_.as<float>());
    fill_gradient(DataKind::normal, kSeed + 1, kTensorId, extent.rank, kept_memory_.as<float>());
    std::fill(state_.bytes().begin(), state_.bytes().end(), std::byte{0});
    // Unlike on any other rank, so that a coordinate nobody writes shows.
    std::fill(mean_.as<float>().begin(), mean_.as<float>().end(), unwritten(extent.rank));
    chunk_.extent = extent;
    chunk_.key = chunk_key(kSeed, 0, kTensorId);
    chunk_.gradient = gradient_.as<float>();
    chunk_.mean = in_place_ ? gradient_.as<float>() : mean_.as<float>();
    kept_ = {feedback_.kind.get(), feedback_.info->plain, {}};
    for (std::size_t i = 0; i < feedback_.info->memories.size(); ++i) {
      kept_.memories[i] = kept_memory_.as<float>().subspan(i * extent.count, extent.count);
    }
    chunk_.state = state_.bytes();
    chunk_.model = model_;
    chunk_.tally = tally_;
    worker.gradient.assign(chunk_.gradient.begin(), chunk_.gradient.end());
    worker.input = worker.gradient;
    if (kept_.kind != nullptr) {
      kept_.kind->before(chunk_.gradient, kept_.memories, worker.input);
    }
    remember();
    begin(codec, guarded_case.borders);
  }

  // Makes one turn if the carrier has an answer; whether there was one.
  bool advance() {
    if (worker.end != GuardedWorker::End::none) return false;
    const auto answers = record_.take(ticket_);
    if (!answers && answers.error().code == Code::pending) return flush();
    if (!answers) {
      fail(answers.error());
    } else {
      turn(spread(*answers));
    }
    return true;
  }

  // Of carriers that send exchanges together; whether that brought something.
  bool flush() {
    const Result<bool> went = record_.flush();
    if (!went) fail(went.error());
    return !went || *went;
  }

  void start() { turn({}); }

  void finish(GuardedOutcome& outcome) {
    check_borders();
    if (!record_.complaint().empty()) complain(record_.complaint());
    if (outcome.complaint.empty()) outcome.complaint = complaint_;
    worker.mean.assign(chunk_.mean.begin(), chunk_.mean.end());
    worker.residual.assign(kept_.memories[0].begin(), kept_.memories[0].end());
    for (const float value : kept_memory_.as<float>()) {
      if (!std::isfinite(value)) complain("feedback keeps what is not finite");
    }
    outcome.workers.push_back(std::move(worker));
    if (chunk_.extent.rank != 0) return;
    outcome.down_sizes = record_.down_sizes(ticket_.sequence);
    outcome.host_size = host_->bytes().size();
    outcome.place_size = place_->bytes().size();
  }

  GuardedWorker worker;

 private:
  void complain(const std::string& what) {
    if (complaint_.empty()) complaint_ = fmt::format("worker {}: {}", chunk_.extent.rank, what);
  }

  void begin(const Codec& codec, GuardedMemory::Borders borders) {
    Arena measuring;
    Chunk bare;
    bare.extent = chunk_.extent;
    const bool fuses = codec.traits(chunk_.extent.workers).fuses_feedback;
    const Kept kind{kept_.kind, kept_.plain, {}};
    if (codec.begin(with_feedback(bare, kind, fuses, measuring), measuring) != nullptr) {
      complain("a measuring begin made an exchange");
    }
    host_.emplace(measuring.host_used(), borders);
    place_.emplace(measuring.place_used(), borders);
    Arena arena(host_->bytes(), place_->bytes());
    exchange_ = codec.begin(with_feedback(chunk_, kept_, fuses, arena), arena);
    if (arena.host_used() != measuring.host_used() ||
        arena.place_used() != measuring.place_used()) {
      complain(fmt::format("took {} + {} bytes of memory, promised were {} + {}", arena.host_used(),
                           arena.place_used(), measuring.host_used(), measuring.place_used()));
    }
    check_untouched("begin");
  }

  void remember() {
    before_ = {copy_of(gradient_.bytes()),
               copy_of(mean_.bytes()),
               copy_of(kept_memory_.bytes()),
               copy_of(state_.bytes()),
               model_,
               copy_of(std::as_bytes(std::span(tally_)))};
  }

  void check_untouched(const char* when) {
    static constexpr std::array kNames{"gradient", "mean", "memory", "state", "model", "tally"};
    const std::array<std::span<const std::byte>, 6> now{
        gradient_.bytes(), mean_.bytes(), kept_memory_.bytes(),
        state_.bytes(),    model_,        std::as_bytes(std::span(tally_))};
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (!std::equal(now[i].begin(), now[i].end(), before_[i].begin(), before_[i].end())) {
        complain(fmt::format("{} was written before done: {}", kNames[i], when));
      }
    }
  }

  // After done: what is only ever read.
  void check_inputs() {
    const auto gradient = gradient_.bytes();
    if (!in_place_ && !std::equal(gradient.begin(), gradient.end(), before_[0].begin())) {
      complain("the gradient was written");
    }
    if (model_ != before_[4]) complain("the model state was written by an exchange");
  }

  void check_borders() {
    for (const GuardedMemory* memory :
         {&gradient_, &mean_, &kept_memory_, &state_, &*host_, &*place_}) {
      if (!memory->intact()) complain("wrote beyond its memory");
    }
  }

  void fail(const Error& error) {
    worker.end = GuardedWorker::End::failed;
    worker.error = error;
    check_untouched("error");
  }

  void turn(std::span<const Answer> answers) {
    while (++turns_ <= kLegsMax) {
      const Result<Leg> leg = exchange_->next(answers);
      if (!leg) return fail(leg.error());
      if (leg->kind == Leg::Kind::done) {
        worker.end = GuardedWorker::End::done;
        return check_inputs();
      }
      check_untouched("ask");
      if (leg->kind == Leg::Kind::wait) return complain("waits, though nothing is on a device");
      rounds_ = leg->rounds;
      posted_.clear();
      for (const Round& round : rounds_) {
        if (round.what.count != 0) posted_.push_back(round);
      }
      if (rounds_.empty()) return complain("asks for no rounds");
      if (!posted_.empty()) return post();
      answers = spread({});
    }
    complain("does not come to an end");
  }

  void post() {
    const Status posted = record_.post(ticket_, {}, posted_);
    if (!posted) fail(posted.error());
  }

  // As a group does, but also with too few or too many answers.
  std::span<const Answer> spread(std::span<const Answer> answers) {
    answers_.clear();
    std::size_t taken = 0;
    for (const Round& round : rounds_) {
      if (round.what.count == 0) {
        answers_.emplace_back();
      } else if (taken < answers.size()) {
        answers_.push_back(answers[taken++]);
      }
    }
    for (; taken < answers.size(); ++taken) answers_.push_back(answers[taken]);
    return answers_;
  }

  TamperingCarrier tampering_;
  RecordingCarrier record_;
  GuardedMemory gradient_;
  GuardedMemory mean_;
  NamedFeedback feedback_;
  GuardedMemory kept_memory_;  // of feedback, one memory after the other
  Kept kept_;
  GuardedMemory state_;
  bool in_place_;
  Bytes model_;
  std::vector<std::uint64_t> tally_;
  std::array<Bytes, 6> before_;
  Chunk chunk_;
  std::optional<GuardedMemory> host_;
  std::optional<GuardedMemory> place_;
  Exchange* exchange_ = nullptr;
  Ticket ticket_{0, 1};
  std::uint32_t turns_ = 0;
  std::span<const Round> rounds_;
  std::vector<Round> posted_;
  std::vector<Answer> answers_;
  std::string complaint_;
};

}  // namespace

std::string describe(const GuardedCase& guarded_case) {
  return fmt::format("{} coordinates, {} workers, {} data, missing {}, feedback {}{}",
                     guarded_case.count, guarded_case.workers, name_of(guarded_case.data),
                     name_of(guarded_case.missing), guarded_case.feedback,
                     guarded_case.in_place ? ", in place" : "");
}

GuardedOutcome run_exchange(const Codec& codec, const CarrierInfo& carrier,
                            const GuardedCase& guarded_case, const Tampering& tampering) {
  Scenario scenario;
  scenario.count = guarded_case.count;
  scenario.workers = guarded_case.workers;
  scenario.missing = guarded_case.missing;
  Tensor tensor = tensors_of(scenario)[0];
  tensor.id = kTensorId;
  const Plan plan = codec.plan(tensor, guarded_case.workers);
  Extent extent{tensor, 0, std::min(guarded_case.count, plan.count_max), 0, guarded_case.workers};
  auto world = world_of(carrier, scenario, {});
  GuardedOutcome outcome;
  if (!world) {
    outcome.complaint = world.error().message;
    return outcome;
  }
  std::vector<std::unique_ptr<GuardedExchange>> exchanges;
  for (extent.rank = 0; extent.rank < guarded_case.workers; ++extent.rank) {
    exchanges.push_back(std::make_unique<GuardedExchange>(codec, guarded_case, extent,
                                                          (*world)->port(extent.rank), tampering));
  }
  for (const auto& exchange : exchanges) exchange->start();
  for (bool moved = true; moved;) {
    moved = false;
    for (const auto& exchange : exchanges) moved = exchange->advance() || moved;
  }
  for (const auto& exchange : exchanges) exchange->finish(outcome);
  return outcome;
}

}  // namespace sluice::support
