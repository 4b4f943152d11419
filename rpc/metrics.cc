#include "farcall/rpc/metrics.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/channel.h"
#include "farcall/rpc/log.h"
#include "farcall/rpc/server.h"

namespace farcall {
namespace {

// Lines of one kind, their words in columns.
class Lines {
 public:
  void Add(std::vector<std::string> words) {
    widths_.resize(std::max(widths_.size(), words.size()));
    for (size_t i = 0; i < words.size(); ++i) widths_[i] = std::max(widths_[i], words[i].size());
    lines_.push_back(std::move(words));
  }

  void AppendTo(std::string& text) const {
    for (const std::vector<std::string>& words : lines_) {
      for (size_t i = 0; i < words.size(); ++i) {
        text += words[i];
        if (i + 1 < words.size()) text.append(widths_[i] - words[i].size() + 2, ' ');
      }
      text += '\n';
    }
  }

 private:
  std::vector<std::vector<std::string>> lines_;
  std::vector<size_t> widths_;
};

std::string Is(absl::string_view name, uint64_t value) { return absl::StrCat(name, "=", value); }

std::string Microseconds(absl::string_view name, double ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1fus", ns / 1000);
  return absl::StrCat(name, "=", text);
}

std::string Seconds(absl::string_view name, Duration duration) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3fs", std::chrono::duration<double>(duration).count());
  return absl::StrCat(name, "=", text);
}

// As one word of a line.
std::string Word(std::string_view text) {
  std::string word = Printable(text);
  std::replace(word.begin(), word.end(), ' ', '_');
  return word.empty() ? "-" : word;
}

// In quotes, which it cannot leave.
std::string Quoted(std::string_view text) {
  std::string quoted = Printable(text);
  std::replace(quoted.begin(), quoted.end(), '"', '\'');
  return absl::StrCat("\"", quoted, "\"");
}

void AddLatency(const LatencySummary& latency, std::vector<std::string>& words) {
  const auto max_ns = static_cast<double>(latency.max_ns);
  // A quantile is the middle of a bucket, which the largest value need not reach.
  const auto add = [&](absl::string_view name, double ns) {
    words.push_back(latency.count == 0 ? absl::StrCat(name, "=-")
                                       : Microseconds(name, std::min(ns, max_ns)));
  };
  add("p50", latency.p50_ns);
  add("p90", latency.p90_ns);
  add("p99", latency.p99_ns);
  add("p99.9", latency.p999_ns);
  add("max", max_ns);
}

const char* NameOf(ConnectionStats::State state) {
  switch (state) {
    case ConnectionStats::State::kHandshake:
      return "handshake";
    case ConnectionStats::State::kReady:
      return "ready";
    case ConnectionStats::State::kDraining:
      return "draining";
    case ConnectionStats::State::kClosing:
      return "closing";
    case ConnectionStats::State::kClosed:
      return "closed";
  }
  return "?";
}

const char* NameOf(ChannelInfo::State state) {
  switch (state) {
    case ChannelInfo::State::kConnecting:
      return "connecting";
    case ChannelInfo::State::kReady:
      return "ready";
    case ChannelInfo::State::kBackoff:
      return "backoff";
    case ChannelInfo::State::kClosed:
      return "closed";
  }
  return "?";
}

enum class Side : uint8_t { kServer, kChannel };

void AddMethod(const MethodStats& method, Side side, Lines& lines) {
  std::vector<std::string> words = {
      "method",
      Word(method.name),
      Is("started", method.started),
      Is("running", method.running),
      Is("ok", method.ended[0]),
      "errors=" + Describe(method.ended),
      Is("refused", method.refused),
      side == Side::kServer ? Is("dropped", method.dropped) : Is("not_sent", method.not_sent),
      Is("bytes_in", method.bytes_received),
      Is("bytes_out", method.bytes_sent)};
  AddLatency(Summarize(method.latency), words);
  lines.Add(std::move(words));
}

void AddConnection(const ConnectionStats& connection, Lines& lines) {
  const ConnectionCounters& moved = connection.counters;
  std::vector<std::string> words = {"connection",
                                    absl::StrCat("#", connection.loop, ".", connection.id),
                                    Word(connection.peer),
                                    NameOf(connection.state),
                                    Seconds("age", connection.age),
                                    Is("calls", connection.calls_started),
                                    Is("running", connection.calls_running),
                                    Is("refused", connection.calls_refused),
                                    Is("messages_in", moved.messages_received),
                                    Is("messages_out", moved.messages_sent),
                                    Is("bytes_in", moved.bytes_received),
                                    Is("bytes_out", moved.bytes_sent),
                                    Is("receives", moved.receive_calls),
                                    Is("sends", moved.send_calls),
                                    Is("copied", moved.payload_bytes_copied),
                                    Is("violations", moved.violations),
                                    Is("queued", moved.queued_messages),
                                    Is("queued_bytes", moved.queued_bytes),
                                    Is("held_bytes", connection.held_bytes),
                                    Is("unread", connection.unread_answers),
                                    Is("unread_bytes", connection.unread_bytes)};
  AddLatency(connection.latency, words);
  if (connection.state == ConnectionStats::State::kClosed) {
    words.push_back(absl::StrCat("end=", Quoted(connection.end)));
  }
  lines.Add(std::move(words));
}

void AppendDetails(const std::vector<MethodStats>& methods,
                   const std::vector<ConnectionStats>& open,
                   const std::vector<ConnectionStats>& closed,
                   const std::vector<BufferPool::Stats>& pools, Side side, std::string& text) {
  Lines of_methods;
  for (const MethodStats& method : methods) AddMethod(method, side, of_methods);
  of_methods.AppendTo(text);
  Lines of_connections;
  for (const ConnectionStats& connection : open) AddConnection(connection, of_connections);
  for (const ConnectionStats& connection : closed) AddConnection(connection, of_connections);
  of_connections.AppendTo(text);
  Lines of_pools;
  for (const BufferPool::Stats& pool : pools) {
    of_pools.Add({"pool", Word(pool.name), Is("leased_bytes", pool.leased_bytes),
                  Is("cached_bytes", pool.cached_bytes), Is("max_bytes", pool.max_bytes),
                  Is("allocations", pool.allocations), Is("slab_maps", pool.slab_maps)});
  }
  of_pools.AppendTo(text);
}

// Of a channel that has a choice.
void AppendPaths(const PathReport& paths, std::string& text) {
  if (paths.in_use.empty() && paths.better.empty()) return;
  absl::StrAppend(&text, "path  in_use=", Word(paths.in_use), "  ", Seconds("age", paths.age),
                  "  changes=", paths.changes, "\n");
  for (const PathReport::Unused& unused : paths.better) {
    absl::StrAppend(&text, "path  not_used=", Word(unused.name), "  reason=", Quoted(unused.reason),
                    "\n");
  }
}

}  // namespace

std::string Describe(const CountsByStatus& counts) {
  std::string text;
  for (size_t code = 1; code < kStatusCodes; ++code) {
    if (counts[code] == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : ",",
                    absl::StatusCodeToString(static_cast<absl::StatusCode>(code)), "=",
                    counts[code]);
  }
  return text.empty() ? "-" : text;
}

std::vector<BufferPool::Stats> PoolsOf(const std::vector<std::shared_ptr<Transport>>& transports) {
  std::vector<std::shared_ptr<BufferPool>> pools;
  std::vector<BufferPool::Stats> stats;
  for (const std::shared_ptr<Transport>& transport : transports) {
    for (std::shared_ptr<BufferPool>& pool : transport->pools()) {
      if (std::find(pools.begin(), pools.end(), pool) != pools.end()) continue;
      stats.push_back(pool->stats());
      pools.push_back(std::move(pool));
    }
  }
  return stats;
}

std::string Dump(const ServerMetrics& metrics) {
  const ServerStats& totals = metrics.totals;
  std::string text = absl::StrCat("server connections  open=", totals.connections_open,
                                  "  accepted=", totals.connections_accepted,
                                  "  refused=", totals.connections_refused,
                                  "  handshakes_failed=", Describe(metrics.handshakes_failed),
                                  "  closed=", Describe(metrics.connections_closed), "\n");
  absl::StrAppend(&text, "server calls  started=", totals.calls_started,
                  "  running=", totals.calls_running, "  ok=", totals.replies_ok,
                  "  failed=", totals.replies_failed, "  dropped=", totals.replies_dropped,
                  "  refused=", Describe(metrics.calls_refused), "\n");
  AppendDetails(metrics.methods, metrics.connections, metrics.closed, metrics.pools, Side::kServer,
                text);
  return text;
}

std::string Dump(const ChannelMetrics& metrics) {
  const ChannelStats& totals = metrics.totals;
  std::string text = absl::StrCat(
      "channel ", Word(metrics.endpoint), "  ", NameOf(metrics.state),
      "  waiting=", metrics.waiting_calls, "  started=", totals.started, "  ok=", totals.succeeded,
      "  failed=", totals.failed, "  not_sent=", totals.not_sent, "  not_run=", totals.not_run,
      "  unknown=", totals.unknown, "  late_replies=", totals.late_replies,
      "  repeated=", totals.repeated, "  connects=", totals.connects,
      "  connect_failures=", totals.connect_failures);
  if (!metrics.last_error.empty()) {
    absl::StrAppend(&text, "  last_error=", Quoted(metrics.last_error));
  }
  text += '\n';
  AppendPaths(metrics.paths, text);
  AppendDetails(metrics.methods, metrics.connections, metrics.closed, metrics.pools, Side::kChannel,
                text);
  return text;
}

}  // namespace farcall
