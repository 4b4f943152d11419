#include "farcall/rpc/resources.h"

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"

namespace farcall {
namespace {

// A thread inherits the mask of the one that makes it.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    // What a thread's own fault raises cannot wait: blocked, it ends the process without a word to
    // the program's crash handler.
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
      sigdelset(&all, fault);
    }
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

std::string_view Remedy(int error) {
  switch (error) {
    case EMFILE:
      return "this process has no file descriptor left: raise its limit, ulimit -n";
    case ENFILE:
      return "this machine has no file descriptor left: raise fs.file-max";
    case EAGAIN:
      return "no thread or no memory for its stack is left: raise ulimit -u, ulimit -v or the "
             "control group's pids.max, or ask for fewer threads";
    default:
      return "the system has none left";
  }
}

}  // namespace

std::thread StartThread(const std::string& name, absl::AnyInvocable<void()> run) {
  const SignalsBlocked blocked;
  std::thread thread(std::move(run));
  pthread_setname_np(thread.native_handle(), name.substr(0, 15).c_str());
  return thread;
}

absl::Status OutOfResources(std::string_view what, const std::error_code& cause) {
  return absl::ResourceExhaustedError(
      absl::StrCat(Absl(what), ": ", cause.message(), " (", Absl(Remedy(cause.value())), ")"));
}

}  // namespace farcall
