// Saved states of several workers: of as many as there are, of more, of fewer; and of tensors that
// become known one after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/bytes.h"
#include "group/choices_test.h"
#include "group/saved_signature_test.h"

namespace sluice {
namespace {

using Bytes = std::vector<std::byte>;

const std::vector<Tensor> kTensors{{1, 1, 5}, {2, 1, 3}, {3, 1, 4}};
const std::vector<std::string> kSpecs{"tide:scales=previous", "f32", "tide:bits=2"};

struct Job {
  std::uint32_t rank = 0;
  std::uint32_t workers = 1;
  std::string feedback = "ef";
  std::vector<std::string> specs = kSpecs;
  std::vector<Tensor> tensors = kTensors;
};

std::unique_ptr<Memory> make(const Job& job) {
  auto memory = std::move(*Memory::make(
      {.rank = job.rank, .workers = job.workers, .seed = 9, .feedback = job.feedback}));
  for (std::size_t i = 0; i < job.tensors.size(); ++i) {
    EXPECT_EQ(said(memory->add({&job.tensors[i], 1}, offer(*memory, job.specs[i]))), "");
  }
  return memory;
}

// What a worker's memory of a coordinate is before it is saved.
float value(std::uint32_t rank, std::size_t tensor, std::size_t which, std::size_t at) {
  return static_cast<float>(1 + rank) * 0.5f + static_cast<float>(100 * tensor + 10 * which + at);
}

void set(std::span<std::byte> bytes, unsigned value) {
  std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(value));
}
bool is(std::span<const std::byte> bytes, unsigned value) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [&](std::byte one) { return one == static_cast<std::byte>(value); });
}

void fill(Memory& memory, std::uint32_t rank) {
  for (std::size_t i = 0; i < memory.tensors().size(); ++i) {
    set(memory.state(i), 1 + rank);
    const auto memories = memory.memories(i);
    for (std::size_t which = 0; which < memory.memory_names().size(); ++which) {
      for (std::size_t at = 0; at < memories[which].size(); ++at) {
        memories[which][at] = value(rank, i, which, at);
      }
    }
  }
  for (std::size_t choice = 0; choice < memory.codec_count(); ++choice) {
    set(memory.model(static_cast<Choice>(choice)), 11 + rank);
  }
}

// The states of all workers of a job.
std::vector<Bytes> saved_by(Job job) {
  std::vector<Bytes> all;
  for (job.rank = 0; job.rank < job.workers; ++job.rank) {
    const auto memory = make(job);
    fill(*memory, job.rank);
    all.push_back(memory->save());
  }
  return all;
}

Verdict load(Memory& memory, const std::vector<Bytes>& all, const Memory::Loading& how = {}) {
  const std::vector<std::span<const std::byte>> spans(all.begin(), all.end());
  return memory.load(spans, how);
}

void expect_refused(Memory& memory, const std::vector<Bytes>& all, const std::string& words) {
  const Bytes before = memory.save();
  const Verdict verdict = load(memory, all);
  ASSERT_FALSE(verdict.has_value()) << words;
  EXPECT_EQ(verdict.error().code, Code::mismatch);
  EXPECT_NE(verdict.error().message.find(words), std::string::npos) << verdict.error().message;
  EXPECT_EQ(memory.save(), before) << words;
}

TEST(SavedRanks, AWorkerFindsItsOwnAmongAll) {
  const auto all = saved_by({.workers = 3});
  const auto memory = make({.rank = 1, .workers = 3});
  ASSERT_EQ(said(load(*memory, all)), "");
  EXPECT_EQ(memory->save(), all[1]);
  ASSERT_EQ(said(load(*memory, {all[1]})), "");
  EXPECT_EQ(memory->save(), all[1]);
  expect_refused(*memory, {all[2], all[0]}, "state of rank 0, 2; accepted: that of rank 1, or");
}

// Every worker's memories are somebody's, once.
TEST(SavedRanks, TheSumOfMemoriesIsKeptByMoreAndByFewer) {
  for (const char* feedback : {"ef", "dgc"}) {
    for (const auto& [before, now] : {std::pair{5u, 2u}, {2u, 3u}, {4u, 1u}, {1u, 2u}}) {
      auto all = saved_by({.workers = before, .feedback = feedback});
      std::reverse(all.begin(), all.end());  // The order of the list says nothing.
      for (std::uint32_t rank = 0; rank < now; ++rank) {
        const auto memory = make({.rank = rank, .workers = now, .feedback = feedback});
        fill(*memory, 7);
        ASSERT_EQ(said(load(*memory, all)), "");
        for (std::size_t i = 0; i < kTensors.size(); ++i) {
          EXPECT_TRUE(is(memory->state(i), 0)) << "codec state starts anew";
          const auto memories = memory->memories(i);
          for (std::size_t which = 0; which < memory->memory_names().size(); ++which) {
            for (std::size_t at = 0; at < memories[which].size(); ++at) {
              float sum = 0;
              for (std::uint32_t old = rank; old < before; old += now) {
                sum += value(old, i, which, at);
              }
              ASSERT_EQ(memories[which][at], sum) << before << " to " << now;
            }
          }
        }
        EXPECT_TRUE(is(memory->model(memory->choice(2)), 0));
      }
    }
  }
}

// Also on a worker that takes nobody's over: all ranks must have memories of the same tensors.
TEST(SavedRanks, WhatIsExactHereStillGetsTheMemoriesThatWereSaved) {
  const auto all = saved_by({.workers = 2});
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const auto memory = make({.rank = rank, .workers = 3, .specs = {"f32", "f32", "tide"}});
    EXPECT_TRUE(memory->residual(0).empty());
    ASSERT_EQ(said(load(*memory, all)), "");
    ASSERT_EQ(memory->residual(0).size(), 5u) << rank;
    EXPECT_EQ(memory->residual(0)[4], rank < 2 ? value(rank, 0, 0, 4) : 0.0f);
    EXPECT_TRUE(memory->residual(1).empty());
  }
}

TEST(SavedRanks, ThatAreNotThoseOfOneJobAreRefused) {
  const auto memory = make({.workers = 2});
  fill(*memory, 5);
  auto all = saved_by({.workers = 3});
  expect_refused(
      *memory, {all[0], all[2]},
      "states of ranks [0, 2] of 3; this job has 2 ranks; accepted: the states of all 3");
  expect_refused(*memory, {all[0], all[0], all[2]}, "states of ranks [0, 2] of 3");
  expect_refused(*memory, saved_by({.workers = 3, .feedback = "dgc"}),
                 "feedback kind 2 ('dgc'); accepted: kind 1 ('ef')");
  auto mixed = all;
  mixed[2] = saved_by({.workers = 3, .specs = {kSpecs[0], "f32", "tide:bits=3"}})[2];
  expect_refused(*memory, mixed, "state of rank 2: 3 of 1 x 4, codec 'tide:bits=3,down=narrow'");
  mixed[2] = saved_by({.workers = 3, .tensors = {{1, 1, 5}, {2, 1, 3}, {3, 2, 2}}})[2];
  expect_refused(*memory, mixed, "3 of 2 x 2");
  mixed[2] = saved_by({.workers = 4})[2];
  expect_refused(*memory, mixed, "3 tensors of a worker of 4; accepted: 3 of 3");
}

TEST(SavedRanks, MemoriesThatSumToInfinityAreRefused) {
  std::vector<Bytes> all;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto memory = make({.rank = rank, .workers = 2});
    memory->residual(2)[3] = std::numeric_limits<float>::max();
    all.push_back(memory->save());
  }
  expect_refused(*make({}), all, "tensor 2 has memories whose sum over ranks is not finite");
}

TEST(SavedRanks, TensorsAreFoundByTheirIdsInAnyOrder) {
  const auto all = saved_by({});
  const auto memory = make({.specs = {kSpecs[2], kSpecs[0], kSpecs[1]},
                            .tensors = {kTensors[2], kTensors[0], kTensors[1]}});
  ASSERT_EQ(said(load(*memory, all)), "");
  EXPECT_EQ(memory->residual(0)[3], value(0, 2, 0, 3));
  EXPECT_EQ(memory->residual(1)[4], value(0, 0, 0, 4));
  EXPECT_TRUE(is(memory->state(1), 1));
  EXPECT_TRUE(is(memory->model(memory->choice(0)), 11));
  expect_refused(*make({.tensors = {kTensors[0], kTensors[1], {4, 1, 4}}}), all,
                 "tensor 2 is 3 of 1 x 4; accepted: 4 of 1 x 4");
  expect_refused(*make({.tensors = {kTensors[0], kTensors[1], {3, 2, 2}}}), all,
                 "tensor 2 is 3 of 1 x 4; accepted: 3 of 2 x 2");
  expect_refused(*make({.tensors = {kTensors[0], kTensors[1]}}), all, "3 tensors; accepted: 2");
}

TEST(SavedRanks, WhatBringsRowsTakesNothing) {
  const auto all = saved_by({});
  const auto memory = make({.tensors = {kTensors[0], kTensors[1]}});
  ASSERT_EQ(said(memory->add_rows({&kTensors[2], 1}, offer(*memory, "lossless"))), "");
  EXPECT_NE(said(memory->load(all[0])), "") << "as a group's it is refused";
  ASSERT_EQ(said(load(*memory, all)), "");
  EXPECT_EQ(memory->residual(0)[4], value(0, 0, 0, 4));
  EXPECT_TRUE(memory->residual(2).empty());
}

// As a hook does that learns of its tensors bucket by bucket.
TEST(SavedRanks, AMemoryThatGrowsTakesWhatIsThere) {
  const Job job{.workers = 2};
  const auto all = saved_by(job);
  const auto memory = make({.workers = 2, .tensors = {}});
  const Memory::Loading grows{.grows = true};
  ASSERT_EQ(said(load(*memory, all, grows)), "");
  for (std::size_t i = 0; i < kTensors.size(); ++i) {
    ASSERT_EQ(said(memory->add({&kTensors[i], 1}, offer(*memory, kSpecs[i]))), "");
    ASSERT_EQ(said(load(*memory, all, {.first = i, .grows = true})), "");
    if (i == 0) memory->residual(0)[0] = -1;  // as of a bucket that was on its way in between
  }
  EXPECT_EQ(memory->residual(0)[0], -1);
  memory->residual(0)[0] = value(0, 0, 0, 0);
  EXPECT_EQ(memory->save(), all[0]);
  const Tensor more{4, 1, 2};
  ASSERT_EQ(said(memory->add({&more, 1}, offer(*memory, kSpecs[0]))), "");
  set(memory->state(3), 5);
  memory->residual(3)[1] = 5;
  ASSERT_EQ(said(load(*memory, all, {.first = 3, .grows = true})), "");
  EXPECT_TRUE(is(memory->state(3), 0)) << "that was not saved starts anew";
  EXPECT_EQ(memory->residual(3)[1], 0);
  EXPECT_TRUE(is(memory->state(0), 1)) << "the others stay";
}

TEST(SavedRanks, ClaimsOfManyWorkersTakeNoMemory) {
  Bytes many = saved_by({}).front();
  for (const std::uint32_t workers : {0u, 1000u, ~0u}) {
    store_le(std::span(many), 16, workers);
    sign(many);
    expect_refused(*make({}), {many}, "this job has 1 ranks");
  }
}

TEST(SavedRanks, SavingSaysHowManyBytesItNeedsAndWritesAllOrNothingThatCounts) {
  const auto memory = make({});
  fill(*memory, 0);
  const Bytes whole = memory->save();
  EXPECT_EQ(memory->save({}), whole.size());
  Bytes room(whole.size() + 3, std::byte{77});
  EXPECT_EQ(memory->save(room), whole.size());
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), room.begin()));
  EXPECT_TRUE(is(std::span<const std::byte>(room).last(3), 77));
  Bytes small(whole.size() - 1);
  EXPECT_EQ(memory->save(small), whole.size());
}

}  // namespace
}  // namespace sluice
