#include "farcall/tests/services/journal.h"

#include <unistd.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "farcall/rpc/outcome.h"

namespace farcall::testing {
namespace {

void FinishNoted(const Entry& request, Reply<Noted>& reply) {
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> data;
  if (request.reply_bytes() > 0) {
    uint8_t* bytes = nullptr;
    data = reply.CreateUninitializedVector(request.reply_bytes(), &bytes);
    std::fill_n(bytes, request.reply_bytes(), uint8_t{7});
  }
  reply.Finish(CreateNoted(reply, request.number(), data));
}

}  // namespace

absl::Status JournalImpl::WriteDown(uint64_t number) const {
  const ssize_t written = ::write(file_, &number, sizeof number);
  if (written == static_cast<ssize_t>(sizeof number)) return absl::OkStatus();
  return absl::InternalError("the journal cannot be written");
}

absl::Status JournalImpl::Note(Context& /*context*/, const Entry& request, Reply<Noted>& reply) {
  if (absl::Status written = WriteDown(request.number()); !written.ok()) return written;
  std::this_thread::sleep_for(std::chrono::microseconds(request.work_us()));
  FinishNoted(request, reply);
  return absl::OkStatus();
}

asio::awaitable<absl::Status> JournalImpl::Linger(Context& /*context*/, Msg<Entry> request,
                                                  Reply<Noted>& reply) {
  if (absl::Status written = WriteDown(request->number()); !written.ok()) co_return written;
  asio::steady_timer timer(co_await asio::this_coro::executor,
                           std::chrono::microseconds(request->work_us()));
  co_await timer.async_wait(asio::use_awaitable);
  FinishNoted(*request, reply);
  co_return absl::OkStatus();
}

std::set<uint64_t> ReadJournal(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::set<uint64_t> numbers;
  for (uint64_t number = 0; file.read(reinterpret_cast<char*>(&number), sizeof number);) {
    numbers.insert(number);
  }
  return numbers;
}

JournalVerdict Judge(const JournalEnds& ends, const std::set<uint64_t>& ran) {
  JournalVerdict verdict;
  std::ostringstream trouble;
  for (const auto& [number, statuses] : ends) {
    if (statuses.size() != 1) trouble << number << " ended " << statuses.size() << " times\n";
    const absl::Status& status = statuses.front();
    const bool did_run = ran.contains(number);
    if (status.ok()) {
      ++verdict.ok;
      if (!did_run) trouble << number << " succeeded and never ran\n";
    } else if (NeverRan(status)) {
      ++verdict.never_ran;
      if (did_run) trouble << number << " ran: " << status.ToString() << "\n";
    } else if (OutcomeOf(status) == Outcome::kUnknown) {
      ++verdict.unknown;
    } else {
      trouble << number << " is called answered: " << status.ToString() << "\n";
    }
  }
  verdict.trouble = trouble.str();
  return verdict;
}

// ---- the load ----

JournalLoad::JournalLoad(const Channel& channel, const Options& options)
    : options_(options), client_(channel), next_(options.first) {
  for (int i = 0; i < options_.outstanding; ++i) Next();
}

// The callbacks use us: whatever the test found, they end by their deadlines.
JournalLoad::~JournalLoad() {
  stopping_ = true;
  while (ended_slots_ < options_.outstanding) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool JournalLoad::Stop(Duration bound) {
  stopping_ = true;
  const TimePoint end = Clock::Steady().Now() + bound;
  while (ended_slots_ < options_.outstanding) {
    if (Clock::Steady().Now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

JournalEnds JournalLoad::ends() const {
  MutexLock lock(mutex_);
  return ends_;
}

void JournalLoad::Next() {
  if (stopping_) {
    ++ended_slots_;
    return;
  }
  EntryT entry;
  entry.number = next_++;
  entry.work_us = options_.work_us;
  entry.reply_bytes = options_.reply_bytes;
  entry.data.assign(options_.data_bytes, 3);
  auto done = [this, number = entry.number](const absl::StatusOr<Msg<Noted>>& reply) {
    OnEnd(number, reply.status());
  };
  const CallOptions call{.timeout = options_.timeout};
  if (options_.linger) {
    client_.AsyncLinger(entry, call, std::move(done));
  } else {
    client_.AsyncNote(entry, call, std::move(done));
  }
}

void JournalLoad::OnEnd(uint64_t number, const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    ends_[number].push_back(status);
  }
  ++(status.ok() ? succeeded_ : failed_);
  // A channel that cannot connect fails at once: do not spin on it.
  if (!status.ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  Next();
}

}  // namespace farcall::testing
