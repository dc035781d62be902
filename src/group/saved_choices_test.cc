// Saved state of several codecs: what comes back, and what does not where choices differ.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/bytes.h"
#include "group/choices_test.h"
#include "group/saved_signature_test.h"

namespace sluice {
namespace {

using Bytes = std::vector<std::byte>;

const std::vector<Tensor> kTensors{{1, 10, 100}, {2, 1, 900}, {3, 1, 8}, {4, 5, 100}, {5, 2, 300}};
const std::vector<std::string> kSpecs{"tide:bits=2,scales=previous", "tide:bits=3", "f32", "fixed",
                                      "tide:bits=3"};
const GroupOptions kFed{.seed = 9, .feedback = "ef"};

void add_rows(Choosers& job) {
  const Tensor rows{6, 100, 4};
  for (const auto& memory : job.memories) {
    ASSERT_EQ(said(memory->add_rows({&rows, 1}, offer(*memory, "lossless"))), "");
  }
}

std::unique_ptr<Choosers> entry_of(const std::vector<std::string>& specs) {
  auto job = std::make_unique<Choosers>(kTensors, kFed);
  job->add(specs);
  add_rows(*job);
  return job;
}

std::vector<Bytes> save(const Choosers& job) {
  std::vector<Bytes> all;
  for (const auto& memory : job.memories) all.push_back(memory->save());
  return all;
}
void load(Choosers& job, const std::vector<Bytes>& saved) {
  for (std::size_t rank = 0; rank < saved.size(); ++rank) {
    ASSERT_EQ(said(job.memories[rank]->load(saved[rank])), "");
  }
}

Bytes copy(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }
std::vector<float> residual(const Memory& memory, std::size_t tensor) {
  return {memory.residual(tensor).begin(), memory.residual(tensor).end()};
}
bool is_new(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte one) { return one == std::byte{0}; });
}

TEST(SavedChoices, GoOnAsIfNothingHadHappened) {
  const auto whole = entry_of(kSpecs);
  for (std::uint64_t step = 0; step < 3; ++step) ASSERT_EQ(whole->run(step), "");
  const auto rest = entry_of(kSpecs);
  load(*rest, save(*whole));
  EXPECT_EQ(save(*rest), save(*whole));
  for (std::uint64_t step = 3; step < 5; ++step) {
    ASSERT_EQ(whole->run(step), "");
    ASSERT_EQ(rest->run(step), "");
    EXPECT_EQ(rest->means, whole->means) << step;
  }
  EXPECT_EQ(save(*rest), save(*whole));
}

// Codecs that nobody has chosen, and the order in which they were offered, are not in it.
TEST(SavedChoices, AreThoseThatTensorsHave) {
  const auto job = entry_of(kSpecs);
  const auto other = std::make_unique<Choosers>(kTensors, kFed);
  for (const auto& memory : other->memories) {
    for (const char* spec : {"thc", "fixed", "f32"}) offer(*memory, spec);
  }
  other->add(kSpecs);
  add_rows(*other);
  EXPECT_EQ(save(*other), save(*job));
  ASSERT_EQ(job->run(0), "");
  load(*other, save(*job));
  EXPECT_EQ(save(*other), save(*job));
}

TEST(SavedChoices, OfOtherCodecsKeepResidualsAndStartTheRestAnew) {
  const auto job = entry_of(kSpecs);
  ASSERT_EQ(job->run(0), "");
  const Memory& saved = *job->memories[0];
  std::vector<std::string> specs = kSpecs;
  specs[0] = "fixed";
  specs[4] = "tide:bits=2,scales=previous";
  const auto other = entry_of(specs);
  ASSERT_EQ(other->run(7), "");
  Memory& memory = *other->memories[0];
  ASSERT_FALSE(is_new(memory.state(4)));
  load(*other, save(*job));
  for (std::size_t i = 0; i < kTensors.size(); ++i) {
    EXPECT_EQ(residual(memory, i), residual(saved, i)) << i;
  }
  EXPECT_TRUE(is_new(memory.state(4))) << "of another codec";
  EXPECT_TRUE(is_new(memory.model(memory.choice(4)))) << "tensor 0 had it";
  EXPECT_TRUE(is_new(memory.model(memory.choice(1)))) << "tensor 4 had it, too";
  EXPECT_EQ(memory.spec(memory.choice(0)), "fixed") << "choices stay as they are here";
  ASSERT_EQ(other->run(1), "");
}

// Options that only say what is sent: the codec is the same, and so are its tensors.
TEST(SavedChoices, OfAnotherFloorGoOn) {
  const auto job = entry_of(kSpecs);
  ASSERT_EQ(job->run(0), "");
  std::vector<std::string> specs = kSpecs;
  specs[0] += ",floor=0";
  const auto other = entry_of(specs);
  load(*other, save(*job));
  Memory& memory = *other->memories[1];
  Memory& saved = *job->memories[1];
  EXPECT_FALSE(is_new(memory.state(0)));
  EXPECT_EQ(copy(memory.state(0)), copy(saved.state(0)));
  EXPECT_EQ(copy(memory.model(1)), copy(saved.model(1)));
}

// A tensor that is exact here and was not there keeps what it owes, to send it.
TEST(SavedChoices, OfACodecThatLosesGiveMemoriesToAnExactOne) {
  const auto job = entry_of(kSpecs);
  ASSERT_EQ(job->run(0), "");
  const auto other = entry_of({"f32", "f32", "f32", "f32", "f32"});
  Memory& memory = *other->memories[2];
  load(*other, save(*job));
  EXPECT_EQ(residual(memory, 0), residual(*job->memories[2], 0));
  EXPECT_NE(residual(memory, 0), std::vector<float>(1000));
  EXPECT_TRUE(memory.residual(2).empty()) << "it owed nothing";
  ASSERT_EQ(other->run(1), "");
  EXPECT_EQ(residual(memory, 0), std::vector<float>(1000));
}

TEST(SavedChoices, OfAnExactCodecLeaveNothingOwed) {
  const auto job = entry_of({"f32", "f32", "f32", "f32", "f32"});
  ASSERT_EQ(job->run(0), "");
  const auto other = entry_of(kSpecs);
  ASSERT_EQ(other->run(3), "");
  EXPECT_NE(residual(*other->memories[0], 0), std::vector<float>(1000));
  load(*other, save(*job));
  EXPECT_EQ(residual(*other->memories[0], 0), std::vector<float>(1000));
}

// All of them, whichever codec the tensor has now.
TEST(SavedChoices, HaveEveryMemoryOfTheFeedback) {
  const auto make = [](const char* spec, const char* feedback) {
    auto memory = std::move(*Memory::make({.feedback = feedback}));
    const Tensor tensor{1, 1, 5};
    EXPECT_EQ(said(memory->add({&tensor, 1}, offer(*memory, spec))), "");
    return memory;
  };
  const auto memory = make("fixed", "dgc");
  for (std::size_t i = 0; i < 5; ++i) {
    memory->memories(0)[0][i] = 1.0f + static_cast<float>(i);
    memory->memories(0)[1][i] = -0.5f * static_cast<float>(i);
  }
  const Bytes saved = memory->save();
  for (const char* spec : {"fixed", "tide", "f32"}) {
    const auto other = make(spec, "dgc:momentum=0.5");
    ASSERT_EQ(said(other->load(saved)), "") << spec;
    for (std::size_t i = 0; i < 2; ++i) {
      const auto is = other->memories(0)[i];
      const auto was = memory->memories(0)[i];
      EXPECT_TRUE(std::equal(is.begin(), is.end(), was.begin(), was.end())) << spec;
    }
  }
  EXPECT_NE(said(make("fixed", "ef")->load(saved)).find("feedback kind 2 ('dgc')"),
            std::string::npos);
}

TEST(SavedChoices, OfRowsAreNotThoseOfAWholeTensor) {
  const Tensor tensor{1, 10, 4};
  const auto whole = std::move(*Memory::make({}));
  ASSERT_EQ(said(whole->add({&tensor, 1}, offer(*whole, "lossless"))), "");
  const auto rows = std::move(*Memory::make({}));
  ASSERT_EQ(said(rows->add_rows({&tensor, 1}, offer(*rows, "lossless"))), "");
  EXPECT_NE(said(whole->load(rows->save())).find("10 x 4, in rows; accepted: 1 of 10 x 4"),
            std::string::npos);
  EXPECT_NE(said(rows->load(whole->save())).find("accepted: 1 of 10 x 4, in rows"),
            std::string::npos);
}

// Small, so that every byte can be tried.
std::unique_ptr<Memory> small_memory() {
  auto memory = std::move(*Memory::make(kFed));
  const std::vector<Tensor> tensors{{1, 1, 3}, {2, 1, 2}, {3, 9, 9}};
  const std::span all(tensors);
  EXPECT_EQ(said(memory->add(all.first(1), offer(*memory, "f32"), Memory::Keeps::all)), "");
  EXPECT_EQ(said(memory->add(all.subspan(1, 1), offer(*memory, "tide:scales=previous"))), "");
  EXPECT_EQ(said(memory->add_rows(all.last(1), offer(*memory, "lossless"))), "");
  memory->residual(0)[1] = 0.25f;
  memory->residual(1)[0] = -3.0f;
  for (std::size_t i = 0; i < memory->model(1).size(); ++i) {
    memory->model(1)[i] = static_cast<std::byte>(i);
  }
  return memory;
}

// What a codec has learnt decides what travels: ranks that differ there must not go on.
TEST(SavedChoices, AStateThatNotAllHaveLoadedChangesDigests) {
  const Bytes saved = small_memory()->save();
  const auto digest = [&](bool loads) {
    const auto memory = small_memory();
    std::fill(memory->model(1).begin(), memory->model(1).end(), std::byte{0});
    if (loads) {
      EXPECT_TRUE(memory->load(saved).has_value());
    }
    Tally tally;
    tally.reset(*memory);
    std::vector<float> values(2);
    return memory->digest(memory->chunk(1, 1, 0, values, values, tally), memory->choice(1));
  };
  EXPECT_EQ(digest(true), digest(true));
  EXPECT_NE(digest(true), digest(false));
}

TEST(SavedChoices, DamagedBytesAreRefusedAndChangeNothing) {
  const auto memory = small_memory();
  const Bytes good = memory->save();
  memory->residual(0)[2] = 1.0f;
  const Bytes before = memory->save();
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(memory->load(std::span(good).first(size)).has_value()) << size;
    if (size < 8) continue;
    Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    sign(cut);
    EXPECT_FALSE(memory->load(cut).has_value()) << size << ", signed";
  }
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const unsigned mask : {0x01u, 0x80u, 0xffu}) {
      Bytes bad = good;
      bad[at] ^= static_cast<std::byte>(mask);
      EXPECT_FALSE(memory->load(bad).has_value()) << at << ", " << mask;
    }
  }
  EXPECT_EQ(memory->save(), before);
  EXPECT_TRUE(memory->load(good).has_value());
  EXPECT_EQ(memory->save(), good);
}

// With a right checksum: a flipped byte is refused, or what is loaded is all right.
TEST(SavedChoices, SignedDamageIsRefusedOrHarmless) {
  const Bytes good = small_memory()->save();
  std::size_t taken = 0;
  for (std::size_t at = 0; at + 8 < good.size(); ++at) {
    for (const unsigned mask : {0x01u, 0x02u, 0x80u, 0xffu}) {
      Bytes bad = good;
      bad[at] ^= static_cast<std::byte>(mask);
      sign(bad);
      const auto memory = small_memory();
      if (!memory->load(bad)) {
        EXPECT_EQ(memory->save(), good) << at;
        continue;
      }
      ++taken;
      const Bytes after = memory->save();
      EXPECT_TRUE(memory->load(after).has_value()) << at;
      EXPECT_EQ(memory->save(), after) << at;
    }
  }
  EXPECT_GT(taken, 0u) << "residuals and states can be anything";
}

TEST(SavedChoices, CodecsThatAreNotListedOrNotInOrderAreRefused) {
  const Bytes good = small_memory()->save();
  // The first codec is that of tensor 0; the spec "f32" is the first in the list.
  const std::string listed = "f32";
  const auto* text = reinterpret_cast<const char*>(good.data());
  const std::size_t spec = std::string_view(text, good.size()).find(listed);
  const std::size_t models = spec + 3 + 8;  // behind its empty model
  ASSERT_LT(models, good.size());
  const auto refused = [&](std::size_t at, std::uint32_t value, const char* words) {
    Bytes bad = good;
    store_le(std::span(bad), at, value);
    sign(bad);
    const auto memory = small_memory();
    const Verdict verdict = memory->load(bad);
    EXPECT_NE(said(verdict).find(words), std::string::npos) << said(verdict);
    EXPECT_FALSE(verdict || verdict.error().code != Code::malformed);
  };
  // Behind them the number of tensors and the first one's id and shape.
  std::size_t at = models;
  for (int codec = 0; codec < 2; ++codec) {
    at += 4 + load_le<std::uint32_t>(good, at);
    at += 8 + load_le<std::uint64_t>(good, at);
  }
  at += 8 + 24;
  ASSERT_EQ(load_le<std::uint32_t>(good, at), 0u);
  refused(at, 1, "tensor 0 has codec 1 of 3");
  refused(at, 3, "tensor 0 has codec 3 of 3");
  refused(at, ~0u, "tensor 0 has codec 4294967295 of 3");
  refused(at + 4, 2, "kind 2");
}

// tests/data/saved/choices.state was written by `small_memory()->save()` of the first edition of
// version 2.
TEST(SavedChoices, OfTheFirstEditionLoad) {
  std::ifstream file(std::string(SLUICE_TEST_DATA) + "/saved/choices.state", std::ios::binary);
  const std::vector<char> read((std::istreambuf_iterator<char>(file)), {});
  ASSERT_FALSE(read.empty());
  const auto memory = small_memory();
  const Bytes expected = memory->save();
  memory->residual(1)[0] = 0;
  ASSERT_EQ(said(memory->load(std::as_bytes(std::span(read)))), "");
  EXPECT_EQ(memory->save(), expected);
}

}  // namespace
}  // namespace sluice
