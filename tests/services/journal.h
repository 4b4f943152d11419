// Journal of journal.fbs: the service, a caller that keeps many calls of it under way, and the
// comparison of what calls said with what ran.

#ifndef FARCALL_TESTS_SERVICES_JOURNAL_H_
#define FARCALL_TESTS_SERVICES_JOURNAL_H_

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "farcall/rpc/channel.h"
#include "farcall/rpc/context.h"
#include "farcall/rpc/mutex.h"
#include "farcall/rpc/service.h"
#include "journal.rpc.h"

namespace farcall::testing {

// Appends each number that it runs to `file`, a descriptor, before anything of the reply can leave.
class JournalImpl {
 public:
  explicit JournalImpl(int file) : file_(file) {}

  absl::Status Note(Context& context, const Entry& request, Reply<Noted>& reply);
  asio::awaitable<absl::Status> Linger(Context& context, Msg<Entry> request, Reply<Noted>& reply);

 private:
  absl::Status WriteDown(uint64_t number) const;

  const int file_;
};

// What a Journal at `path` ran.
std::set<uint64_t> ReadJournal(const std::string& path);

// Every end of each call, by its number.
using JournalEnds = std::map<uint64_t, std::vector<absl::Status>>;

struct JournalVerdict {
  // Empty when each call ended once, what succeeded ran, what is said never to have run did not,
  // and no other failure is called an answer.
  std::string trouble;
  size_t ok = 0;
  size_t never_ran = 0;  // not sent or not run
  size_t unknown = 0;
};
JournalVerdict Judge(const JournalEnds& ends, const std::set<uint64_t>& ran);

// Keeps calls under way until told to stop; remembers how each ended.
class JournalLoad {
 public:
  struct Options {
    int outstanding = 64;
    uint64_t first = 1;  // the number of the first call; loads on one journal must not overlap
    uint64_t work_us = 20;
    size_t data_bytes = 0;
    uint64_t reply_bytes = 0;
    bool linger = false;  // Journal's Linger instead of Note
    Duration timeout = std::chrono::seconds(5);
  };
  JournalLoad(const Channel& channel, const Options& options);
  ~JournalLoad();
  JournalLoad(const JournalLoad&) = delete;
  JournalLoad& operator=(const JournalLoad&) = delete;

  // No new calls; false when some do not end within the bound.
  bool Stop(Duration bound);
  JournalEnds ends() const;
  // Calls that succeeded so far, and that failed.
  uint64_t succeeded() const { return succeeded_; }
  uint64_t failed() const { return failed_; }

 private:
  void Next();
  void OnEnd(uint64_t number, const absl::Status& status);

  const Options options_;
  Journal::Client client_;
  std::atomic<uint64_t> next_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> ended_slots_{0};
  std::atomic<uint64_t> succeeded_{0}, failed_{0};
  mutable Mutex mutex_;
  JournalEnds ends_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farcall::testing

#endif  // FARCALL_TESTS_SERVICES_JOURNAL_H_
