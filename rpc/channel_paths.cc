#include "farcall/rpc/channel_paths.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/log.h"

namespace farcall {
namespace {

// One that travels inline, and one that is too large for any eager threshold: a SEND and a READ
// each way.
constexpr std::array<size_t, 2> kProbeBytes = {64, size_t{256} << 10};
static_assert(kProbeBytes.back() <= kMaxProbeBytes);

void FillProbe(std::span<std::byte> body) {
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<std::byte>((i * 131) ^ (i >> 8));
}

bool IsProbe(std::span<const std::byte> body) {
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != static_cast<std::byte>((i * 131) ^ (i >> 8))) return false;
  }
  return true;
}

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

ChannelPaths::ChannelPaths(EventLoop& loop, std::unique_ptr<PathSelector> selector,
                           PathOptions options, User& user)
    : loop_(loop),
      selector_(std::move(selector)),
      options_(options),
      user_(user),
      random_(static_cast<unsigned>(reinterpret_cast<uintptr_t>(this) >> 4)) {
  for (PathCandidate& candidate : selector_->Select({})) {
    ways_.push_back({.candidate = std::move(candidate), .reason = "not connected"});
  }
  current_ = ways_.size();
  Publish();
}

ChannelPaths::~ChannelPaths() { Enter(Stage::kResting); }

bool ChannelPaths::empty() const {
  return carrier_.session == nullptr && attempt_ == nullptr && leaving_.empty();
}

// ---- the main connection ----

void ChannelPaths::Start(ClientSession& main) {
  main_ = &main;
  main_name_ = main.connection_info().transport;
  for (Way& way : ways_) {
    way.retry_at = {};
    way.cooling = false;
    way.reason = main.offers() ? "not tried yet"
                               : "the peer offers no other paths: it listens for this one only";
  }
  if (main.offers()) Ask();
  Publish();
}

void ChannelPaths::Leave() {
  if (main_ == nullptr) return;
  DropAttempt();
  Enter(Stage::kResting);
  if (carrier_.session != nullptr) Retire(std::exchange(carrier_, {}));
  current_ = ways_.size();
  main_ = nullptr;
  for (Way& way : ways_) {
    way.reason = "not connected";
    way.cooling = false;
  }
  Publish();
}

void ChannelPaths::MainEnded(ClientSession& main, const absl::Status& status) {
  if (&main == main_) Leave();
  const absl::Status reason = absl::UnavailableError(absl::StrCat(
      "the connection to ", main.peer_address(), " beside it ended: ", status.message()));
  for (Path& path : leaving_) {
    if (path.main != &main) continue;
    path.main = nullptr;
    path.session->End(reason);
  }
}

bool ChannelPaths::LeansOn(const ClientSession& main) const {
  return std::any_of(leaving_.begin(), leaving_.end(),
                     [&](const Path& path) { return path.main == &main; });
}

void ChannelPaths::Shutdown(const absl::Status& reason) {
  Leave();
  for (Path& path : leaving_) path.session->End(reason);
}

// ---- an attempt ----

// Beside nobody who makes calls nobody else would see to an attempt.
void ChannelPaths::Enter(Stage stage) {
  const bool busy = stage != Stage::kResting;
  if (busy != (stage_ != Stage::kResting)) busy ? loop_.AddUpkeep() : loop_.RemoveUpkeep();
  stage_ = stage;
  Disarm();
  MutexLock lock(mutex_);
  shown_.looking = busy;
}

void ChannelPaths::Ask() {
  if (main_ == nullptr || !main_->ready()) return;  // its end is on the way
  Enter(Stage::kAsking);
  main_->AskOffers();
  loop_.timers().Arm(*this, After(loop_.now(), options_.offer_timeout));
}

void ChannelPaths::TakeOffers(ClientSession& main, const std::vector<PathOffer>& offers) {
  if (&main != main_ || stage_ != Stage::kAsking) return;  // too late
  std::vector<PathCandidate> candidates = selector_->Select(offers);
  for (size_t i = 0; i < std::min(ways_.size(), candidates.size()); ++i) {
    ways_[i].candidate = std::move(candidates[i]);
  }
  trying_ = 0;
  TryNext();
}

void ChannelPaths::TryNext() {
  for (; trying_ < current_; ++trying_) {
    Way& way = ways_[trying_];
    if (loop_.now() < way.retry_at) continue;
    if (way.candidate.unusable.ok()) return Connect(way);
    // What is lacking may come, but not at once.
    way.reason = std::string(way.candidate.unusable.message());
    way.cooling = false;
    way.retry_at = After(loop_.now(), options_.cool_down.max);
  }
  Rest();
}

void ChannelPaths::Connect(const Way& way) {
  Enter(Stage::kConnecting);
  connecting_ = way.candidate.transport->Connect(
      loop_, way.candidate.endpoint, After(loop_.now(), options_.attach_timeout),
      [this](absl::StatusOr<std::unique_ptr<Connection>> connection) {
        OnConnected(std::move(connection));
      });
}

void ChannelPaths::OnConnected(absl::StatusOr<std::unique_ptr<Connection>> connection) {
  // The handle must not die inside its own callback.
  loop_.Post([done = std::move(connecting_)] {});
  if (!connection.ok()) {
    return FailAttempt(absl::StrCat("attach failed: ", connection.status().message()));
  }
  Enter(Stage::kGreeting);
  ClientSession::Owner& owner = *this;
  attempt_ = std::make_unique<ClientSession>(
      loop_, *std::move(connection),
      user_.MakeSessionOptions(std::move(ways_[trying_].candidate.token)), owner);
  attempt_->Start();
  loop_.timers().Arm(*this, After(loop_.now(), options_.attach_timeout));
}

void ChannelPaths::OnSessionReady(ClientSession& session) {
  if (&session != attempt_.get()) return;
  Enter(Stage::kProbing);
  probe_ = 0;
  SendProbe();
}

void ChannelPaths::SendProbe() {
  absl::StatusOr<Buffer> body = attempt_->pool()->Allocate(kProbeBytes[probe_]);
  if (!body.ok()) return FailAttempt(absl::StrCat("probe failed: ", body.status().message()));
  FillProbe({body->data(), body->size()});
  attempt_->Probe(*std::move(body));
  loop_.timers().Arm(*this, After(loop_.now(), options_.probe_timeout));
}

void ChannelPaths::OnProbe(ClientSession& session, Buffer body) {
  if (&session != attempt_.get() || stage_ != Stage::kProbing) return;
  if (body.size() != kProbeBytes[probe_] || !IsProbe({body.data(), body.size()})) {
    return FailAttempt(absl::StrCat("probe failed: of ", kProbeBytes[probe_],
                                    " bytes others came back than were sent"));
  }
  if (++probe_ < kProbeBytes.size()) return SendProbe();
  Adopt();
}

void ChannelPaths::Adopt() {
  const std::string from = current_ < ways_.size() ? ways_[current_].candidate.name : main_name_;
  Path old = std::exchange(carrier_, {std::move(attempt_), main_});
  current_ = trying_;
  ways_[current_].reason.clear();
  Log(LogLevel::kInfo, absl::StrCat("channel: calls to ", main_->peer_address(), " go by ",
                                    ways_[current_].candidate.name, " now, no longer by ", from));
  if (old.session != nullptr) Retire(std::move(old));
  Rest();
  user_.OnPathChanged();
}

void ChannelPaths::OnTimer() {
  const double attach = Seconds(options_.attach_timeout);
  switch (stage_) {
    case Stage::kResting:
      return Ask();
    case Stage::kAsking:
      for (size_t i = 0; i < current_; ++i) {
        if (loop_.now() < ways_[i].retry_at) continue;
        PutOff(ways_[i], absl::StrCat("the peer did not say what it offers within ",
                                      Seconds(options_.offer_timeout), " s"));
      }
      return Rest();
    case Stage::kConnecting:
      return;  // the transport keeps its deadline
    case Stage::kGreeting:
      return FailAttempt(absl::StrCat("attach failed: no HELLO within ", attach, " s"));
    case Stage::kProbing:
      return FailAttempt(absl::StrCat("probe failed: ", kProbeBytes[probe_],
                                      " bytes did not come back within ",
                                      Seconds(options_.probe_timeout), " s"));
  }
}

void ChannelPaths::FailAttempt(const std::string& why) {
  DropAttempt();
  Way& way = ways_[trying_++];
  PutOff(way, why);
  // Once: what fails again and again is told by Report.
  if (way.failures == 1) {
    Log(LogLevel::kInfo, absl::StrCat("channel: ", way.candidate.name, " to ",
                                      main_->peer_address(), " is not used: ", why));
  }
  TryNext();
}

void ChannelPaths::DropAttempt() {
  connecting_.reset();
  if (attempt_ == nullptr) return;
  attempt_->End(absl::CancelledError("the path is not used"));
  leaving_.push_back({std::move(attempt_), main_});
}

// Until the first of those that are better than the one in use has cooled down.
void ChannelPaths::Rest() {
  Enter(Stage::kResting);
  Publish();
  TimePoint next = TimePoint::max();
  for (size_t i = 0; i < current_; ++i) next = std::min(next, ways_[i].retry_at);
  if (next != TimePoint::max()) loop_.timers().Arm(*this, next);
}

void ChannelPaths::PutOff(Way& way, const std::string& why) {
  ++way.failures;
  way.retry_at = After(loop_.now(), PauseAfter(way.failures, options_.cool_down, random_));
  way.cooling = true;
  way.reason = why;
}

// ---- paths in use, and after ----

void ChannelPaths::LoseCarrier(const std::string& why) {
  Way& way = ways_[current_];
  current_ = ways_.size();
  TimePoint since;
  {
    MutexLock lock(mutex_);
    since = shown_.since;
  }
  // One after the other that does not last is tried less and less often.
  if (loop_.now() - since >= options_.cool_down.max) way.failures = 0;
  PutOff(way, why);
  Log(LogLevel::kWarning,
      absl::StrCat("channel: lost ", way.candidate.name, " to ", main_->peer_address(), ": ", why,
                   "; calls go by ", main_name_, " until it works again"));
  stage_ == Stage::kResting ? Rest() : Publish();
  user_.OnPathChanged();
}

void ChannelPaths::Retire(Path path) {
  if (path.session->calls() == 0) path.session->End(absl::CancelledError("drained"));
  leaving_.push_back(std::move(path));
}

void ChannelPaths::OnCallLeft(ClientSession& session) {
  if (&session == carrier_.session.get()) return user_.OnCallLeft(session);
  if (session.calls() == 0) session.End(absl::CancelledError("drained"));
}

void ChannelPaths::OnSessionDraining(ClientSession& session) {
  if (&session == attempt_.get()) return FailAttempt("the peer drains it");
  if (&session != carrier_.session.get()) return;
  Retire(std::exchange(carrier_, {}));
  LoseCarrier("the peer drains it");
}

void ChannelPaths::OnSessionEnded(ClientSession& session, const absl::Status& status) {
  if (&session == attempt_.get()) {
    Bury(std::move(attempt_));
    const bool probed = stage_ == Stage::kProbing;
    return FailAttempt(absl::StrCat(probed ? "probe" : "attach", " failed: ", status.message()));
  }
  if (&session == carrier_.session.get()) {
    Bury(std::move(std::exchange(carrier_, {}).session));
    return LoseCarrier(std::string(status.message()));
  }
  const auto found = std::find_if(leaving_.begin(), leaving_.end(),
                                  [&](const Path& path) { return path.session.get() == &session; });
  if (found == leaving_.end()) return;
  ClientSession* const main = found->main;
  Bury(std::move(found->session));
  leaving_.erase(found);
  user_.OnPathGone(main);
}

// A session must outlive the callback that it is in.
void ChannelPaths::Bury(std::unique_ptr<ClientSession> session) {
  loop_.Post([dead = std::move(session)] {});
}

// ---- what is told ----

void ChannelPaths::Publish() {
  std::string in_use;
  if (main_ != nullptr) {
    in_use = current_ < ways_.size() ? ways_[current_].candidate.name : main_name_;
  }
  std::vector<Way> better;
  for (size_t i = 0; i < current_; ++i) {
    const Way& way = ways_[i];
    Way shown{.retry_at = way.retry_at, .cooling = way.cooling, .reason = way.reason};
    shown.candidate.name = way.candidate.name;
    better.push_back(std::move(shown));
  }
  MutexLock lock(mutex_);
  if (shown_.in_use != in_use) {
    if (!in_use.empty() && !shown_.in_use.empty()) ++shown_.changes;
    shown_.since = loop_.now();
    shown_.in_use = std::move(in_use);
  }
  shown_.better = std::move(better);
}

PathReport ChannelPaths::Report(TimePoint now) const {
  PathReport report;
  MutexLock lock(mutex_);
  report.in_use = shown_.in_use;
  report.age = report.in_use.empty() ? Duration() : now - shown_.since;
  report.changes = shown_.changes;
  report.looking = shown_.looking;
  for (const Way& way : shown_.better) {
    const double left = std::ceil(Seconds(way.retry_at - now) * 10) / 10;
    report.better.push_back(
        {way.candidate.name, way.cooling && left > 0
                                 ? absl::StrCat("cooling down for ", left, " s: ", way.reason)
                                 : way.reason});
  }
  return report;
}

}  // namespace farcall
