#include "apps/sluice/bench/log_plot.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "apps/sluice/files/json_file.h"

namespace sluice::cli {
namespace {

// Tags that are closed in the order they were opened, quoted attributes, no stray < or &.
::testing::AssertionResult is_well_formed(std::string_view xml) {
  const auto fails = [](std::string_view why, std::string_view where) {
    return ::testing::AssertionFailure() << why << ": " << where.substr(0, 60);
  };
  constexpr std::string_view kHead = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  if (!xml.starts_with(kHead)) return fails("no declaration", xml);
  xml.remove_prefix(kHead.size());
  std::vector<std::string> open;
  while (!xml.empty()) {
    if (xml[0] == '&') {
      const std::string_view name = xml.substr(1, xml.find(';') - 1);
      if (name != "amp" && name != "lt" && name != "gt" && name != "quot") return fails("&", xml);
    }
    if (xml[0] != '<') {
      xml.remove_prefix(1);
      continue;
    }
    const std::size_t end = xml.find('>');
    if (end == std::string_view::npos) return fails("not closed", xml);
    const std::string_view tag = xml.substr(1, end - 1);
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return fails("quotes", xml);
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return fails("not open", xml);
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.emplace_back(tag.substr(0, tag.find(' ')));
    }
    xml.remove_prefix(end + 1);
    if (open.empty() && xml != "\n") return fails("more than one root", xml);
    if (open.empty()) return ::testing::AssertionSuccess();
  }
  return fails("never ends", open.empty() ? "" : open.back());
}

std::size_t occurrences(std::string_view text, std::string_view word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    ++found;
  }
  return found;
}

LogPlot example() {
  LogPlot plot{"A title", "across", "up", {}, {{"codecs"}, {"first", stroke_of(0, 0)}}};
  for (const char* name : {"left", "right"}) {
    plot.panels.push_back({name, {{"a curve", stroke_of(0, 1), true, {{1, 10}, {10, 1}}}}});
  }
  return plot;
}

TEST(LogPlot, HasEverythingItWasGivenAndIsWellFormed) {
  const std::string svg = to_svg(example());
  EXPECT_TRUE(is_well_formed(svg));
  for (const char* text : {">A title<", ">across<", ">up<", ">left<", ">right<", ">codecs<",
                           ">first<", "<title>a curve</title>"}) {
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(occurrences(svg, "<path"), 2u);
  EXPECT_EQ(occurrences(svg, "<circle"), 4u);
  EXPECT_EQ(occurrences(svg, ">across<"), 2u);  // below each panel
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(LogPlot, TextIsEscaped) {
  LogPlot plot = example();
  plot.title = "a < b & \"c\" > d";
  plot.panels[0].title = "</svg>";
  plot.panels[0].curves[0].label = "<&>";
  plot.panels[0].curves[0].stroke.colour = "\"><script/>";
  plot.legend[0].label = "&amp;";
  const std::string svg = to_svg(plot);
  EXPECT_TRUE(is_well_formed(svg));
  EXPECT_NE(svg.find(">a &lt; b &amp; &quot;c&quot; &gt; d<"), std::string::npos);
  EXPECT_NE(svg.find("&amp;amp;"), std::string::npos);
  EXPECT_EQ(svg.find("<script"), std::string::npos);
}

TEST(LogPlot, EqualFactorsAreEqualDistances) {
  LogPlot plot = example();
  plot.panels.resize(1);
  plot.panels[0].curves = {{"c", stroke_of(0, 0), true, {{1, 1}, {10, 100}, {100, 10000}}}};
  const std::string svg = to_svg(plot);
  std::vector<double> x;
  std::vector<double> y;
  for (std::size_t at = svg.find("<circle"); at != std::string::npos;
       at = svg.find("<circle", at + 1)) {
    x.push_back(std::stod(svg.substr(svg.find("cx=\"", at) + 4)));
    y.push_back(std::stod(svg.substr(svg.find("cy=\"", at) + 4)));
  }
  ASSERT_EQ(x.size(), 3u);
  EXPECT_NEAR(x[1] - x[0], x[2] - x[1], 0.11);  // a tenth is what is written
  EXPECT_NEAR(y[1] - y[0], y[2] - y[1], 0.11);
  EXPECT_GT(x[1], x[0]);
  EXPECT_LT(y[1], y[0]);  // upwards
}

TEST(LogPlot, PointsThatNoLogarithmHasAreLeftOut) {
  const double infinity = std::numeric_limits<double>::infinity();
  LogPlot plot = example();
  plot.panels.resize(1);
  plot.panels[0].curves[0].points = {{1, 1}, {0, 1}, {2, infinity}, {3, std::nan("")}, {4, 2}};
  const std::string svg = to_svg(plot);
  EXPECT_TRUE(is_well_formed(svg));
  EXPECT_EQ(occurrences(svg, "<circle"), 2u);
  for (const char* word : {"nan", "inf"}) EXPECT_EQ(svg.find(word), std::string::npos);
}

TEST(LogPlot, OnePointAndNoPointsHaveAxesToo) {
  LogPlot plot = example();
  plot.panels.resize(1);
  plot.panels[0].curves[0].points = {{5, 7}};
  EXPECT_TRUE(is_well_formed(to_svg(plot)));
  EXPECT_EQ(to_svg(plot).find("nan"), std::string::npos);
  plot.panels[0].curves[0].points.clear();
  EXPECT_TRUE(is_well_formed(to_svg(plot)));
  plot.panels.clear();
  EXPECT_TRUE(is_well_formed(to_svg(plot)));
}

TEST(LogPlot, StrokesAreDistinct) {
  std::vector<std::string> seen;
  for (std::size_t colour = 0; colour < 12; ++colour) {
    for (std::size_t dash = 0; dash < 3; ++dash) {
      const Stroke stroke = stroke_of(colour, dash);
      seen.push_back(stroke.colour + "/" + stroke.dash);
    }
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
}

TEST(LogPlot, IsWrittenWholeOrNotAtAll) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("log_plot_test." + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = folder / "plot.svg";
  const std::string svg = to_svg(example());
  ASSERT_TRUE(write_text(path, svg).has_value());
  std::ostringstream read;
  read << std::ifstream(path).rdbuf();
  EXPECT_EQ(read.str(), svg);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);

  const Verdict refused = write_text(path, svg);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::io);
  EXPECT_NE(refused.error().message.find(path), std::string::npos);
  EXPECT_TRUE(write_text("", svg).has_value());
}

}  // namespace
}  // namespace sluice::cli
