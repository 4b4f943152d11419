// A program in a process of its own, for tests.

#ifndef FARCALL_TESTS_SERVICES_CHILD_H_
#define FARCALL_TESTS_SERVICES_CHILD_H_

#include <string>
#include <vector>

namespace farcall::testing {

// Starts `command`, waits (10 s at most) for its line "listening on ADDRESS", and kills it at the
// end. It dies with this process, too.
class Child {
 public:
  explicit Child(const std::vector<std::string>& command);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Empty when it did not come up.
  const std::string& address() const { return address_; }
  int pid() const { return pid_; }
  // Sends `signal` (0: none, it ends by itself) and waits for the end (10 s at most, then SIGKILL);
  // returns the exit status of waitpid.
  int End(int signal);
  // The next line that it says on its standard output; "" when none came in time (10 s).
  std::string ReadLine() const;

 private:
  int pid_ = -1;
  int output_ = -1;
  std::string address_;
};

}  // namespace farcall::testing

#endif  // FARCALL_TESTS_SERVICES_CHILD_H_
