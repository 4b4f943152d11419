// Agenda: things that are due at some moment, in the order of their moments, behind one timer.

#ifndef FARCALL_TRANSPORTS_FAULTY_AGENDA_H_
#define FARCALL_TRANSPORTS_FAULTY_AGENDA_H_

#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "farcall/rpc/event_loop.h"

namespace farcall::faulty {

// Driver only.
template <typename Entry>
class Agenda final : private Timer {
 public:
  // `ring` runs on the loop when something is due: TakeDue until it is empty.
  Agenda(EventLoop& loop, std::function<void()> ring) : loop_(loop), ring_(std::move(ring)) {}

  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  // When the last entry is due. Precondition: not empty.
  TimePoint last() const { return entries_.rbegin()->first; }

  // Never runs anything at once, even for a moment that has passed. Entries of one moment keep
  // their order.
  void Add(TimePoint due, Entry entry) {
    entries_.emplace(due, std::move(entry));
    Wind();
  }

  std::optional<Entry> TakeDue() {
    if (entries_.empty() || entries_.begin()->first > loop_.now()) {
      Wind();
      return std::nullopt;
    }
    return Take(entries_.begin());
  }

  // The first entry, due or not.
  std::optional<Entry> TakeFirst() {
    if (entries_.empty()) return std::nullopt;
    return Take(entries_.begin());
  }

  // The first entry that `matches`.
  template <typename Predicate>
  std::optional<Entry> TakeIf(Predicate matches) {
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
      if (matches(at->second)) return Take(at);
    }
    return std::nullopt;
  }

  void Clear() {
    Disarm();
    entries_.clear();
  }

 private:
  using Entries = std::multimap<TimePoint, Entry>;

  Entry Take(typename Entries::iterator at) {
    Entry entry = std::move(at->second);
    entries_.erase(at);
    return entry;
  }

  void Wind() {
    if (entries_.empty()) return;
    const TimePoint first = entries_.begin()->first;
    if (!armed() || deadline() != first) loop_.timers().Arm(*this, first);
  }

  void OnTimer() override { ring_(); }

  EventLoop& loop_;
  const std::function<void()> ring_;
  Entries entries_;
};

}  // namespace farcall::faulty

#endif  // FARCALL_TRANSPORTS_FAULTY_AGENDA_H_
