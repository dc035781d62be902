#include "apps/sluice/bench/bench_lossless.h"

#include <gtest/gtest.h>

#include <cmath>

#include "apps/sluice/bench/lossless_table.h"

namespace sluice::cli {
namespace {

std::vector<NamedCodec> codecs_of(const std::vector<std::string>& specs) {
  std::vector<NamedCodec> codecs;
  for (const std::string& spec : specs) codecs.push_back(std::move(*make_codec(spec)));
  return codecs;
}

LosslessOptions small() {
  LosslessOptions options;
  options.densities = {0.05};
  options.overlaps = {Overlap::identical};
  options.workers = {2};
  options.count = 5001;
  options.repetitions = 7;
  options.chunk = 2048;
  return options;
}

std::vector<LosslessRow> rows_of(const std::vector<std::string>& specs,
                                 const LosslessOptions& options) {
  auto rows = bench_lossless(codecs_of(specs), options);
  EXPECT_TRUE(rows.has_value()) << rows.error().message;
  return rows ? std::move(*rows) : std::vector<LosslessRow>{};
}

double count_of(const LosslessRow& row, std::string_view wanted) {
  for (const auto& [name, count] : row.counts) {
    if (name == wanted) return count;
  }
  ADD_FAILURE() << wanted;
  return 0;
}

TEST(BenchLossless, EveryPointOfTheSweepHasARowOfEveryCodec) {
  LosslessOptions options = small();
  options.densities = {0.01, 0.3};
  options.overlaps = {Overlap::identical, Overlap::independent, Overlap::disjoint};
  options.workers = {1, 3};
  const std::vector<std::string> specs{"lossless", "lossless:sum=float", "lossless:index=bitmap"};
  const auto rows = rows_of(specs, options);
  ASSERT_EQ(rows.size(), 2u * 3u * 2u * 3u);
  std::size_t i = 0;
  for (const std::uint32_t workers : options.workers) {
    for (const Overlap overlap : options.overlaps) {
      for (const double density : options.densities) {
        for (const std::string& spec : specs) {
          const LosslessRow& row = rows[i++];
          EXPECT_EQ(row.codec, spec);
          EXPECT_EQ(row.workers, workers);
          EXPECT_EQ(row.sparsity.overlap, overlap);
          EXPECT_EQ(row.sparsity.density, density);
          EXPECT_NEAR(row.union_density, density, 0.05);
          EXPECT_EQ(row.wrong, 0u) << spec << " " << workers << " " << to_text(row.sparsity);
          EXPECT_EQ(row.judged_by_f32, spec == "lossless:sum=float");
          EXPECT_GT(row.bytes_up, 0);
          EXPECT_GT(row.encode_seconds + row.decode_seconds, 0);
          EXPECT_GT(row.dense_seconds, 0);
          EXPECT_GT(row.read_seconds, 0);
          EXPECT_GT(row.memcpy_seconds, 0);
        }
      }
    }
  }
  EXPECT_TRUE(check_exact(rows).has_value());
}

TEST(BenchLossless, CountsAreThoseOfOneStepAndAddUpToItsBytes) {
  LosslessOptions options = small();
  options.workers = {3};
  options.overlaps = {Overlap::identical, Overlap::independent};
  for (const LosslessRow& row : rows_of({"lossless:index=bitmap,mode=packed"}, options)) {
    EXPECT_EQ(mode_of(row), "packed");
    // Three chunks, of which the last has 905 coordinates: bitmaps of whole bytes.
    EXPECT_EQ(count_of(row, "index_bytes"), 256 + 256 + 114);
    EXPECT_EQ(count_of(row, "chunks_packed"), 3);
    EXPECT_NEAR(count_of(row, "union_keys"), row.union_density * 5001, 1e-6);
    EXPECT_EQ(count_of(row, "header_bytes") + count_of(row, "index_bytes") +
                  count_of(row, "value_bytes") + count_of(row, "exception_bytes"),
              row.bytes_up);
    EXPECT_GE(row.rounds, 3u * 3u);
  }
}

TEST(BenchLossless, DenseCodecsReduceByWhatTheirFormatSays) {
  const auto rows = rows_of({"f32", "bf16"}, small());
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_DOUBLE_EQ(reduction(rows[0]), 1);
  EXPECT_DOUBLE_EQ(reduction(rows[1]), 2);
  EXPECT_EQ(rows[0].wrong, 0u);
  EXPECT_TRUE(rows[0].judged_by_f32);
  EXPECT_GT(rows[1].wrong, 400u);  // of 500 that are not zero in two steps
  EXPECT_EQ(mode_of(rows[1]), "");
  EXPECT_TRUE(check_exact(rows).has_value());  // nobody promised anything
}

TEST(BenchLossless, PatternsAreSwept) {
  for (const Pattern pattern : {Pattern::blocks, Pattern::columns, Pattern::rows}) {
    LosslessOptions options = small();
    options.count = 8192;
    options.pattern = pattern;
    const auto rows = rows_of({"lossless"}, options);
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].wrong, 0u) << name_of(pattern);
    EXPECT_NEAR(rows[0].union_density, 0.05, 0.02) << name_of(pattern);
  }
}

TEST(BenchLossless, NothingAtAllIsARowToo) {
  LosslessOptions options = small();
  options.count = 10;
  options.densities = {0.001};
  const auto rows = rows_of({"lossless", "lossless:sum=float"}, options);
  ASSERT_EQ(rows.size(), 2u);
  for (const LosslessRow& row : rows) {
    EXPECT_EQ(row.union_density, 0);
    EXPECT_EQ(row.wrong, 0u);
    EXPECT_TRUE(to_json(row)["bound_reduction"].is_null());
    EXPECT_TRUE(to_json(row)["of_bound"].is_number());
  }
  EXPECT_NE(to_text(rows), "");
  EXPECT_EQ(to_svg(plot_of(rows)).find("nan"), std::string::npos);
}

TEST(BenchLossless, RefusesNamingTheValue) {
  const auto refused = [](auto change, const std::string& says) {
    LosslessOptions options = small();
    change(options);
    const auto rows = bench_lossless(codecs_of({"lossless"}), options);
    ASSERT_FALSE(rows.has_value()) << says;
    EXPECT_EQ(rows.error().code, Code::invalid_argument);
    EXPECT_NE(rows.error().message.find(says), std::string::npos) << rows.error().message;
  };
  refused([](auto& o) { o.count = 0; }, "--count 0; accepted: 1 to 1073741824");
  refused([](auto& o) { o.count = (1u << 30) + 1; }, "--count 1073741825");
  refused([](auto& o) { o.workers = {2, 0}; }, "--workers 0; accepted: 1 to 64");
  refused([](auto& o) { o.workers = {65}; }, "--workers 65");
  refused([](auto& o) { o.repetitions = 6; }, "--repetitions 6; accepted: 7 to 1001");
  refused([](auto& o) { o.chunk = 0; }, "--chunk 0; accepted: 1 to 268435456");
}

TEST(BenchLossless, TheSweepWithoutSpecsIsInTheCatalogue) {
  const auto specs = lossless_specs();
  EXPECT_GE(specs.size(), 3u);
  EXPECT_EQ(specs.front(), "lossless");
  for (const std::string& spec : specs) EXPECT_TRUE(make_codec(spec).has_value()) << spec;
}

TEST(LosslessBounds, AreThoseOfTheFormulas) {
  // Density, bitmap + 1.23, bitmap + packed, entropy + packed.
  constexpr double kTable[][4] = {{0.2, 3.61, 4.32, 4.49},  {0.1, 6.48, 7.62, 8.72},
                                  {0.05, 10.8, 12.3, 17.0}, {0.02, 17.9, 19.5, 41.0},
                                  {0.01, 23.0, 24.2, 79.8}, {0.001, 30.8, 31.0, 737}};
  for (const auto& [density, sketch, packed, entropy] : kTable) {
    EXPECT_NEAR(kBitmapSketch.at(density, 1) / sketch, 1, 0.005) << density;
    EXPECT_NEAR(kBitmapPacked.at(density, 1) / packed, 1, 0.005) << density;
    EXPECT_NEAR(kEntropyPacked.at(density, 1) / entropy, 1, 0.005) << density;
    EXPECT_LT(kEntropySketch.at(density, 1), kEntropyPacked.at(density, 1));
  }
  EXPECT_DOUBLE_EQ(kEntropyPacked.at(1, 1), 1);
  EXPECT_TRUE(std::isinf(kEntropyPacked.at(0, 1)));
  // Of whole rows of 64 the index is a 64th.
  EXPECT_NEAR(kEntropyPacked.at(0.05, 1.0 / 64), 32 / (0.286397 / 64 + 1.6), 1e-4);
  EXPECT_DOUBLE_EQ(kBitmapPacked.at(0.05, 1.0 / 64), kBitmapPacked.at(0.05, 1));
}

TEST(LosslessBounds, FollowNameAndOptions) {
  EXPECT_EQ(bound_of("lossless").name, kEntropyPacked.name);
  EXPECT_EQ(bound_of("lossless:sum=float,index=gather").name, kEntropyPacked.name);
  EXPECT_EQ(bound_of("lossless:sum=float,index=bitmap").name, kBitmapPacked.name);
  EXPECT_EQ(bound_of("lossless:mode=sketch").name, kEntropySketch.name);
  EXPECT_EQ(bound_of("lossless:mode=sketch,index=bitmap").name, kBitmapSketch.name);
  EXPECT_EQ(bound_of("lhc:ratio=20").name, kBitmapSketch.name);
  EXPECT_EQ(bound_of("f32").name, kEntropyPacked.name);
}

// A row as a table would get it.
LosslessRow made_up(const std::string& codec, double density, std::uint32_t workers) {
  LosslessRow row;
  row.codec = codec;
  row.options = small();
  row.options.count = 1000;
  row.sparsity = {density, Overlap::disjoint};
  row.workers = workers;
  row.union_density = density;
  row.rounds = 3;
  row.bytes_up = 400;
  row.bytes_down = 500;
  row.counts = {{"index_bytes", 125}, {"value_bytes", 250}, {"stuck_keys", 3},  {"exceptions", 4},
                {"chunks_packed", 2}, {"chunks_sketch", 0}, {"chunks_dense", 1}};
  row.encode_seconds = 0.002;
  row.decode_seconds = 0.001;
  row.dense_seconds = 0.0015;
  row.read_seconds = 0.001;
  row.memcpy_seconds = 0.004;
  return row;
}

TEST(LosslessTable, HasEveryFigureOfARow) {
  const std::vector<LosslessRow> rows{made_up("lossless", 0.05, 8)};
  const std::string text = to_text(rows);
  // 3.2 and 4 bits up and down, 10 and 8 times fewer; 8 ÷ 16.96.
  for (const char* cell : {"disjoint", "5.000 %", "3.200", "4.000", "10.00", "8.00", "16.96",
                           "0.47", "125", "250", "packed+dense", "yes", "3.000", "2.00", "1.50"}) {
    EXPECT_NE(text.find(cell), std::string::npos) << cell;
  }
}

TEST(LosslessTable, SaysWhichJudgeFoundItExact) {
  LosslessRow row = made_up("lossless:sum=float", 0.05, 8);
  row.judged_by_f32 = true;
  EXPECT_NE(to_text(std::vector{row}).find("  f32  "), std::string::npos);
  EXPECT_EQ(to_json(row)["judge"], "f32");
  row.wrong = 1;
  EXPECT_NE(to_text(std::vector{row}).find("  no  "), std::string::npos);
  EXPECT_EQ(to_json(row)["exact"], false);
  EXPECT_EQ(to_json(row)["wrong"], 1);
}

TEST(LosslessTable, EndsWithTheTimeAtFivePercentOfMostWorkers) {
  std::vector<LosslessRow> rows{made_up("lossless", 0.01, 8), made_up("lossless", 0.05, 2),
                                made_up("lossless", 0.05, 8), made_up("lossless", 0.5, 64),
                                made_up("lhc", 0.01, 2)};
  rows[2].encode_seconds = 0.004;
  const std::string text = to_text(rows);
  EXPECT_NE(text.find("lossless (packed+dense), union 5 %, disjoint, 8 workers, 1000 coordinates, "
                      "one thread: encode 4.000 ms + decode 1.000 ms = 2.50 × reading the gradient "
                      "twice (2 × 1.000 ms: 0.0 GB/s; memcpy 0.0 GB/s)\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("lhc (packed+dense), union 1 %"), std::string::npos) << text;
}

TEST(LosslessTable, JsonHasEverything) {
  const Json json = to_json(made_up("lossless:index=bitmap", 0.05, 8));
  EXPECT_EQ(json["codec"], "lossless:index=bitmap");
  EXPECT_EQ(json["workers"], 8);
  EXPECT_EQ(json["overlap"], "disjoint");
  EXPECT_EQ(json["pattern"], "random");
  EXPECT_DOUBLE_EQ(json["union_density"], 0.05);
  EXPECT_DOUBLE_EQ(json["bits_up"], 3.2);
  EXPECT_DOUBLE_EQ(json["bits_down"], 4);
  EXPECT_DOUBLE_EQ(json["reduction_up"], 10);
  EXPECT_DOUBLE_EQ(json["reduction_down"], 8);
  EXPECT_EQ(json["bound"], "bitmap + packed");
  EXPECT_NEAR(json["bound_reduction"], 12.31, 0.01);
  EXPECT_NEAR(json["of_bound"], 8 / 12.31, 0.001);
  EXPECT_NEAR(json["bound_bitmap_sketch"], 10.78, 0.01);
  EXPECT_EQ(json["stuck_keys"], 3);
  EXPECT_EQ(json["exceptions"], 4);
  EXPECT_EQ(json["mode"], "packed+dense");
  EXPECT_EQ(json["exact"], true);
  EXPECT_EQ(json["judge"], "exact mean");
  EXPECT_DOUBLE_EQ(json["time_per_dense"], 2);
  EXPECT_DOUBLE_EQ(json["time_per_two_reads"], 1.5);
}

TEST(LosslessTable, AWrongResultOfLosslessIsAProblem) {
  std::vector<LosslessRow> rows{made_up("lhc", 0.05, 8), made_up("lossless:sum=float", 0.05, 8)};
  rows[0].wrong = 7;
  EXPECT_TRUE(check_exact(rows).has_value());
  rows[1].wrong = 9;
  const Verdict checked = check_exact(rows);
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().code, Code::mismatch);
  EXPECT_EQ(checked.error().message,
            "9 of 2000 coordinates are wrong: lossless:sum=float, 8 workers, "
            "sparse:0.05,disjoint,random");
}

TEST(LosslessPlot, HasACurveForEveryCodecOverlapAndNumberOfWorkers) {
  std::vector<LosslessRow> rows;
  for (const char* codec : {"lossless", "lhc"}) {
    for (const Overlap overlap : {Overlap::identical, Overlap::disjoint}) {
      for (const std::uint32_t workers : {2u, 8u}) {
        for (const double density : {0.5, 0.01}) {
          rows.push_back(made_up(codec, density, workers));
          rows.back().sparsity.overlap = overlap;
        }
      }
    }
  }
  rows.back().wrong = 1;
  const LogPlot plot = plot_of(rows);
  ASSERT_EQ(plot.panels.size(), 2u);
  for (const Panel& panel : plot.panels) {
    ASSERT_EQ(panel.curves.size(), 3u + 4u);  // bounds first
    EXPECT_EQ(panel.curves[1].label, "bound: bitmap + packed");
    EXPECT_EQ(panel.curves[3].points.size(), 2u);
    EXPECT_DOUBLE_EQ(panel.curves[3].points[0].first, 1);  // in the order of densities
    EXPECT_DOUBLE_EQ(panel.curves[3].points[0].second, 8);
  }
  EXPECT_EQ(plot.panels[1].title, "8 workers");
  EXPECT_EQ(plot.panels[1].curves[6].label, "lhc, disjoint, 8 workers");
  EXPECT_NE(plot.panels[1].curves[6].stroke.colour, plot.panels[1].curves[3].stroke.colour);
  EXPECT_NE(plot.panels[1].curves[6].stroke.dash, plot.panels[1].curves[5].stroke.dash);
  const std::string svg = to_svg(plot);
  for (const char* label : {"lossless, identical, 2 workers", "lhc, disjoint, 8 workers",
                            ">lossless<", ">lhc (not exact)<", ">identical<", ">disjoint<"}) {
    EXPECT_NE(svg.find(label), std::string::npos) << label;
  }
}

}  // namespace
}  // namespace sluice::cli
