#include "farcall/transports/auto/bindings.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/transports/auto/offer.h"

namespace farcall::paths {
namespace {

absl::Status Unknown() {
  return absl::PermissionDeniedError(
      "the token of this path is not known here: it was taken before, is too old, or the "
      "connection that it was given to is gone");
}

}  // namespace

absl::StatusOr<std::string> RandomBytes(size_t bytes) {
  std::string random(bytes, '\0');
  for (size_t got = 0; got < bytes;) {
    const ssize_t more = ::getrandom(random.data() + got, bytes - got, 0);
    if (more > 0) {
      got += static_cast<size_t>(more);
    } else if (errno != EINTR) {
      return absl::UnavailableError(
          absl::StrCat("the system gives no random numbers: ", std::strerror(errno)));
    }
  }
  return random;
}

uint64_t Bindings::EnterMain() {
  MutexLock lock(mutex_);
  sessions_.emplace(++last_, Session{});
  return last_;
}

absl::StatusOr<uint64_t> Bindings::EnterPath(std::string_view name, std::string_view token,
                                             PathHost::EndPath end, TimePoint now) {
  if (token.empty()) {
    return absl::PermissionDeniedError(
        "this address is for callers that were offered it over TCP: dial that one");
  }
  MutexLock lock(mutex_);
  const auto found = given_.find(std::string(token));
  if (found == given_.end()) return Unknown();
  const Given given = std::move(found->second);
  given_.erase(found);
  Session& main = sessions_.at(given.session);
  std::erase(main.tokens, token);
  if (now >= given.until) return Unknown();
  if (given.name != name) {
    return absl::PermissionDeniedError(absl::StrCat("the token is one of the path ", given.name,
                                                    ", and this is ", std::string(name)));
  }
  if (main.paths.size() >= kMaxPaths) {
    return absl::ResourceExhaustedError(absl::StrCat("the connection that this path is beside has ",
                                                     main.paths.size(), " already"));
  }
  const uint64_t path = ++last_;
  main.paths.push_back(path);
  sessions_.emplace(path, Session{.main = given.session, .end = std::move(end)});
  return path;
}

absl::StatusOr<std::string> Bindings::NewToken(uint64_t session, std::string_view name,
                                               TimePoint now) {
  absl::StatusOr<std::string> token = RandomBytes(kTokenBytes);
  if (!token.ok()) return token.status();
  MutexLock lock(mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return absl::UnavailableError("the connection is gone");
  found->second.tokens.push_back(*token);
  given_[*token] = {session, std::string(name), After(now, kTokenLife)};
  return token;
}

void Bindings::DropTokens(Session& session) {
  for (const std::string& token : session.tokens) given_.erase(token);
  session.tokens.clear();
}

void Bindings::VoidTokens(uint64_t session) {
  MutexLock lock(mutex_);
  if (const auto found = sessions_.find(session); found != sessions_.end()) {
    DropTokens(found->second);
  }
}

size_t Bindings::Paths(uint64_t session) const {
  MutexLock lock(mutex_);
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? 0 : found->second.paths.size();
}

size_t Bindings::tokens() const {
  MutexLock lock(mutex_);
  return given_.size();
}

void Bindings::Leave(uint64_t session) {
  std::vector<PathHost::EndPath> ends;
  {
    MutexLock lock(mutex_);
    const auto found = sessions_.find(session);
    if (found == sessions_.end()) return;
    Session left = std::move(found->second);
    sessions_.erase(found);
    DropTokens(left);
    if (const auto main = sessions_.find(left.main); main != sessions_.end()) {
      std::erase(main->second.paths, session);
    }
    for (const uint64_t path : left.paths) {
      if (const auto beside = sessions_.find(path); beside != sessions_.end()) {
        ends.push_back(std::exchange(beside->second.end, nullptr));
      }
    }
  }
  for (const PathHost::EndPath& end : ends) {
    end(absl::UnavailableError("the TCP connection that this path was beside is gone"));
  }
}

}  // namespace farcall::paths
