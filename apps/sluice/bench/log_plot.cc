#include "apps/sluice/bench/log_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace sluice::cli {
namespace {

// In units of the drawing, which are pixels where nothing scales it.
constexpr double kPanelWidth = 380;
constexpr double kPanelHeight = 340;
constexpr double kGap = 34;     // between panels
constexpr double kLeft = 62;    // for the labels of y
constexpr double kTop = 62;     // for the titles
constexpr double kBottom = 52;  // for the labels of x
constexpr double kLegendWidth = 250;
constexpr double kLegendLine = 19;
constexpr double kLegendGap = 8;  // above a heading
constexpr double kMark = 2.6;     // radius

// Told apart by most colour-blind readers (Okabe and Ito, 2008).
constexpr std::array<std::string_view, 7> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                   "#e69f00", "#56b4e9", "#000000"};
constexpr std::array<std::string_view, 4> kDashes{"", "7 3", "2 3", "8 3 2 3"};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

bool is_drawable(const std::pair<double, double>& point) {
  const auto fits = [](double value) { return value > 0 && std::isfinite(value); };
  return fits(point.first) && fits(point.second);
}

// Logarithmic, of a range that is not empty.
struct Axis {
  double low = 1;
  double high = 10;

  [[nodiscard]] double share_of(double value) const {
    return std::log(value / low) / std::log(high / low);
  }
  // 1, 2 and 5 times powers of ten, or the powers alone where there would be many.
  [[nodiscard]] std::vector<double> ticks() const {
    const bool is_long = high / low > 2e3;
    std::vector<double> values;
    for (double power = std::floor(std::log10(low)); power <= std::log10(high); ++power) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double value = factor * std::pow(10.0, power);
        const bool is_inside = value >= low * 0.999 && value <= high * 1.001;
        if (is_inside && (factor == 1.0 || !is_long)) values.push_back(value);
      }
    }
    return values;
  }
};

// With a little room beyond the outermost points.
Axis axis_of(const LogPlot& plot, double std::pair<double, double>::*coordinate) {
  double low = 0;
  double high = 0;
  for (const Panel& panel : plot.panels) {
    for (const Curve& curve : panel.curves) {
      for (const auto& point : curve.points) {
        if (!is_drawable(point)) continue;
        const double value = point.*coordinate;
        low = low == 0 ? value : std::min(low, value);
        high = std::max(high, value);
      }
    }
  }
  if (low == 0) return {};
  const double room = std::max(1.1, std::pow(high / low, 0.03));
  return {low / room, high * room};
}

std::string style_of(const Stroke& stroke) {
  const std::string dash =
      stroke.dash.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", escaped(stroke.dash));
  return fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"{:g}\"{}", escaped(stroke.colour),
                     stroke.width, dash);
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text,
                    std::string_view more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, more, escaped(text));
}

std::string line(double x1, double y1, double x2, double y2, const Stroke& stroke) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, style_of(stroke));
}

// One panel's place in the drawing.
class Frame {
 public:
  Frame(const Axis& x, const Axis& y, double left) : x_(x), y_(y), left_(left) {}

  [[nodiscard]] std::string draw(const Panel& panel, bool has_labels) const {
    std::string svg = grid(has_labels);
    for (const Curve& curve : panel.curves) svg += draw(curve);
    svg +=
        text_at(left_ + kPanelWidth / 2, kTop - 10, "middle", panel.title, " font-weight=\"bold\"");
    return svg;
  }

 private:
  [[nodiscard]] double x_of(double value) const { return left_ + kPanelWidth * x_.share_of(value); }
  [[nodiscard]] double y_of(double value) const {
    return kTop + kPanelHeight * (1 - y_.share_of(value));
  }

  [[nodiscard]] std::string grid(bool has_labels) const {
    const Stroke faint{"#e4e4e4", "", 1};
    const double bottom = kTop + kPanelHeight;
    std::string svg;
    for (const double tick : x_.ticks()) {
      svg += line(x_of(tick), kTop, x_of(tick), bottom, faint);
      svg += text_at(x_of(tick), bottom + 16, "middle", fmt::format("{:g}", tick));
    }
    for (const double tick : y_.ticks()) {
      svg += line(left_, y_of(tick), left_ + kPanelWidth, y_of(tick), faint);
      if (has_labels) svg += text_at(left_ - 6, y_of(tick) + 4, "end", fmt::format("{:g}", tick));
    }
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" {}/>\n",
                       left_, kTop, kPanelWidth, kPanelHeight, style_of({"#888888", "", 1}));
    return svg;
  }

  [[nodiscard]] std::string draw(const Curve& curve) const {
    std::string path;
    std::string marks;
    for (const auto& point : curve.points) {
      if (!is_drawable(point)) continue;
      const double x = x_of(point.first);
      const double y = y_of(point.second);
      path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "M" : " L", x, y);
      marks += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:g}\" fill=\"{}\"/>\n", x, y,
                           kMark, escaped(curve.stroke.colour));
    }
    std::string svg = fmt::format("<g><title>{}</title>\n", escaped(curve.label));
    if (!path.empty()) svg += fmt::format("<path d=\"{}\" {}/>\n", path, style_of(curve.stroke));
    if (curve.has_marks) svg += marks;
    return svg + "</g>\n";
  }

  const Axis& x_;
  const Axis& y_;
  double left_;
};

std::string draw_legend(const std::vector<Key>& legend, double left) {
  std::string svg;
  double y = kTop + 8;
  for (const Key& key : legend) {
    if (key.stroke.colour.empty()) {
      if (!svg.empty()) y += kLegendGap;
      svg += text_at(left, y, "start", key.label, " font-weight=\"bold\"");
    } else {
      svg += line(left, y - 4, left + 34, y - 4, key.stroke);
      svg += text_at(left + 42, y, "start", key.label);
    }
    y += kLegendLine;
  }
  return svg;
}

double legend_height(const std::vector<Key>& legend) {
  return static_cast<double>(legend.size()) * (kLegendLine + kLegendGap);  // at most
}

}  // namespace

Stroke stroke_of(std::size_t colour, std::size_t dash) {
  // Beyond the palette: hues that stay apart, a golden angle each.
  const double hue = std::fmod(static_cast<double>(colour) * 137.508, 360);
  return {.colour = colour < kColours.size() ? std::string(kColours[colour])
                                             : fmt::format("hsl({:.0f}, 70%, 35%)", hue),
          .dash = std::string(kDashes[dash % kDashes.size()])};
}

std::string to_svg(const LogPlot& plot) {
  const Axis x = axis_of(plot, &std::pair<double, double>::first);
  const Axis y = axis_of(plot, &std::pair<double, double>::second);
  const auto panels = static_cast<double>(plot.panels.size());
  const double right = kLeft + panels * (kPanelWidth + kGap);  // where the legend begins
  const double width = right + kLegendWidth;
  const double height = kTop + std::max(kPanelHeight + kBottom, legend_height(plot.legend));
  std::string svg = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"white\"/>\n",
      width, height);
  svg += text_at(kLeft, 26, "start", plot.title, " font-size=\"16\"");
  double left = kLeft;
  for (const Panel& panel : plot.panels) {
    svg += Frame(x, y, left).draw(panel, left == kLeft);
    svg += text_at(left + kPanelWidth / 2, kTop + kPanelHeight + 38, "middle", plot.x_label);
    left += kPanelWidth + kGap;
  }
  svg += fmt::format(
      "<text transform=\"translate(18 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
      kTop + kPanelHeight / 2, escaped(plot.y_label));
  return svg + draw_legend(plot.legend, right) + "</svg>\n";
}

}  // namespace sluice::cli
