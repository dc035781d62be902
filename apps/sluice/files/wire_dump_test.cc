#include "apps/sluice/files/wire_dump.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "apps/sluice/reduce/reduce.h"
#include "carrier/local/local.h"
#include "device/bench.h"
#include "group/fleet.h"
#include "tests/support/data.h"
#include "tests/support/fake_codec.h"

namespace sluice::cli {
namespace {

constexpr Tensor kTensor{5, 2, 100};
constexpr std::uint32_t kChunk = 128;  // so that there are two

std::vector<Extent> extents() {
  return {{kTensor, 0, kChunk, 0, 1}, {kTensor, kChunk, 200 - kChunk, 0, 1}};
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

class WireDumpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    info_.name = "fake";
    codec_ = {&info_, "fake", support::make_fake_codec()};
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string("wire_dump_") + test->name() + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }
  [[nodiscard]] WireDumpOptions options(std::uint32_t workers, std::uint64_t steps = 1) const {
    WireDumpOptions options;
    options.folder = path("dump");
    options.codec = &codec_;
    options.seed = 3;
    options.step = 40;
    options.steps = steps;
    options.workers = workers;
    options.shape = {2, 100};
    options.feedback = "none";
    options.extents = extents();
    return options;
  }
  [[nodiscard]] Json manifest(const std::string& name = "dump") const {
    return Json::parse(content_of(folder_ / name / "manifest.json"));
  }

  Info info_;
  NamedCodec codec_;
  std::filesystem::path folder_;
};

// A worker's end whose answers the test decides.
class StubCarrier final : public Carrier {
 public:
  Status post(const Ticket&, const Place&, std::span<const Round>) override {
    ++posts;
    return post_status;
  }
  Result<std::span<const Answer>> take(const Ticket&) override {
    if (pending) return Error{Code::pending, 0, "not yet"};
    return std::span<const Answer>(answers);
  }
  Status wait(std::chrono::nanoseconds timeout) override {
    waited = timeout;
    return Error{Code::timeout, 0, "stub"};
  }
  void abandon() override { abandoned = true; }
  std::string explain(const Ticket& ticket) override {
    return "stub " + std::to_string(ticket.sequence);
  }

  int posts = 0;
  Status post_status = ok();
  bool pending = false;
  bool abandoned = false;
  std::chrono::nanoseconds waited{0};
  std::vector<Answer> answers;
};

// Two workers that post one round of two lanes under one ticket and get what the test says.
class TwoWorkers {
 public:
  explicit TwoWorkers(WireDump& dump) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      taps.push_back(dump.tap(stubs[rank], rank));
      rounds[rank] = {{.op = Op::max, .bits = 8, .count = 2}, up[rank], down[rank]};
      parts[rank] = {0, 2, both.view()};
      stubs[rank].answers = {{down[rank], {&parts[rank], 1}}};
    }
  }
  void run(std::uint64_t sequence) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      EXPECT_TRUE(taps[rank]->post({sequence, 0}, {}, {&rounds[rank], 1}));
    }
    for (const auto& tap : taps) EXPECT_TRUE(tap->take({sequence, 0}));
  }

  using Lanes = std::array<std::byte, 2>;
  std::array<StubCarrier, 2> stubs;
  std::vector<std::unique_ptr<Carrier>> taps;
  std::array<Lanes, 2> up{Lanes{std::byte{1}, std::byte{2}}, Lanes{std::byte{3}, std::byte{0}}};
  std::array<Lanes, 2> down{Lanes{std::byte{3}, std::byte{2}}, Lanes{std::byte{3}, std::byte{2}}};
  std::array<Round, 2> rounds;
  std::array<Part, 2> parts;
  WorkerSet both = WorkerSet::all(2);
};

TEST(WireDumpOptions, EveryOptionOfTheCodecIsNamedWithItsValue) {
  static constexpr std::array<std::string_view, 2> kModes{"a", "b"};
  std::array<OptionInfo, 3> known;
  known[0].key = "block";
  known[0].preset = 256;
  known[1].key = "rate";
  known[1].kind = OptionInfo::Kind::real;
  known[1].preset = 0.5;
  known[2].key = "mode";
  known[2].kind = OptionInfo::Kind::choice;
  known[2].choices = kModes;
  Info info;
  info.name = "x";
  info.options = known;
  EXPECT_EQ(options_of({&info, "x", nullptr}).dump(), R"({"block":256,"rate":0.5,"mode":"a"})");
  EXPECT_EQ(options_of({&info, "x:rate=0.03125,mode=b", nullptr}).dump(),
            R"({"block":256,"rate":0.03125,"mode":"b"})");
  EXPECT_EQ(options_of({&info, "x:block=1000000", nullptr})["block"], 1000000);
  const auto f32 = make_codec("f32");
  ASSERT_TRUE(f32);
  EXPECT_EQ(options_of(*f32), Json::object());
  const auto fixed = make_codec("fixed:block=64");
  ASSERT_TRUE(fixed);
  EXPECT_EQ(options_of(*fixed).dump(), R"({"block":64})");
}

TEST_F(WireDumpTest, FolderMustBeEmptyOrMissing) {
  EXPECT_TRUE(check_dump_folder(path("missing")));
  std::filesystem::create_directory(path("empty"));
  EXPECT_TRUE(check_dump_folder(path("empty")));
  std::ofstream(path("file")) << "x";
  for (const std::string& bad : {path("file"), folder_.string(), std::string()}) {
    const Verdict verdict = check_dump_folder(bad);
    ASSERT_FALSE(verdict) << bad;
    EXPECT_EQ(verdict.error().code, Code::invalid_argument);
    EXPECT_NE(verdict.error().message.find("'" + bad + "'"), std::string::npos);
    EXPECT_NE(verdict.error().message.find("accepted: "), std::string::npos);
  }
}

TEST_F(WireDumpTest, WhatCannotBeWrittenIsNamed) {
  std::ofstream(path("file")) << "x";
  WireDumpOptions inside_a_file = options(1);
  inside_a_file.folder = path("file") + "/dump";
  const Verdict made = WireDump(inside_a_file).open();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::io);
  EXPECT_NE(made.error().message.find(inside_a_file.folder), std::string::npos);

  WireDump dump(options(1));
  ASSERT_TRUE(dump.open());
  std::filesystem::remove_all(path("dump"));
  const Verdict ended = dump.end_step();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::io);
  EXPECT_NE(ended.error().message.find(path("dump/up-0.bin")), std::string::npos);
}

TEST_F(WireDumpTest, TapPassesEverythingOn) {
  WireDump dump(options(1));
  StubCarrier stub;
  const auto tap = dump.tap(stub, 0);
  const std::array up{std::byte{7}};
  std::array down{std::byte{7}};
  const Round round{{.op = Op::max, .bits = 8, .count = 1}, up, down};
  EXPECT_TRUE(tap->post({0, 0}, {}, {&round, 1}));
  EXPECT_EQ(stub.posts, 1);
  stub.pending = true;
  EXPECT_EQ(tap->take({0, 0}).error().code, Code::pending);
  EXPECT_EQ(tap->wait(std::chrono::nanoseconds(17)).error().code, Code::timeout);
  EXPECT_EQ(stub.waited.count(), 17);
  EXPECT_EQ(tap->explain({9, 0}), "stub 9");
  tap->abandon();
  EXPECT_TRUE(stub.abandoned);
  stub.post_status = Error{Code::exhausted, 0, "full"};
  EXPECT_EQ(tap->post({1, 0}, {}, {&round, 1}).error().code, Code::exhausted);
  const device::Accelerator device{&device::emulated(), 0};
  device::Bench bench(device, nullptr);
  EXPECT_EQ(tap->post({1, 0}, Place{&bench}, {&round, 1}).error().code, Code::unavailable);
}

TEST_F(WireDumpTest, FilesAreInOrderWhateverCameFirst) {
  WireDump dump(options(2));
  ASSERT_TRUE(dump.open());
  TwoWorkers two(dump);
  two.run(1);
  two.up[0][0] = two.down[0][0] = two.down[1][0] = std::byte{9};
  two.run(0);
  ASSERT_TRUE(dump.end_step());
  EXPECT_FALSE(std::filesystem::exists(path("dump/manifest.json")));
  ASSERT_TRUE(dump.finish());
  EXPECT_EQ(content_of(path("dump/up-0.bin")), std::string("\x09\x02\x01\x02", 4));
  EXPECT_EQ(content_of(path("dump/up-1.bin")), std::string("\x03\x00\x03\x00", 4));
  EXPECT_EQ(content_of(path("dump/down.bin")), std::string("\x09\x02\x03\x02", 4));
  const Json round = manifest()["exchanges"][1]["rounds"][0][0];
  EXPECT_EQ(round.dump(),
            R"({"what":{"op":"max","bits":8,"down":"full","extra":0,"count":2,"grain":0,)"
            R"("table":null},"only":null,"parts":[{"first":0,"count":2,"from":[0,1]}],)"
            R"("up":[[2,2],[2,2]],"down":[2,2]})");
}

TEST_F(WireDumpTest, ExchangeWithoutBytesHasNoRounds) {
  WireDump dump(options(2));
  ASSERT_TRUE(dump.open());
  TwoWorkers(dump).run(1);
  ASSERT_TRUE(dump.end_step());
  ASSERT_TRUE(dump.finish());
  const Json exchanges = manifest()["exchanges"];
  ASSERT_EQ(exchanges.size(), 2u);
  EXPECT_EQ(exchanges[0]["rounds"], Json::array());
  EXPECT_EQ(exchanges[0]["offset"], 0);
  EXPECT_EQ(exchanges[1]["offset"], kChunk);
}

TEST_F(WireDumpTest, WorkersThatDisagreeFailTheStep) {
  const auto check = [&](const char* says, const std::function<void(TwoWorkers&)>& spoil) {
    WireDump dump(options(2));
    TwoWorkers two(dump);
    spoil(two);
    two.run(1);
    const Verdict ended = dump.end_step();
    ASSERT_FALSE(ended) << says;
    EXPECT_EQ(ended.error().code, Code::mismatch);
    EXPECT_EQ(ended.error().message, std::string("exchange 1, step 0, round 0: worker 1 ") + says);
  };
  WorkerSet first(2);
  first.insert(0);
  check("got other bytes down than others", [](TwoWorkers& two) { two.down[1][1] = {}; });
  check("got other bytes down than others",
        [](TwoWorkers& two) { two.stubs[1].answers[0].down = std::span(two.down[1]).first(1); });
  check("was told of other contributors than others",
        [&](TwoWorkers& two) { two.parts[1].from = first.view(); });
  check("got another number of answers than rounds",
        [&](TwoWorkers& two) { two.stubs[1].answers.clear(); });
  check("asked for another reduction than others",
        [&](TwoWorkers& two) { two.rounds[1].what.bits = 7; });
  check("asked for another reduction than others",
        [&](TwoWorkers& two) { two.rounds[1].only = two.both.view(); });
}

// Three workers reduce two steps of a codec that has everything: tables, sets of workers, lists of
// unequal size and a round of no lanes.
class FakeRun {
 public:
  FakeRun(WireDumpOptions options, std::uint32_t window) : dump_(std::move(options)) {
    auto made = local::make_world(
        {.workers = 3, .window = window}, {.lost = [](const local::Arrival& arrival) {
          return arrival.rank == 1 && arrival.leg == 1 && arrival.grain == 1;
        }});
    EXPECT_TRUE(made);
    world_ = *std::move(made);
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      GroupOptions group;
      group.rank = rank;
      group.workers = 3;
      group.chunk_count = kChunk;
      group.window = window;
      taps_.push_back(dump_.tap(world_->port(rank), rank));
      auto member = Group::make(group, "fake", *codec_, *taps_[rank], {&kTensor, 1});
      EXPECT_TRUE(member);
      groups_.push_back(*std::move(member));
      gradients_[rank].resize(kTensor.count());
      support::fill_gradient(support::DataKind::normal, 1, 5, rank, gradients_[rank]);
      means_[rank].resize(kTensor.count());
    }
  }
  void reduce(std::uint64_t step, Staffing staffing) {
    const Verdict done = run_step(staffing, groups_, step, [&](std::uint32_t rank) {
      return std::vector<BucketEntry>{{0, gradients_[rank], means_[rank]}};
    });
    ASSERT_TRUE(done) << done.error().message;
  }
  WireDump& dump() { return dump_; }
  [[nodiscard]] const Stats& stats(std::size_t rank) const { return groups_[rank]->stats(); }

 private:
  WireDump dump_;
  std::unique_ptr<Codec> codec_ = support::make_fake_codec();
  std::unique_ptr<World> world_;
  std::vector<std::unique_ptr<Carrier>> taps_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::array<std::vector<float>, 3> gradients_;
  std::array<std::vector<float>, 3> means_;
};

// Ranges follow each other without a gap up to the file's end.
void expect_covered(const std::vector<Json>& ranges, std::uint64_t size) {
  std::uint64_t at = 0;
  for (const Json& range : ranges) {
    EXPECT_EQ(range[0], at);
    at += range[1].get<std::uint64_t>();
  }
  EXPECT_EQ(at, size);
}

TEST_F(WireDumpTest, ManifestNamesEveryByteOfARun) {
  FakeRun run(options(3, 2), 2);
  ASSERT_TRUE(run.dump().open());
  for (const std::uint64_t step : {std::uint64_t{40}, std::uint64_t{41}}) {
    run.reduce(step, Staffing::threads);
    const Verdict ended = run.dump().end_step();
    ASSERT_TRUE(ended) << ended.error().message;
  }
  ASSERT_TRUE(run.dump().finish());
  const Json json = manifest();
  EXPECT_EQ(json["codec"], "fake");
  EXPECT_EQ(json["seed"], 3);
  EXPECT_EQ(json["count"], 200);
  ASSERT_EQ(json["exchanges"].size(), 4u);
  std::array<std::vector<Json>, 3> up;
  std::vector<Json> down;
  for (std::size_t i = 0; i < 4; ++i) {
    const Json& exchange = json["exchanges"][i];
    EXPECT_EQ(exchange["step"], 40 + i / 2);
    EXPECT_EQ(exchange["tensor"].dump(), R"({"id":5,"rows":2,"cols":100})");
    EXPECT_EQ(exchange["offset"], i % 2 == 0 ? 0 : kChunk);
    EXPECT_EQ(exchange["count"], i % 2 == 0 ? kChunk : 200 - kChunk);
    const Json& steps = exchange["rounds"];
    ASSERT_EQ(steps.size(), 3u);
    // The round of no lanes beside the exponent is not there.
    ASSERT_EQ(steps[0].size(), 1u);
    EXPECT_EQ(steps[0][0]["what"]["op"], "max");
    EXPECT_EQ(steps[0][0]["what"]["table"], nullptr);
    ASSERT_EQ(steps[1].size(), 1u);
    EXPECT_EQ(steps[1][0]["what"]["table"].size(), 16u);
    EXPECT_EQ(steps[1][0]["what"]["down"], "round");
    EXPECT_EQ(steps[1][0]["parts"].dump(), i % 2 == 0 ? R"([{"first":0,"count":64,"from":[0,1,2]},)"
                                                        R"({"first":64,"count":64,"from":[0,2]}])"
                                                      : R"([{"first":0,"count":64,"from":[0,1,2]},)"
                                                        R"({"first":64,"count":8,"from":[0,2]}])");
    ASSERT_EQ(steps[2].size(), 2u);
    EXPECT_EQ(steps[2][0]["only"].dump(), "[0,1,2]");
    EXPECT_EQ(steps[2][1]["what"]["op"], "gather");
    for (const Json& step : steps) {
      for (const Json& round : step) {
        for (std::size_t rank = 0; rank < 3; ++rank) up[rank].push_back(round["up"][rank]);
        down.push_back(round["down"]);
      }
    }
  }
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const auto size = content_of(path("dump/up-" + std::to_string(rank) + ".bin")).size();
    EXPECT_EQ(size, run.stats(rank).bytes_up);
    EXPECT_EQ(down.size(), run.stats(rank).rounds);
    expect_covered(up[rank], size);
  }
  EXPECT_EQ(content_of(path("dump/down.bin")).size(), run.stats(0).bytes_down);
  expect_covered(down, run.stats(0).bytes_down);
}

TEST_F(WireDumpTest, ThreadsAndWindowChangeNothing) {
  for (const bool threads : {false, true}) {
    WireDumpOptions wanted = options(3);
    wanted.folder = path(threads ? "threads" : "stepped");
    FakeRun run(std::move(wanted), threads ? 2 : 1);
    ASSERT_TRUE(run.dump().open());
    run.reduce(40, threads ? Staffing::threads : Staffing::stepped);
    ASSERT_TRUE(run.dump().end_step());
    ASSERT_TRUE(run.dump().finish());
  }
  for (const char* const file : {"manifest.json", "up-0.bin", "up-1.bin", "up-2.bin", "down.bin"}) {
    EXPECT_EQ(content_of(folder_ / "threads" / file), content_of(folder_ / "stepped" / file))
        << file;
  }
}

// A codec with a tally has a budget over the model; on a first step that is the chunk's.
TEST_F(WireDumpTest, ReduceKeepsTheFileInOneChunkForACodecWithATally) {
  const Array worker{{200000}, std::vector<float>(200000, 0.5f)};
  const std::vector<Array> workers{worker, worker};
  ReduceOptions wanted;
  wanted.dump_wire = path("dump");
  const auto process = enter("local");
  ASSERT_TRUE(process);
  const auto reduced = reduce(*process, codec_, wanted, workers);
  ASSERT_TRUE(reduced) << reduced.error().message;
  const Json json = manifest();
  ASSERT_EQ(json["exchanges"].size(), 1u);
  EXPECT_EQ(json["exchanges"][0]["count"], 200000);
  EXPECT_EQ(reduced->stats.chunks, 1u);
}

}  // namespace
}  // namespace sluice::cli
