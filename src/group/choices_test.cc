// A codec per tensor: choices, what is refused, and what each codec has to itself.
#include "group/choices_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice {
namespace {

const GroupOptions kFed{.seed = 9, .feedback = "ef"};

std::vector<std::byte> model_of(Memory& memory, Choice choice) {
  return {memory.model(choice).begin(), memory.model(choice).end()};
}
bool is_new(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte one) { return one == std::byte{0}; });
}

TEST(Choices, TheSameSettledSpecIsTheSameNumber) {
  const auto fed = std::move(*Memory::make(kFed));
  EXPECT_EQ(offer(*fed, "f32"), 0u);
  EXPECT_EQ(offer(*fed, "tide"), 1u);
  EXPECT_EQ(offer(*fed, "tide:down=narrow"), 1u) << "what auto means with feedback";
  EXPECT_EQ(offer(*fed, "tide:down=full"), 2u);
  EXPECT_EQ(offer(*fed, "f32"), 0u);
  EXPECT_EQ(fed->codec_count(), 3u);
  EXPECT_EQ(fed->spec(1), "tide:down=narrow");
  EXPECT_EQ(fed->find("tide:down=full"), 2u);
  EXPECT_EQ(fed->find("tide"), 3u) << "not settled, so none";
  const auto bare = std::move(*Memory::make({}));
  offer(*bare, "tide");
  EXPECT_EQ(bare->spec(Memory::kExact), "f32") << "every memory has it";
  EXPECT_EQ(bare->spec(1), "tide:down=round");
  EXPECT_EQ(bare->specs(), "") << "nobody has chosen it";
}

TEST(Choices, TheCodecLivesAsLongAsTheMemory) {
  const auto memory = std::move(*Memory::make({}));
  NamedCodec made = std::move(*make_codec("fixed"));
  const std::shared_ptr<const Codec> shared = std::move(made.codec);
  const Choice choice = *memory->offer(made.spec, shared);
  EXPECT_EQ(shared.use_count(), 2);
  EXPECT_EQ(*memory->offer(made.spec, shared), choice);
  EXPECT_EQ(shared.use_count(), 2);
}

class Refusals : public ::testing::Test {
 protected:
  Refusals() : memory_(std::move(*Memory::make(kFed))) {
    const std::vector<Tensor> tensors{{1, 10, 100}, {2, 1, 17}};
    EXPECT_EQ(said(memory_->add(tensors, offer(*memory_, "tide:bits=1"))), "");
    const Tensor rows{3, 50, 4};
    EXPECT_EQ(said(memory_->add_rows({&rows, 1}, offer(*memory_, "lossless"))), "");
    std::fill(memory_->residual(0).begin(), memory_->residual(0).end(), 0.5f);
    std::fill(memory_->model(1).begin(), memory_->model(1).end(), std::byte{3});
    before_ = memory_->save();
  }
  void expect_refused(const Verdict& verdict, const std::string& words) {
    EXPECT_NE(said(verdict).find(words), std::string::npos) << said(verdict);
    EXPECT_EQ(memory_->save(), before_);
    EXPECT_EQ(memory_->tensors().size(), 3u);
  }

  std::unique_ptr<Memory> memory_;
  std::vector<std::byte> before_;
};

TEST_F(Refusals, FeedbackThatTheCodecDoesNotTakeUnlessTensorsBringRows) {
  const Tensor more{4, 1, 100};
  const std::vector<std::uint32_t> first{0};
  for (const char* spec : {"bf16", "lhc"}) {
    const Choice choice = offer(*memory_, spec);
    expect_refused(memory_->add({&more, 1}, choice), "accepted: feedback none");
    expect_refused(memory_->add({}, choice), "accepted: feedback none");
    expect_refused(memory_->choose(first, choice), "accepted: feedback none");
    const std::vector<std::uint32_t> rows{2};
    EXPECT_EQ(said(memory_->choose(rows, choice)), "") << spec;
    EXPECT_EQ(said(memory_->choose(rows, memory_->find("lossless"))), "");
  }
}

TEST_F(Refusals, CodecsWithMemoryOfAModelForTensorsThatBringRows) {
  const Tensor more{4, 1, 100};
  expect_refused(memory_->add_rows({&more, 1}, 1), "memory of a model");
  const std::vector<std::uint32_t> rows{2};
  expect_refused(memory_->choose(rows, 1), "memory of a model");
}

TEST_F(Refusals, TensorsAndCodecsThatAreNotThere) {
  const Tensor more{4, 1, 100};
  const std::vector<std::uint32_t> tensors{0, 3};
  expect_refused(memory_->choose(tensors, offer(*memory_, "f32")), "tensor 3; accepted: below 3");
  const std::vector<std::uint32_t> first{0};
  expect_refused(memory_->choose(first, 3), "codec 3 of the table; accepted: below 3");
  expect_refused(memory_->add({&more, 1}, 3), "codec 3");
  expect_refused(memory_->add_rows({&more, 1}, 3), "codec 3");
}

// 17 coordinates have two scales of 12 bits, which a bit each does not pay.
TEST_F(Refusals, TensorsThatACodecIsGivenOrLeftWith) {
  const std::vector<std::uint32_t> first{0};
  const Choice exact = offer(*memory_, "f32");
  expect_refused(memory_->choose(first, exact), "bits=1 for 17 coordinates");
  const std::vector<std::uint32_t> second{1};
  expect_refused(memory_->choose(second, offer(*memory_, "tide:bits=1.25")),
                 "bits=1.25 for 17 coordinates");
  const std::vector<std::uint32_t> both{0, 1};
  EXPECT_EQ(said(memory_->choose(both, exact)), "");
}

// Of tensors that have nothing to say about each other.
TEST(Choices, EachCodecHasItsOwnTallyModelAndBudget) {
  const std::vector<Tensor> tensors{{1, 10, 100}, {2, 20, 100}, {3, 10, 100}};
  Choosers mixed(tensors, kFed);
  mixed.add({"tide:bits=2", "tide:bits=4", "f32"});
  Choosers first({tensors[0]}, kFed);
  first.add({"tide:bits=2"});
  Choosers second({tensors[1]}, kFed);
  second.add({"tide:bits=4"});
  for (std::uint64_t step = 0; step < 3; ++step) {
    ASSERT_EQ(mixed.run(step), "");
    ASSERT_EQ(first.run(step), "");
    ASSERT_EQ(second.run(step), "");
    EXPECT_EQ(mixed.means[0], first.means[0]) << step;
    EXPECT_EQ(mixed.means[1], second.means[0]) << step;
    Memory& memory = *mixed.memories[1];
    EXPECT_EQ(model_of(memory, 1), model_of(*first.memories[1], 1)) << step;
    EXPECT_EQ(model_of(memory, 2), model_of(*second.memories[1], 1)) << step;
    EXPECT_NE(model_of(memory, 1), model_of(memory, 2));
    EXPECT_TRUE(std::equal(memory.totals(1).begin(), memory.totals(1).end(),
                           first.memories[1]->totals(1).begin()));
    EXPECT_TRUE(memory.totals(Memory::kExact).empty());
  }
}

TEST(Choices, AChangeStartsTheModelsAnewOfTheCodecsThatTensorsLeaveAndComeTo) {
  Choosers job({{1, 10, 100}, {2, 10, 100}, {3, 10, 100}}, kFed);
  job.add({"tide:bits=2", "tide:bits=3,scales=previous", "tide:bits=4"});
  ASSERT_EQ(job.run(0), "");
  Memory& memory = *job.memories[0];
  const auto third = model_of(memory, 3);
  const std::vector<float> kept(memory.residual(1).begin(), memory.residual(1).end());
  for (Choice choice = 1; choice <= 3; ++choice) EXPECT_FALSE(is_new(model_of(memory, choice)));
  EXPECT_FALSE(is_new(memory.state(1)));
  job.choose(1, "tide:bits=3,scales=previous");
  EXPECT_FALSE(is_new(memory.state(1))) << "it had that choice";
  EXPECT_FALSE(is_new(model_of(memory, 2)));
  job.choose(1, "tide:bits=2");
  EXPECT_TRUE(is_new(model_of(memory, 1)));
  EXPECT_TRUE(is_new(model_of(memory, 2)));
  EXPECT_EQ(model_of(memory, 3), third) << "nobody moved";
  EXPECT_TRUE(memory.state(1).empty());
  EXPECT_TRUE(std::equal(kept.begin(), kept.end(), memory.residual(1).begin()));
  ASSERT_EQ(job.run(1), "");
  EXPECT_FALSE(is_new(model_of(memory, 1)));
  EXPECT_TRUE(is_new(model_of(memory, 2))) << "nobody has it";
  job.choose(1, "tide:bits=3,scales=previous");
  EXPECT_FALSE(memory.state(1).empty());
  EXPECT_TRUE(is_new(memory.state(1)));
}

// From then on it is as if the tensors had always been together: the budget is over both.
TEST(Choices, ABudgetIsComputedAnewWhenATensorMoves) {
  const std::vector<Tensor> tensors{{1, 10, 100}, {2, 20, 100}};
  Choosers moved(tensors);
  moved.add({"tide:bits=2", "f32"});
  ASSERT_EQ(moved.run(0), "");
  moved.choose(1, "tide:bits=2");
  Choosers always(tensors);
  always.add({"tide:bits=2", "tide:bits=2"});
  for (std::uint64_t step = 1; step < 4; ++step) {
    ASSERT_EQ(moved.run(step), "");
    ASSERT_EQ(always.run(step), "");
    EXPECT_EQ(moved.means, always.means) << step;
    EXPECT_EQ(model_of(*moved.memories[0], 0), model_of(*always.memories[0], 0)) << step;
  }
}

TEST(Choices, MemoriesAreMadeWhenAChoiceFirstLosesSomethingAndThenStay) {
  const auto memory = std::move(*Memory::make(kFed));
  const Tensor tensor{1, 10, 10};
  const Choice exact = offer(*memory, "f32");
  ASSERT_EQ(said(memory->add({&tensor, 1}, exact)), "");
  EXPECT_TRUE(memory->residual(0).empty());
  const std::vector<std::uint32_t> first{0};
  ASSERT_EQ(said(memory->choose(first, offer(*memory, "fixed"))), "");
  ASSERT_EQ(memory->residual(0).size(), 100u);
  memory->residual(0)[7] = 3.0f;
  ASSERT_EQ(said(memory->choose(first, exact)), "");
  ASSERT_EQ(memory->residual(0).size(), 100u);
  EXPECT_EQ(memory->residual(0)[7], 3.0f);
  const Tensor kept{2, 1, 5};
  ASSERT_EQ(said(memory->add({&kept, 1}, exact, Memory::Keeps::all)), "");
  EXPECT_EQ(memory->residual(1).size(), 5u);
  const Tensor rows{3, 1, 5};
  ASSERT_EQ(said(memory->add_rows({&rows, 1}, exact)), "");
  EXPECT_TRUE(memory->residual(2).empty());
  EXPECT_TRUE(memory->brings_rows(2));
}

// Means times workers plus residuals are what was given, through any choices; after an exact codec
// nothing is owed.
TEST(Choices, NothingIsLostWhenTheyChange) {
  Choosers job({{1, 10, 100}}, kFed);
  job.add({"tide:bits=2"});
  std::vector<double> owed(1000);
  const std::vector<std::string> specs{"tide:bits=2",   "fixed",  "f32",
                                       "tide:bits=1.5", "blocks", "thc"};
  const auto check = [&](const std::string& spec) {
    double most = 0;
    for (std::size_t i = 0; i < owed.size(); ++i) {
      double residuals = 0;
      for (const auto& memory : job.memories) residuals += memory->residual(0)[i];
      most = std::max(most, std::fabs(residuals));
      // In every step and for every worker two roundings of values below 4: input and mean.
      const double bound = static_cast<double>(specs.size()) * Choosers::kWorkers * 2 * 0x1p-23;
      ASSERT_NEAR(owed[i], residuals, bound) << spec << ", " << i;
    }
    if (spec == "f32") {
      EXPECT_EQ(most, 0) << "an exact codec empties them";
    } else if (spec.starts_with("tide")) {
      EXPECT_GT(most, 0.01) << "shows nothing";
    }
  };
  for (std::uint64_t step = 0; step < specs.size(); ++step) {
    job.choose(0, specs[step]);
    ASSERT_EQ(job.run(step), "") << specs[step];
    for (std::size_t i = 0; i < owed.size(); ++i) {
      for (std::uint32_t rank = 0; rank < Choosers::kWorkers; ++rank) {
        owed[i] += job.gradient(step, rank, 0)[i];
      }
      owed[i] -= Choosers::kWorkers * double{job.means[0][i]};
    }
    check(specs[step]);
  }
}

// Also of tensors that have the same choice everywhere: the codec's budget is not the same.
TEST(Choices, RanksThatDisagreeAreToldSoByTheFirstExchange) {
  for (const bool and_back : {false, true}) {
    Choosers job({{1, 10, 100}, {2, 10, 100}});
    job.add({"tide:bits=2", "tide:bits=2"});
    ASSERT_EQ(job.run(0), "");
    const std::vector<std::uint32_t> second{1};
    Memory& memory = *job.memories[1];
    ASSERT_EQ(said(memory.choose(second, offer(memory, "tide:bits=3"))), "");
    if (and_back) {
      ASSERT_EQ(said(memory.choose(second, memory.choice(0))), "");
    }
    const std::string told = job.run(1);
    EXPECT_NE(told.find("they do not reduce the same codec or its options"), std::string::npos)
        << told;
  }
}

TEST(Choices, DigestsAndTopicsNameThem) {
  const auto memory = std::move(*Memory::make({.workers = 2}));
  const Choice exact = offer(*memory, "f32");
  const Choice other = offer(*memory, "fixed");
  const Tensor tensor{1, 1, 8};
  ASSERT_EQ(said(memory->add({&tensor, 1}, exact)), "");
  Tally tally;
  tally.reset(*memory);
  std::vector<float> values(8);
  const Chunk chunk = memory->chunk(1, 0, 0, values, values, tally);
  EXPECT_NE(memory->digest(chunk, exact), memory->digest(chunk, other));
  EXPECT_NE(memory->topic(chunk, 1, exact).codec, memory->topic(chunk, 1, other).codec);
}

TEST(Choices, ATensorThatBringsRowsIsAsLargeAsItsJob) {
  const auto memory = std::move(*Memory::make({.rank = 1, .workers = 2, .seed = 5}));
  const Tensor tensor{8, 1000, 4};
  ASSERT_EQ(said(memory->add_rows({&tensor, 1}, offer(*memory, "lossless"))), "");
  const Choice choice = memory->choice(0);
  const Tensor all{8, 3, 4};
  Tally tally;
  tally.reset(*memory);
  std::vector<float> values(12);
  std::vector<std::byte> state(memory->codec(choice).plan(all, 2).state_size);
  const Chunk chunk = memory->chunk_of_rows(6, 0, all, 0, values, values, state, tally);
  EXPECT_EQ(chunk.extent.tensor, all);
  EXPECT_EQ(chunk.extent.count, 12u);
  EXPECT_EQ(chunk.extent.rank, 1u);
  EXPECT_EQ(chunk.key, chunk_key(5, 6, 8));
  EXPECT_EQ(chunk.state.data(), state.data());
  EXPECT_EQ(chunk.tally.data(), tally.of(choice).data());
  EXPECT_TRUE(chunk.residual.empty());
}

TEST(Choices, AWorkerAlonePaysAllAndKeepsWhatIsNotFinite) {
  const auto memory = std::move(*Memory::make({.feedback = "ef", .keep_before = true}));
  const std::vector<Tensor> tensors{{1, 1, 4}, {2, 1, 4}};
  ASSERT_EQ(said(memory->add({&tensors[0], 1}, offer(*memory, "fixed"))), "");
  ASSERT_EQ(said(memory->add({&tensors[1], 1}, offer(*memory, "f32"))), "");
  const float infinite = std::numeric_limits<float>::infinity();
  const std::vector<float> kept{0.5f, 1.0f, -2.0f, 4.0f};
  std::copy(kept.begin(), kept.end(), memory->residual(0).begin());
  std::vector<float> gradient{1.0f, infinite, 2.0f, 3.0f};
  memory->pay(0, gradient);
  EXPECT_EQ(gradient, (std::vector<float>{1.5f, infinite, 0.0f, 7.0f}));
  const auto now = memory->residual(0);
  EXPECT_EQ(std::vector<float>(now.begin(), now.end()), (std::vector<float>{0, 1.0f, 0, 0}));
  memory->pay(1, gradient);
  EXPECT_EQ(gradient[0], 1.5f) << "nothing is owed";
  EXPECT_TRUE(memory->undo_step());
  EXPECT_EQ(std::vector<float>(now.begin(), now.end()), kept);
}

// Velocity and residual of momentum 0.5: the input is 0.5 u + g + v, and all of it is sent.
TEST(Choices, AWorkerAlonePaysAllOfWhatAnyFeedbackKeeps) {
  const auto memory = std::move(*Memory::make({.feedback = "dgc:momentum=0.5"}));
  const Tensor tensor{1, 1, 2000};
  ASSERT_EQ(said(memory->add({&tensor, 1}, offer(*memory, "fixed"))), "");
  const Memories kept = memory->memories(0);
  std::fill(kept[0].begin(), kept[0].end(), 3.0f);
  std::fill(kept[1].begin(), kept[1].end(), 4.0f);
  std::vector<float> gradient(2000, 1.0f);
  gradient[1999] = std::numeric_limits<float>::infinity();
  memory->pay(0, gradient);
  for (std::size_t i = 0; i < 1999; ++i) {
    ASSERT_EQ(gradient[i], 6.0f) << i;
    ASSERT_EQ(kept[0][i], 0.0f) << i;
    ASSERT_EQ(kept[1][i], 0.0f) << i;
  }
  EXPECT_EQ(kept[0][1999], 3.0f);
  EXPECT_EQ(kept[1][1999], 4.0f);
}

TEST(Tally, HasZerosForEveryCodecAndAddsUp) {
  const auto memory = std::move(*Memory::make({}));
  const Tensor tensor{1, 10, 100};
  ASSERT_EQ(said(memory->add({&tensor, 1}, offer(*memory, "tide"))), "");
  Tally early;
  early.reset(*memory);
  offer(*memory, "f32");
  const Choice second = offer(*memory, "tide:bits=3");
  Tally tally;
  tally.reset(*memory);
  EXPECT_EQ(tally.codec_count(), 3u);
  EXPECT_TRUE(tally.of(Memory::kExact).empty());
  ASSERT_EQ(tally.of(1).size(), tally.of(second).size());
  ++tally.of(1)[0];
  tally.of(second)[0] += 5;
  early.of(1)[0] += 2;
  memory->count(tally);
  memory->count(early);
  memory->end_step();
  EXPECT_EQ(memory->totals(1)[0], 3u);
  EXPECT_EQ(memory->totals(second)[0], 5u);
  tally.reset(*memory);
  EXPECT_EQ(tally.of(second)[0], 0u);
}

}  // namespace
}  // namespace sluice
