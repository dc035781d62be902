#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "carrier/local/local.h"
#include "catalog/codecs.h"
#include "group/group.h"
#include "group/saved_signature_test.h"

namespace sluice {
namespace {

using Bytes = std::vector<std::byte>;
using Floats = std::vector<float>;

// Counts: each chunk adds one to its tensor's state and to the tally, each step adds the tally to
// the model's state. The mean is the gradient plus the count so far, so that lost memory shows.
class CountingExchange final : public Exchange {
 public:
  explicit CountingExchange(const Chunk& chunk) : chunk_(chunk) {}
  Result<Leg> next(std::span<const Answer>) override {
    const auto count = load_le<std::uint32_t>(chunk_.state);
    for (std::size_t i = 0; i < chunk_.mean.size(); ++i) {
      chunk_.mean[i] = chunk_.gradient[i] + static_cast<float>(count) +
                       100 * static_cast<float>(load_le<std::uint32_t>(chunk_.model));
    }
    store_le(chunk_.state, 0, count + 1);
    chunk_.tally[0] += 1;
    if (!chunk_.residual.empty()) chunk_.residual[0] += 0.5f;
    if (chunk_.keeper != nullptr) {
      chunk_.keeper->held(0, static_cast<std::uint32_t>(chunk_.mean.size()));
    }
    return done();
  }

 private:
  Chunk chunk_;
};

class CountingCodec final : public Codec {
 public:
  explicit CountingCodec(std::size_t state = 4, std::size_t model = 4)
      : state_(state), model_(model) {}
  [[nodiscard]] Traits traits(std::uint32_t) const override {
    return {.fuses_feedback = true,
            .contraction = Contraction::always,
            .model_size = model_,
            .tally_count = 1};
  }
  [[nodiscard]] Plan plan(const Tensor&, std::uint32_t) const override {
    return {.multiple_of = 1, .count_max = 4, .state_size = state_};
  }
  Exchange* begin(const Chunk& chunk, Arena& arena) const override {
    return arena.make<CountingExchange>(chunk);
  }
  void end_step(std::span<const std::uint64_t> tally, std::span<std::byte> model) const override {
    store_le(model, 0, load_le<std::uint32_t>(model) + static_cast<std::uint32_t>(tally[0]));
  }

 private:
  std::size_t state_;
  std::size_t model_;
};

std::vector<Tensor> two_tensors() { return {{0xa, 2, 3}, {0xb, 1, 2}}; }

// What names a group, to be spoilt one field at a time.
struct Setup {
  std::uint32_t rank = 0;
  std::uint32_t workers = 1;
  std::string feedback = "ef";
  std::string spec = "count";
  std::vector<Tensor> tensors = two_tensors();
  std::size_t state = 4;
  std::size_t model = 4;
};

struct Holder {
  explicit Holder(const Setup& setup = {}) : codec(setup.state, setup.model) {
    WorldOptions options;
    options.workers = setup.workers;
    world = std::move(*local::make_world(options));
    group = std::move(
        *Group::make({.rank = setup.rank, .workers = setup.workers, .feedback = setup.feedback},
                     setup.spec, codec, world->port(setup.rank), setup.tensors));
  }
  Floats step(std::uint64_t number) {
    const Floats gradient(8, 1.0f);
    Floats mean(8);
    const std::vector<BucketEntry> entries{
        {0, std::span(gradient).first(6), std::span(mean).first(6)},
        {1, std::span(gradient).last(2), std::span(mean).last(2)}};
    EXPECT_TRUE(group->start(number, entries).has_value());
    EXPECT_TRUE(group->finish().has_value());
    return mean;
  }

  CountingCodec codec;
  std::unique_ptr<World> world;
  std::unique_ptr<Group> group;
};

template <class T>
void append(Bytes& into, T value) {
  into.resize(into.size() + sizeof(T));
  store_le(std::span(into), into.size() - sizeof(T), value);
}

void append(Bytes& into, const std::string& text) {
  for (const char c : text) into.push_back(static_cast<std::byte>(c));
}

// Group 0 of 1, two tensors, after one step: three chunks, written by hand.
Bytes hand_made() {
  Bytes saved;
  append(saved, std::string("SLUICEGS"));
  for (const std::uint32_t value : {2u, 0u, 1u, 1u, 2u}) append(saved, value);
  append(saved, std::string("ef"));
  for (const std::uint32_t value : {1u, 5u}) append(saved, value);  // one codec
  append(saved, std::string("count"));
  append(saved, std::uint64_t{4});
  append(saved, std::uint32_t{3});  // the model: three chunks so far
  append(saved, std::uint64_t{2});
  for (const std::uint64_t value : {0xau, 2u, 3u}) append(saved, value);
  for (const std::uint32_t value : {0u, 0u}) append(saved, value);  // its codec, all coordinates
  append(saved, std::uint64_t{4});
  append(saved, std::uint32_t{2});  // two chunks of four
  append(saved, std::uint32_t{1});  // one memory
  append(saved, std::uint64_t{6});
  for (const float value : {0.5f, 0.0f, 0.0f, 0.0f, 0.5f, 0.0f}) append(saved, value);
  for (const std::uint64_t value : {0xbu, 1u, 2u}) append(saved, value);
  for (const std::uint32_t value : {0u, 0u}) append(saved, value);
  append(saved, std::uint64_t{4});
  append(saved, std::uint32_t{1});
  append(saved, std::uint32_t{1});
  append(saved, std::uint64_t{2});
  for (const float value : {0.5f, 0.0f}) append(saved, value);
  saved.resize(saved.size() + 8);
  sign(saved);
  return saved;
}

// The same as version 1 had it.
Bytes hand_made_before() {
  Bytes saved;
  append(saved, std::string("SLUICEGS"));
  for (const std::uint32_t value : {1u, 0u, 1u, 1u, 5u}) append(saved, value);
  append(saved, std::string("count"));
  append(saved, std::uint64_t{4});
  append(saved, std::uint32_t{3});  // the model: three chunks so far
  append(saved, std::uint64_t{2});
  for (const std::uint64_t value : {0xau, 2u, 3u, 4u}) append(saved, value);
  append(saved, std::uint32_t{2});  // two chunks of four
  append(saved, std::uint64_t{6});
  for (const float value : {0.5f, 0.0f, 0.0f, 0.0f, 0.5f, 0.0f}) append(saved, value);
  for (const std::uint64_t value : {0xbu, 1u, 2u, 4u}) append(saved, value);
  append(saved, std::uint32_t{1});
  append(saved, std::uint64_t{2});
  for (const float value : {0.5f, 0.0f}) append(saved, value);
  saved.resize(saved.size() + 8);
  sign(saved);
  return saved;
}

void expect_refused(const Setup& setup, const Bytes& saved, Code code,
                    const std::vector<std::string>& mentioned) {
  Holder other(setup);
  const Bytes before = other.group->save();
  const Verdict verdict = other.group->load(saved);
  ASSERT_FALSE(verdict.has_value());
  EXPECT_EQ(verdict.error().code, code) << verdict.error().message;
  for (const std::string& one : mentioned) {
    EXPECT_NE(verdict.error().message.find(one), std::string::npos) << verdict.error().message;
  }
  EXPECT_EQ(other.group->save(), before) << "on refusal nothing has changed";
}

TEST(SavedState, HasTheBytesOfItsFormat) {
  Holder holder;
  holder.step(0);
  EXPECT_EQ(holder.group->save(), hand_made());
}

TEST(SavedState, OfTheFirstVersionLoads) {
  Holder holder;
  const Verdict loaded = holder.group->load(hand_made_before());
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(holder.group->save(), hand_made());
}

TEST(SavedState, ContinuesAsIfNothingHadHappened) {
  Holder first;
  for (std::uint64_t step = 0; step < 3; ++step) first.step(step);
  const Bytes saved = first.group->save();
  Holder second;
  ASSERT_TRUE(second.group->load(saved).has_value());
  EXPECT_EQ(second.group->save(), saved);
  EXPECT_EQ(second.group->residual(0)[0], 1.5f);
  const Floats continued = second.step(3);
  EXPECT_EQ(continued, first.step(3));
  EXPECT_NE(continued, Holder().step(3)) << "a fresh group would have shown";
  EXPECT_EQ(second.group->save(), first.group->save());
}

TEST(SavedState, RealCodecsComeBackWithTheirResiduals) {
  for (const Info& info : kCodecs) {
    const auto named = make_codec(info.name);
    const auto world = local::make_world({});
    const std::vector<Tensor> tensors{{1, 1, 300}, {2, 0, 1}};
    const bool fed = named->codec->traits(1).takes_feedback();
    const auto make = [&] {
      return std::move(*Group::make({.feedback = fed ? "ef" : "none"}, named->spec, *named->codec,
                                    (*world)->port(0), tensors));
    };
    const auto first = make();
    Floats gradient(300);
    for (std::size_t i = 0; i < 300; ++i) gradient[i] = 1.0f / static_cast<float>(i + 3);
    Floats mean(300);
    const std::vector<BucketEntry> entries{{0, gradient, mean}};
    ASSERT_TRUE(first->start(0, entries).has_value());
    ASSERT_TRUE(first->finish().has_value());
    const auto second = make();
    ASSERT_TRUE(second->load(first->save()).has_value()) << info.name;
    EXPECT_EQ(second->save(), first->save()) << info.name;
  }
}

// tests/data/saved has states of worker 0 of 2 as tide's first edition saved them, without a floor
// and with sums that feedback could not keep.
Bytes first_edition(const std::string& name) {
  const std::string path = std::string(SLUICE_TEST_DATA) + "/saved/" + name;
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> read((std::istreambuf_iterator<char>(file)), {});
  EXPECT_FALSE(read.empty()) << path;
  const auto bytes = std::as_bytes(std::span(read));
  return {bytes.begin(), bytes.end()};
}

std::unique_ptr<Group> group_of(const NamedCodec& codec, std::string_view feedback, World& world) {
  const Tensor tensor{5, 10, 100};
  return std::move(*Group::make({.workers = 2, .seed = 7, .feedback = std::string(feedback)},
                                codec.spec, *codec.codec, world.port(0), {&tensor, 1}));
}

TEST(SavedState, OfTheFirstEditionOfTideLoads) {
  struct Row {
    std::string file;
    std::string_view feedback;
    std::string spec;   // as a user writes it …
    std::string saved;  // … and as it is saved from now on
  };
  const std::vector<Row> rows{
      {"tide-first-edition-ef.state", "ef", "tide", "tide:down=narrow"},
      {"tide-first-edition-ef.state", "ef", "tide:floor=0,down=full", "tide:down=full,floor=0"},
      {"tide-first-edition-previous.state", "none", "tide:bits=3,scales=previous",
       "tide:bits=3,down=round,scales=previous"}};
  for (const Row& row : rows) {
    const auto world = local::make_world({.workers = 2});
    const auto codec = make_codec(row.spec);
    const auto group = group_of(*codec, row.feedback, **world);
    const Bytes before = first_edition(row.file);
    const Verdict loaded = group->load(before);
    ASSERT_TRUE(loaded.has_value()) << row.spec << ": " << loaded.error().message;
    const Bytes after = group->save();
    const auto text = [](const Bytes& bytes) {
      return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    EXPECT_NE(text(after).find(row.saved), std::string::npos) << row.spec;
    // The model's state stands before the number of tensors, what is kept before the checksum.
    const auto has = [&](std::size_t from, std::size_t size) {
      const auto first = before.begin() + static_cast<std::ptrdiff_t>(from);
      const auto last = first + static_cast<std::ptrdiff_t>(size);
      return std::search(after.begin(), after.end(), first, last) != after.end();
    };
    const std::size_t spec = load_le<std::uint32_t>(before, 24);
    const std::size_t model = load_le<std::uint64_t>(before, 28 + spec);
    EXPECT_TRUE(has(28 + spec, 8 + model + 8 + 24)) << row.spec << ": model, first tensor";
    const std::size_t at = 28 + spec + 8 + model + 8 + 24;
    const std::size_t state = load_le<std::uint64_t>(before, at);
    EXPECT_TRUE(has(at, 8 + state)) << row.spec << ": state";
    const std::size_t residuals = before.size() - 8 - (at + 8 + state);
    EXPECT_TRUE(has(at + 8 + state, residuals)) << row.spec << ": residuals";
  }
}

// The residuals are the same, and all else is as in a new group.
TEST(SavedState, OfOtherBitsBlocksScalesOrCodecKeepsResidualsAlone) {
  const Bytes saved = first_edition("tide-first-edition-ef.state");
  const auto world = local::make_world({.workers = 2});
  const auto tide = make_codec("tide");
  const auto same = group_of(*tide, "ef", **world);
  ASSERT_TRUE(same->load(saved).has_value());
  const Floats kept(same->residual(0).begin(), same->residual(0).end());
  EXPECT_NE(kept, Floats(1000));
  for (const std::string spec : {"tide:bits=3", "tide:block=64", "tide:scales=previous", "fixed"}) {
    const auto codec = make_codec(spec);
    const auto group = group_of(*codec, "ef", **world);
    Bytes fresh = group->save();
    ASSERT_TRUE(group->load(saved).has_value()) << spec;
    EXPECT_EQ(Floats(group->residual(0).begin(), group->residual(0).end()), kept) << spec;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      store_le(std::span(fresh), fresh.size() - 8 - 4 * (kept.size() - i), kept[i]);
    }
    sign(fresh);
    EXPECT_EQ(group->save(), fresh) << spec;
  }
}

TEST(SavedState, OfAnotherWorkerOrFeedbackIsRefused) {
  const Bytes saved = hand_made();
  expect_refused({.rank = 1, .workers = 2}, saved, Code::mismatch,
                 {"worker 0 of 1", "worker 1 of 2"});
  expect_refused({.workers = 2}, saved, Code::mismatch, {"worker 0 of 1", "worker 0 of 2"});
  // Of as many workers: a residual is its worker's alone.
  Bytes of_two = saved;
  store_le(std::span(of_two), 16, std::uint32_t{2});
  sign(of_two);
  expect_refused({.rank = 1, .workers = 2}, of_two, Code::mismatch,
                 {"worker 0 of 2", "worker 1 of 2"});
  EXPECT_TRUE(Holder({.workers = 2}).group->load(of_two).has_value());
  expect_refused({.feedback = "none"}, saved, Code::mismatch, {"feedback kind 1"});
}

TEST(SavedState, OfOtherTensorsOrSizesIsRefused) {
  const Bytes saved = hand_made();
  expect_refused({.tensors = {{0xa, 2, 3}}}, saved, Code::mismatch, {"2 tensors", "accepted: 1"});
  expect_refused({.tensors = {{0xa, 2, 3}, {0xb, 1, 2}, {0xc, 1, 1}}}, saved, Code::mismatch,
                 {"2 tensors", "accepted: 3"});
  expect_refused({.tensors = {{0xb, 1, 2}, {0xa, 2, 3}}}, saved, Code::mismatch,
                 {"tensor 0 is a of 2 x 3", "b of 1 x 2"});
  expect_refused({.tensors = {{0xa, 3, 2}, {0xb, 1, 2}}}, saved, Code::mismatch,
                 {"2 x 3", "3 x 2"});
  expect_refused({.state = 8}, saved, Code::mismatch, {"4 state bytes", "expected 8"});
  expect_refused({.model = 8}, saved, Code::mismatch, {"4 bytes of model state", "expected 8"});
}

TEST(SavedState, EveryTruncationIsMalformed) {
  for (const Bytes& saved : {hand_made(), hand_made_before()}) {
    for (std::size_t size = 0; size < saved.size(); ++size) {
      Holder other;
      const Verdict verdict = other.group->load(std::span(saved).first(size));
      ASSERT_FALSE(verdict.has_value()) << size;
      EXPECT_EQ(verdict.error().code, Code::malformed) << size << ": " << verdict.error().message;
      Bytes longer = saved;
      longer.resize(saved.size() + 1 + size);
      EXPECT_FALSE(other.group->load(longer).has_value()) << size << " more";
    }
  }
}

TEST(SavedState, EveryTruncationWithARightChecksumIsRefusedToo) {
  for (const Bytes& saved : {hand_made(), hand_made_before()}) {
    for (std::size_t size = 8; size < saved.size(); ++size) {
      Bytes cut(saved.begin(), saved.begin() + static_cast<std::ptrdiff_t>(size));
      sign(cut);
      Holder other;
      EXPECT_FALSE(other.group->load(cut).has_value()) << size;
    }
  }
}

TEST(SavedState, MoreBytesThanTheLastTensorsAreRefusedThoughTheChecksumIsRight) {
  for (const Bytes& saved : {hand_made(), hand_made_before()}) {
    for (const std::size_t more : {1u, 4u, 8u, 100u}) {
      Bytes longer = saved;
      longer.insert(longer.end() - 8, more, std::byte{0});
      sign(longer);
      expect_refused({}, longer, Code::malformed, {"followed by more bytes"});
    }
  }
}

TEST(SavedState, EveryFlippedBitIsRefused) {
  Holder other;
  const Bytes before = other.group->save();
  for (const Bytes& saved : {hand_made(), hand_made_before()}) {
    for (std::size_t at = 0; at < saved.size(); ++at) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        Bytes flipped = saved;
        flipped[at] ^= static_cast<std::byte>(1u << bit);
        ASSERT_FALSE(other.group->load(flipped).has_value()) << at << "." << bit;
      }
    }
  }
  EXPECT_EQ(other.group->save(), before);
}

TEST(SavedState, SaysWhatIsWrongWithTheBytes) {
  Bytes wrong = hand_made();
  wrong[0] = std::byte{'X'};
  expect_refused({}, wrong, Code::malformed, {"SLUICEGS"});
  wrong = hand_made();
  for (const unsigned version : {0u, 3u}) {
    wrong[8] = static_cast<std::byte>(version);
    expect_refused({}, wrong, Code::malformed,
                   {"version " + std::to_string(version), "accepted: 1 to 2"});
  }
  wrong = hand_made();
  wrong.back() ^= std::byte{1};
  expect_refused({}, wrong, Code::malformed, {"checksum"});
  expect_refused({}, {}, Code::malformed, {"cut off"});
}

TEST(SavedState, ResidualsThatAreNotFiniteAreRefused) {
  const Bytes right = hand_made();
  const std::size_t last = right.size() - 12;  // the last residual
  for (const std::uint32_t bits : {0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7f800001u}) {
    Bytes wrong = right;
    store_le(std::span(wrong), last, bits);
    sign(wrong);
    expect_refused({}, wrong, Code::malformed, {"tensor 1", "not finite"});
  }
  Bytes large = right;
  store_le(std::span(large), last, std::numeric_limits<float>::max());
  sign(large);
  EXPECT_TRUE(Holder().group->load(large).has_value());
}

TEST(SavedState, HugeSizesWithARightChecksumAreRefused) {
  const Bytes right = hand_made();
  // Sizes of the feedback's spec, the codec's, model, first state and first residual; numbers of
  // codecs, tensors and memories.
  for (const std::size_t at : {24u, 30u, 34u, 43u, 55u, 95u, 107u, 111u}) {
    for (const std::uint64_t value :
         {~std::uint64_t{0}, std::uint64_t{1} << 62, std::uint64_t{1} << 32, std::uint64_t{1000}}) {
      Bytes wrong = right;
      if (at == 24 || at == 30 || at == 34 || at == 107) {
        store_le(std::span(wrong), at, static_cast<std::uint32_t>(value));
      } else {
        store_le(std::span(wrong), at, value);
      }
      sign(wrong);
      Holder other;
      EXPECT_FALSE(other.group->load(wrong).has_value()) << at << " " << value;
    }
  }
}

}  // namespace
}  // namespace sluice
