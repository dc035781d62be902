// Curves over two logarithmic axes, in panels side by side, as an SVG file. Values; nothing fails.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace sluice::cli {

struct Stroke {
  std::string colour;  // as CSS has it
  std::string dash;    // stroke-dasharray; empty: solid
  double width = 1.6;
};

struct Curve {
  std::string label;  // shown where the mouse is
  Stroke stroke;
  bool has_marks = true;  // at its points
  // Those that are not positive and finite are left out.
  std::vector<std::pair<double, double>> points = {};
};

struct Panel {
  std::string title;
  std::vector<Curve> curves;  // later ones lie on top
};

// A line of the legend; without a colour the heading of those below.
struct Key {
  std::string label;
  Stroke stroke = {};
};

// All panels have the axes that the points of all of them need.
struct LogPlot {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Panel> panels;
  std::vector<Key> legend;
};

// Any numbers; distinct while a plot has few of them.
Stroke stroke_of(std::size_t colour, std::size_t dash);

// One XML document, without references to anything outside it. Any text is escaped.
std::string to_svg(const LogPlot& plot);

}  // namespace sluice::cli
