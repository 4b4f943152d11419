// journal_server ADDRESS FILE: serves Journal at ADDRESS and appends each number that it runs to
// FILE. It is made to be killed: what is in FILE was written before the reply could leave.

#include <fcntl.h>

#include <cstdio>

#include "farcall/tests/services/journal.h"
#include "farcall/transports/dial.h"

namespace farcall::testing {
namespace {

int Main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: journal_server ADDRESS FILE\n", stderr);
    return 2;
  }
  const int file = ::open(argv[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) {
    std::perror(argv[2]);
    return 1;
  }
  JournalImpl journal(file);
  Server server;
  absl::Status ready = server.Add(Journal::Bind(journal));
  absl::StatusOr<Endpoint> address = Listen(server, argv[1]);
  if (ready.ok()) ready = address.status();
  if (!ready.ok()) {
    std::fprintf(stderr, "journal_server: %s\n", ready.ToString().c_str());
    return 1;
  }
  std::printf("listening on %s\n", address->ToString().c_str());
  std::fflush(stdout);
  server.Wait();
  return 0;
}

}  // namespace
}  // namespace farcall::testing

int main(int argc, char** argv) { return farcall::testing::Main(argc, argv); }
