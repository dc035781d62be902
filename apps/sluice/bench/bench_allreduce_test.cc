#include "apps/sluice/bench/bench_allreduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>

#include "apps/sluice/bench/allreduce_table.h"
#include "apps/sluice/reduce/generate.h"
#include "carrier/local/local.h"
#include "carrier/stream/stream.h"
#include "catalog/carriers.h"

namespace sluice::cli {
namespace {

std::vector<NamedCodec> codecs_of(const std::vector<std::string>& specs) {
  std::vector<NamedCodec> codecs;
  for (const std::string& spec : specs) codecs.push_back(std::move(*make_codec(spec)));
  return codecs;
}

AllreduceOptions small() {
  AllreduceOptions options;
  options.bytes_min = 4;
  options.bytes_max = 40000;
  options.factor = 100;
  options.iterations = 2;
  options.warmup = 1;
  options.workers = 3;
  options.chunk = 1024;
  return options;
}

Checked<std::vector<AllreduceRow>> rows_of(const Process& process, const AllreduceOptions& options,
                                           std::span<const NamedCodec> codecs) {
  SLUICE_TRY(check_allreduce(process, options, codecs));
  SLUICE_TRY_ASSIGN(const AllreduceBench bench, prepare_allreduce(process, options, codecs));
  std::vector<AllreduceRow> rows;
  SLUICE_TRY(bench_allreduce(bench, codecs, [&](const AllreduceRow& row) { rows.push_back(row); }));
  return rows;
}

TEST(BenchAllreduce, BytesHaveSuffixes) {
  for (const auto& [text, bytes] : std::vector<std::pair<std::string, std::uint64_t>>{
           {"8", 8},
           {"0", 0},
           {"64K", 65536},
           {"64k", 65536},
           {"32M", 33554432},
           {"1g", 1073741824},
           {"18446744073709551615", ~std::uint64_t{0}}}) {
    const auto parsed = parse_bytes("-b", text);
    ASSERT_TRUE(parsed.has_value()) << text;
    EXPECT_EQ(*parsed, bytes) << text;
  }
  for (const char* text : {"", "K", "8KB", "8 K", "-8", "+8", "8.5M", "0x8", "8T",
                           "18446744073709551615K", "18446744073709551616"}) {
    const auto parsed = parse_bytes("-e", text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, Code::invalid_argument);
    EXPECT_NE(parsed.error().message.find(std::string("-e '") + text), std::string::npos);
  }
}

TEST(BenchAllreduce, SizesGrowByTheFactorUpToTheLargest) {
  AllreduceOptions options;
  options.bytes_min = 8;
  options.bytes_max = 100;
  options.factor = 3;
  EXPECT_EQ(counts_of(options), (std::vector<std::uint64_t>{2, 6, 18}));
  options.bytes_max = 8;
  EXPECT_EQ(counts_of(options), (std::vector<std::uint64_t>{2}));
}

TEST(BenchAllreduce, EveryCodecIsRightOnLocal) {
  const Process process{.carrier = &local::kInfo};
  std::vector<std::string> specs;
  for (const Info& info : kCodecs) specs.emplace_back(info.name);
  const auto codecs = codecs_of(specs);
  for (const std::uint32_t workers : {1u, 2u, 5u}) {
    AllreduceOptions options = small();
    options.workers = workers;
    const auto rows = rows_of(process, options, codecs);
    ASSERT_TRUE(rows.has_value()) << rows.error().message;
    ASSERT_EQ(rows->size(), 3 * specs.size());  // local has no all-reduce of its own
    for (const AllreduceRow& row : *rows) {
      EXPECT_EQ(row.out_of_place.wrong, 0u) << row.codec << " " << row.count;
      EXPECT_EQ(row.in_place.wrong, 0u) << row.codec << " " << row.count;
      EXPECT_GT(row.out_of_place.seconds, 0);
      EXPECT_GT(row.in_place.seconds, 0);
      EXPECT_GT(row.cpu_seconds, 0);
      ASSERT_TRUE(row.vnmse.has_value());
      if (row.codec == "lhc") continue;  // nothing is promised of what is not sparse
      EXPECT_LT(*row.vnmse, 0.2) << row.codec << " " << row.count;
    }
  }
}

TEST(BenchAllreduce, CountsTheBytesOfOneOperation) {
  const Process process{.carrier = &local::kInfo};
  for (const std::uint64_t iterations : {1u, 7u}) {
    AllreduceOptions options = small();
    options.iterations = iterations;
    const auto rows = rows_of(process, options, codecs_of({"f32", "bf16"}));
    ASSERT_TRUE(rows.has_value());
    for (const AllreduceRow& row : *rows) {
      const auto count = static_cast<double>(row.count);
      EXPECT_DOUBLE_EQ(row.wire_bytes, row.codec == "f32" ? 8 * count : 4 * count);
    }
  }
}

TEST(BenchAllreduce, OnlyCarriersWithAggregatorsCountTheirWork) {
  const Process local{.carrier = &local::kInfo};
  const auto on_local = rows_of(local, small(), codecs_of({"f32"}));
  ASSERT_TRUE(on_local.has_value());
  for (const AllreduceRow& row : *on_local) {
    EXPECT_FALSE(row.retransmits.has_value());
    EXPECT_FALSE(row.aggregator_cpu_seconds.has_value());
  }
  const Process streaming{.carrier = &stream::kInfo};
  const auto on_stream = rows_of(streaming, small(), codecs_of({"f32"}));
  ASSERT_TRUE(on_stream.has_value()) << on_stream.error().message;
  for (const AllreduceRow& row : *on_stream) {
    ASSERT_TRUE(row.retransmits.has_value());
    EXPECT_GE(*row.retransmits, 0);
    ASSERT_TRUE(row.aggregator_cpu_seconds.has_value());
    EXPECT_GT(*row.aggregator_cpu_seconds, 0);
  }
}

TEST(BenchAllreduce, WithoutCheckNothingIsClaimed) {
  const Process process{.carrier = &local::kInfo};
  AllreduceOptions options = small();
  options.check = false;
  options.feedback = "ef";
  const auto rows = rows_of(process, options, codecs_of({"fixed"}));
  ASSERT_TRUE(rows.has_value());
  for (const AllreduceRow& row : *rows) {
    EXPECT_FALSE(row.out_of_place.wrong.has_value());
    EXPECT_FALSE(row.in_place.wrong.has_value());
    EXPECT_FALSE(row.vnmse.has_value());
  }
}

TEST(BenchAllreduce, FeedbackIsCheckedBitByBit) {
  const Process process{.carrier = &local::kInfo};
  AllreduceOptions options = small();
  options.feedback = "ef";
  const auto rows = rows_of(process, options, codecs_of({"thc:bits=2", "tide:bits=2"}));
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  for (const AllreduceRow& row : *rows) EXPECT_EQ(row.in_place.wrong, 0u) << row.codec;
}

TEST(BenchAllreduce, RefusesNamingTheValue) {
  const Process process{.carrier = &local::kInfo};
  const auto codecs = codecs_of({"f32"});
  const auto refused = [&](auto change, const std::string& says) {
    AllreduceOptions options = small();
    change(options);
    const Verdict checked = check_allreduce(process, options, codecs);
    ASSERT_FALSE(checked.has_value()) << says;
    EXPECT_EQ(checked.error().code, Code::invalid_argument);
    EXPECT_NE(checked.error().message.find(says), std::string::npos) << checked.error().message;
  };
  refused([](auto& o) { o.bytes_min = 3; }, "-b 3");
  refused([](auto& o) { o.bytes_max = 3; }, "-e 3");
  refused([](auto& o) { o.bytes_max = std::uint64_t{5} << 30; }, "-e 5368709120");
  refused([](auto& o) { o.factor = 1; }, "-f 1");
  refused([](auto& o) { o.iterations = 0; }, "-n 0");
  refused([](auto& o) { o.warmup = 1000001; }, "-w 1000001");
  refused([](auto& o) { o.workers = 65; }, "--workers 65");
  refused([](auto& o) { o.chunk = 0; }, "--chunk 0");
  refused([](auto& o) { o.window = 0; }, "--window 0");
  refused([](auto& o) { o.timeout_seconds = 0; }, "--timeout 0");
  refused([](auto& o) { o.feedback = "some"; }, "'some'");
}

// What is done to results on their way: nothing, or one worker's answers are changed.
struct Mischief {
  bool answers = false;
  bool sums = false;
};
Mischief& mischief() {
  static Mischief now;  // a carrier's row has no room for it
  return now;
}

// Passes everything on; flips the lowest bit of the first byte that comes down.
class FlippingCarrier final : public Carrier {
 public:
  explicit FlippingCarrier(Carrier& inner) : inner_(inner) {}
  Status post(const Ticket& ticket, const Place& place, std::span<const Round> step) override {
    rounds_.assign(step.begin(), step.end());
    return inner_.post(ticket, place, step);
  }
  Result<std::span<const Answer>> take(const Ticket& ticket) override {
    const auto answers = inner_.take(ticket);
    if (answers && mischief().answers) rounds_[0].down[0] ^= std::byte{1};
    return answers;
  }
  Status wait(std::chrono::nanoseconds timeout) override { return inner_.wait(timeout); }
  void abandon() override { inner_.abandon(); }
  std::string explain(const Ticket& ticket) override { return inner_.explain(ticket); }

 private:
  Carrier& inner_;
  std::vector<Round> rounds_;
};

constexpr std::uint64_t kSeed = 5;

// `local`, but worker 1 sits behind a FlippingCarrier, and with an all-reduce of its own for one
// worker here: it makes the others' gradients itself.
class OddWorld final : public World {
 public:
  OddWorld(std::unique_ptr<World> inner, std::uint32_t workers)
      : inner_(std::move(inner)), workers_(workers) {
    if (workers > 1) flipping_ = std::make_unique<FlippingCarrier>(inner_->port(1));
  }
  Carrier& port(std::uint32_t rank) override { return rank == 1 ? *flipping_ : inner_->port(rank); }
  [[nodiscard]] std::span<const std::uint32_t> here() const override { return inner_->here(); }
  [[nodiscard]] double combine_seconds() const override { return inner_->combine_seconds(); }
  Verdict meet(std::span<double> values) override { return inner_->meet(values); }
  Verdict plain_sum(std::span<float> values) override {
    std::vector<float> other(values.size());
    for (std::uint32_t rank = 1; rank < workers_; ++rank) {
      generate_gradient("normal", kSeed, rank, other);
      for (std::size_t i = 0; i < other.size(); ++i) values[i] += other[i];
    }
    if (mischief().sums) values.back() += 1e-4f;
    return Nothing{};
  }

 private:
  std::unique_ptr<World> inner_;
  std::uint32_t workers_;
  std::unique_ptr<FlippingCarrier> flipping_;
};

Checked<std::unique_ptr<World>> make_odd_world(const WorldOptions& options) {
  SLUICE_TRY_ASSIGN(auto inner, local::make_world(options));
  return std::unique_ptr<World>(std::make_unique<OddWorld>(std::move(inner), options.workers));
}

constexpr CarrierInfo kOdd{
    .name = "odd", .summary = "", .workers_max = 64, .make_world = &make_odd_world};

class BenchOnOdd : public ::testing::Test {
 protected:
  BenchOnOdd() {
    mischief() = {};
    options_ = small();
    options_.window = 1;  // a FlippingCarrier knows the rounds of one exchange
    options_.seed = kSeed;
  }
  std::vector<AllreduceRow> run(const std::string& spec) {
    const auto rows = rows_of(process_, options_, codecs_of({spec}));
    EXPECT_TRUE(rows.has_value()) << rows.error().message;
    return rows ? *rows : std::vector<AllreduceRow>{};
  }

  Process process_{.carrier = &kOdd};
  AllreduceOptions options_;
};

TEST_F(BenchOnOdd, PlainRowsStandBesideTheCodecs) {
  const auto rows = run("bf16");
  ASSERT_EQ(rows.size(), 6u);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].codec, i % 2 == 0 ? "bf16" : kPlain);
    EXPECT_EQ(rows[i].out_of_place.wrong, 0u) << i;
    EXPECT_EQ(rows[i].in_place.wrong, 0u) << i;
    if (i % 2 == 0) continue;
    EXPECT_LT(*rows[i].vnmse, 1e-12);
    EXPECT_DOUBLE_EQ(rows[i].wire_bytes, 8.0 * static_cast<double>(rows[i].count));
  }
}

TEST_F(BenchOnOdd, ABitFlippedOnOneWorkerIsSeen) {
  mischief().answers = true;
  for (const char* spec : {"f32", "bf16", "fixed"}) {
    for (const AllreduceRow& row : run(spec)) {
      if (row.codec == kPlain) continue;
      EXPECT_GT(*row.out_of_place.wrong, 0u) << spec << " " << row.count;
      EXPECT_GT(*row.in_place.wrong, 0u) << spec << " " << row.count;
    }
  }
}

TEST_F(BenchOnOdd, ASumBeyondRoundingIsSeen) {
  mischief().sums = true;
  for (const AllreduceRow& row : run("f32")) {
    EXPECT_EQ(row.out_of_place.wrong, row.codec == kPlain ? 1u : 0u) << row.codec;
  }
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

TEST_F(BenchOnOdd, TheTableHasTheColumnsOfNcclTestsFirst) {
  const auto codecs = codecs_of({"f32"});
  const auto bench = prepare_allreduce(process_, options_, codecs);
  ASSERT_TRUE(bench.has_value());
  const std::string header = allreduce_header(*bench, codecs);
  std::istringstream lines(header);
  bool found = false;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.starts_with('#')) << line;
    const auto words = words_of(line);
    if (words.size() < 2 || words[1] != "size") continue;
    found = true;
    EXPECT_EQ(words, (std::vector<std::string>{
                         "#",     "size",  "count",  "type", "redop",       "root",     "time",
                         "algbw", "busbw", "#wrong", "time", "algbw",       "busbw",    "#wrong",
                         "wire",  "ratio", "vnmse",  "cpu",  "retransmits", "aggr-cpu", "codec"}));
  }
  EXPECT_TRUE(found) << header;
  AllreduceRow row;
  row.codec = "f32";
  row.count = 250000000;
  row.out_of_place = {.seconds = 1.0, .wrong = 0};
  row.in_place = {.seconds = 2.0, .wrong = 3};
  row.wire_bytes = 5e8;
  row.vnmse = 0.25;
  row.cpu_seconds = 1.5;
  row.retransmits = 12.25;
  row.aggregator_cpu_seconds = 0.75;
  EXPECT_EQ(words_of(to_text(*bench, row)),
            (std::vector<std::string>{"1000000000", "250000000", "float", "avg",       "-1",
                                      "1000000.00", "1.000",     "1.333", "0",         "2000000.00",
                                      "0.500",      "0.667",     "3",     "500000000", "4.00",
                                      "0.25",       "1.5",       "12.25", "0.75",      "f32"}));
  const std::vector<AllreduceRow> rows{row};
  EXPECT_EQ(wrong_in_all(rows), 3u);
  EXPECT_EQ(allreduce_footer(*bench, rows),
            "# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 1 (f32)\n#\n");
  const Json json = to_json(*bench, row);
  EXPECT_EQ(json["size"], 1000000000);
  EXPECT_EQ(json["in_place"]["wrong"], 3);
  EXPECT_EQ(json["ratio"], 4.0);
  EXPECT_EQ(json["retransmits"], 12.25);
  EXPECT_EQ(json["aggregator_cpu_seconds"], 0.75);
  row.codec = kPlain;
  row.out_of_place.wrong = std::nullopt;
  row.retransmits = row.aggregator_cpu_seconds = std::nullopt;
  const auto words = words_of(to_text(*bench, row));
  EXPECT_EQ(words[3], "sum");
  EXPECT_EQ(words[8], "N/A");
  EXPECT_EQ(words[17], "N/A");
  EXPECT_EQ(words[18], "N/A");
  EXPECT_TRUE(to_json(*bench, row)["retransmits"].is_null());
  EXPECT_TRUE(to_json(*bench, row)["aggregator_cpu_seconds"].is_null());
}

}  // namespace
}  // namespace sluice::cli
