#include "farcall/bench/report/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <numeric>
#include <utility>

#include "farcall/bench/measure/table.h"

namespace farcall::bench {
namespace {

constexpr double kLetter = 12;
constexpr double kLetterWidth = 6.4;  // on average
constexpr double kLeft = 56;
constexpr double kRight = 14;
constexpr double kTop = 12;
constexpr double kBottom = 42;
constexpr double kBarRow = 24;

template <typename... Arguments>
std::string Print(const char* format, Arguments... arguments) {
  char text[256];
  std::snprintf(text, sizeof(text), format, arguments...);
  return text;
}

std::string Text(double x, double y, const char* anchor, const std::string& text) {
  return Print("<text x='%.1f' y='%.1f' text-anchor='%s'>", x, y, anchor) + Escape(text) +
         "</text>";
}

std::string ClassesOf(const Look& look) {
  return Print("c%d", look.colour) + (look.dashed ? " event" : "");
}

std::string Open(int width, double height, const std::string& title) {
  return Print("<svg viewBox='0 0 %d %.0f' role='img' aria-label='", width, height) +
         Escape(title) + "'>";
}

// Where a value of the axis lies on it, before it is stretched to the picture.
double Place(Scale scale, double value) {
  return scale == Scale::kPercentile ? -std::log10(1 - value) : std::log10(value);
}

bool Placed(Scale scale, double value) {
  return std::isfinite(value) && value > 0 && (scale != Scale::kPercentile || value < 1);
}

std::string TickText(Scale scale, double value) {
  switch (scale) {
    case Scale::kBytes:
      return FormatBytes(static_cast<uint64_t>(value));
    case Scale::kPercentile:
      return Print("p%g", value * 100);
    case Scale::kTens:
    case Scale::kTwos:
      break;
  }
  return ShortNumber(value);
}

struct Axis {
  Scale scale;
  double low, high;  // as Place
  double from, to;   // in the picture
  double At(double value) const {
    return from + (Place(scale, value) - low) / (high - low) * (to - from);
  }
};

// Values at which each curve of a size has a point.
std::vector<double> XTicks(const LineChart& chart) {
  std::vector<double> ticks;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      if (Placed(chart.x_scale, point.x)) ticks.push_back(point.x);
    }
  }
  std::sort(ticks.begin(), ticks.end());
  ticks.erase(std::unique(ticks.begin(), ticks.end()), ticks.end());
  return ticks;
}

// Where y begins and ends: whole decades when the values span some, otherwise steps of 1, 2, 5.
std::vector<double> YTicks(double low, double high) {
  const bool steps = std::log10(high / low) < 2;
  std::vector<double> ticks;
  for (double decade = std::pow(10, std::floor(std::log10(low))); decade <= high * 10;
       decade *= 10) {
    ticks.push_back(decade);
    if (!steps) continue;
    ticks.push_back(2 * decade);
    ticks.push_back(5 * decade);
  }
  const auto above = std::upper_bound(ticks.begin(), ticks.end(), low);
  ticks.erase(ticks.begin(), above == ticks.begin() ? above : above - 1);
  const auto end = std::lower_bound(ticks.begin(), ticks.end(), high);
  if (end != ticks.end()) ticks.erase(end + 1, ticks.end());
  return ticks;
}

std::string Grid(const LineChart& chart, const Axis& x, const Axis& y,
                 const std::vector<double>& x_ticks, const std::vector<double>& y_ticks) {
  std::string out = "<g class='grid'>";
  for (const double tick : y_ticks) {
    out += Print("<path d='M%.1f %.1fH%.1f'/>", x.from, y.At(tick), x.to) +
           Text(x.from - 6, y.At(tick) + 4, "end", TickText(Scale::kTens, tick));
  }
  double free_from = 0;
  for (const double tick : x_ticks) {
    const std::string text = TickText(x.scale, tick);
    const double half = kLetterWidth * static_cast<double>(text.size()) / 2;
    const double middle = std::clamp(x.At(tick), x.from + half - 20, x.to + kRight - half);
    out += Print("<path d='M%.1f %.1fv4'/>", x.At(tick), y.from);
    if (middle - half < free_from) continue;
    out += Text(middle, y.from + 17, "middle", text);
    free_from = middle + half + 6;
  }
  out += Text((x.from + x.to) / 2, y.from + 35, "middle", chart.x_name);
  return out + "</g>";
}

std::string Curve(const Series& series, const Axis& x, const Axis& y) {
  std::string line, back, marks;
  bool band = false;
  const char* command = "M";
  for (const Point& point : series.points) {
    if (!Placed(x.scale, point.x) || !Placed(y.scale, point.y)) continue;
    line += Print("%s%.1f %.1f", command, x.At(point.x), y.At(point.y));
    back = Print("L%.1f %.1f", x.At(point.x), y.At(std::max(point.y, point.upper))) + back;
    marks += Print("<circle cx='%.1f' cy='%.1f' r='3'><title>", x.At(point.x), y.At(point.y)) +
             Escape(series.name + ", " + TickText(x.scale, point.x) + ": " + ShortNumber(point.y)) +
             "</title></circle>";
    band = band || point.upper > point.y;
    command = "L";
  }
  if (line.empty()) return "";
  std::string out = "<g class='" + ClassesOf(series.look) + "'>";
  if (band) out += "<path class='band' d='" + line + back + "Z'/>";
  if (series.look.line) out += "<path class='line' d='" + line + "'/>";
  return out + marks + "</g>";
}

}  // namespace

std::string ToSvg(const LineChart& chart, int width) {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      if (!Placed(chart.x_scale, point.x) || !Placed(Scale::kTens, point.y)) continue;
      low = std::min(low, point.y);
      high = std::max({high, point.y, point.upper});
    }
  }
  if (high == 0) return "";
  const std::vector<double> x_ticks = XTicks(chart);
  const std::vector<double> y_ticks = YTicks(low, high);
  const double height = width > 500 ? 380 : 320;
  // One value alone still has a place: in the middle.
  const auto axis = [](Scale scale, double first, double last, double from, double to) {
    Axis made{scale, Place(scale, first), Place(scale, last), from, to};
    if (made.high <= made.low) {
      made.low -= 0.5;
      made.high += 0.5;
    }
    return made;
  };
  const Axis x = axis(chart.x_scale, x_ticks.front(), x_ticks.back(), kLeft, width - kRight);
  const Axis y =
      axis(Scale::kTens, y_ticks.front(), y_ticks.back(), height - kBottom, kTop + kLetter);
  std::string out = Open(width, height, chart.title) + Grid(chart, x, y, x_ticks, y_ticks);
  out += Text(4, kTop, "start", chart.y_name);
  for (const Series& series : chart.series) out += Curve(series, x, y);
  return out + "</svg>";
}

std::string ToSvg(const BarChart& chart, int width) {
  double most = 0;
  size_t longest = 0;
  for (const Bar& bar : chart.bars) {
    most = std::max(most, bar.value);
    longest = std::max(longest, bar.name.size());
  }
  if (most <= 0) return "";
  const double from = 12 + kLetterWidth * static_cast<double>(longest);
  const double room = width - from - 84;
  std::string out = Open(width, kBarRow * static_cast<double>(chart.bars.size()) + 8, chart.title);
  double top = 4;
  for (const Bar& bar : chart.bars) {
    const double length = std::max(1.0, bar.value / most * room);
    out += Text(from - 6, top + 16, "end", bar.name) + "<g class='" + ClassesOf(bar.look) +
           Print("'><rect class='bar' x='%.1f' y='%.1f' width='%.1f' height='%.0f'/></g>", from,
                 top + 4, length, kBarRow - 8) +
           Text(from + length + 6, top + 16, "start", ShortNumber(bar.value) + " " + chart.unit);
    top += kBarRow;
  }
  return out + "</svg>";
}

std::string ToSvg(const PartsChart& chart, int width) {
  if (chart.bars.empty()) return "";
  size_t longest = 0;
  for (const PartsChart::Whole& bar : chart.bars) longest = std::max(longest, bar.name.size());
  const double from = 12 + kLetterWidth * static_cast<double>(longest);
  const double room = width - from - 72;
  std::string out = Open(width, kBarRow * static_cast<double>(chart.bars.size()) + 8, chart.title);
  double top = 4;
  for (const PartsChart::Whole& bar : chart.bars) {
    const double whole = std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0);
    out += Text(from - 6, top + 16, "end", bar.name);
    double at = from;
    for (size_t i = 0; i < bar.parts.size(); ++i) {
      const double length = bar.parts[i] / whole * room;
      const std::string what = chart.parts[i] + ", " + ShortNumber(bar.parts[i]) + " " + chart.unit;
      out +=
          Print("<g class='p%zu'><rect class='part' x='%.2f' y='%.1f' width='%.2f' height='%.0f'>",
                i, at, top + 3, length, kBarRow - 6) +
          "<title>" + Escape(bar.name + ", " + what) + "</title></rect>";
      if (length > kLetterWidth * static_cast<double>(chart.parts[i].size()) + 8) {
        out += Text(at + length / 2, top + 16, "middle", chart.parts[i]);
      }
      out += "</g>";
      at += length;
    }
    out += Text(at + 6, top + 16, "start", ShortNumber(whole) + " " + chart.unit);
    top += kBarRow;
  }
  return out + "</svg>";
}

std::string PartSampleSvg(int part) {
  return Print("<svg class='sample' viewBox='0 0 26 10' aria-hidden='true'><g class='p%d'>", part) +
         "<rect class='part' x='6' y='0' width='14' height='10'/></g></svg>";
}

std::string SampleSvg(const Look& look) {
  return "<svg class='sample' viewBox='0 0 26 10' aria-hidden='true'><g class='" + ClassesOf(look) +
         "'>" + (look.line ? "<path class='line' d='M1 5H25'/>" : "") +
         "<circle cx='13' cy='5' r='3'/></g></svg>";
}

std::string ShortNumber(double value) {
  if (value >= 999'500) return ShortNumber(value / 1e6) + " M";
  if (value >= 9995) return ShortNumber(value / 1e3) + " k";
  if (value >= 100 || value == std::floor(value)) return Print("%.0f", value);
  if (value >= 9.995) return Print("%.1f", value);
  if (value > 0 && value < 0.0005) return "<0.001";
  return Print("%.*f", value < 0.0995 ? 3 : 2, value);
}

std::string Escape(const std::string& text) {
  std::string out;
  for (const char character : text) {
    switch (character) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += character;
    }
  }
  return out;
}

}  // namespace farcall::bench
