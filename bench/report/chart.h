// Charts of a report as inline SVG. Pure: numbers in, text out. Colours and line styles are classes
// (`c0` … `c11`, `event`), so that the page's style sheet decides about themes.
#ifndef FARCALL_BENCH_REPORT_CHART_H_
#define FARCALL_BENCH_REPORT_CHART_H_

#include <string>
#include <vector>

namespace farcall::bench {

inline constexpr int kColours = 12;

// Where a curve goes, and up to where its band reaches.
struct Point {
  double x = 0;
  double y = 0;
  double upper = 0;  // at least y; y itself: no band
};

// How one who is measured looks, the same in all charts.
struct Look {
  int colour = 0;       // below kColours
  bool dashed = false;  // sleeps in the kernel
  bool line = true;     // false: marks alone
};

struct Series {
  std::string name;
  Look look;
  std::vector<Point> points;  // in order of x
};

enum class Scale {
  kBytes,       // logarithmic; B, KiB, MiB
  kTens,        // logarithmic; 1, 10, 100, 1k, 1M
  kTwos,        // logarithmic; 1, 4, 16, 64
  kPercentile,  // x is a share below 1: 0.5, 0.9, 0.99, as far apart as their nines
};

struct LineChart {
  std::string title;
  std::string caption;  // what it shows, in a sentence or two
  std::string x_name;
  std::string y_name;
  Scale x_scale = Scale::kBytes;
  std::vector<Series> series;  // y is logarithmic always; points that are not above 0 are left out
};

struct Bar {
  std::string name;
  Look look;
  double value = 0;
};

struct BarChart {
  std::string title;
  std::string caption;
  std::string unit;
  std::vector<Bar> bars;
};

// Parts of wholes, side by side: each bar is as long as the others, and says how much it is.
struct PartsChart {
  struct Whole {
    std::string name;
    std::vector<double> parts;  // as many as there are names of them; their sum is above 0
  };
  std::string title;
  std::string caption;
  std::string unit;
  std::vector<std::string> parts;  // at most kPartColours
  std::vector<Whole> bars;
};
inline constexpr int kPartColours = 10;  // `p0` … `p9`

// An <svg> element `width` units wide, where a letter is 12 high: the page shows a wide one and a
// narrow one in turn. Empty when there is nothing to show.
std::string ToSvg(const LineChart& chart, int width);
std::string ToSvg(const BarChart& chart, int width);
std::string ToSvg(const PartsChart& chart, int width);

// For a legend: a short piece of the line.
std::string SampleSvg(const Look& look);
std::string PartSampleSvg(int part);

// 0.123 -> "0.12", 12.34 -> "12.3", 1234 -> "1234", 1234567 -> "1.23 M"; what is not quite 0 is
// "<0.001".
std::string ShortNumber(double value);

// `text` with what means something in HTML replaced.
std::string Escape(const std::string& text);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_REPORT_CHART_H_
