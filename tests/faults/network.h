// Network: two networks' worth of machines in one: this process and a server's live in network
// namespaces of their own, joined by two cables, of which one can lose what it carries.

#ifndef FARCALL_TESTS_FAULTS_NETWORK_H_
#define FARCALL_TESTS_FAULTS_NETWORK_H_

#include <string>

namespace farcall::faults {

class Network {
 public:
  enum class Way { kRequests, kReplies };

  // Puts this thread, and all threads that it starts, into a network namespace of its own, for
  // good. False, with the reason in `why`: this user may not.
  static bool Enter(std::string& why);

  // Joins the namespace of this thread with that of the process `server`. Throws when the `ip`
  // program cannot.
  explicit Network(int server);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // The server's addresses: of the cable that can fail, and of the other.
  static constexpr char kFailing[] = "10.201.1.2";
  static constexpr char kSound[] = "10.201.2.2";

  // From now on what goes that way over the failing cable is lost, without a word to its sender;
  // or arrives again.
  void Lose(Way way);
  void Heal();

 private:
  const int server_;
};

}  // namespace farcall::faults

#endif  // FARCALL_TESTS_FAULTS_NETWORK_H_
