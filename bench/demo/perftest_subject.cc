#include "farcall/bench/demo/perftest_subject.h"

#include <sys/wait.h>

#include <array>
#include <cstdio>

#include "farcall/bench/demo/perftest.h"

namespace farcall::bench {
namespace {

// It may not find the rate of the processor's clock, or be in the way of a connection that ends.
constexpr int kAttempts = 4;

// The output of both streams; UNAVAILABLE when it fails or takes longer than a minute.
absl::StatusOr<std::string> OutputOf(const std::string& command) {
  FILE* const pipe = popen(("timeout -k 5 60 " + command + " 2>&1").c_str(), "re");
  if (pipe == nullptr) return absl::ErrnoToStatus(errno, "popen");
  std::string output;
  std::array<char, 4096> chunk;
  for (size_t bytes = 0; (bytes = fread(chunk.data(), 1, chunk.size(), pipe)) > 0;) {
    output.append(chunk.data(), bytes);
  }
  const int status = pclose(pipe);
  if (status == 0) return output;
  return absl::UnavailableError(command + " ended with status " +
                                std::to_string(WEXITSTATUS(status)) + ": " + output);
}

}  // namespace

absl::StatusOr<Measurement> PerftestSubject::Run(const Workload& workload,
                                                 std::optional<int> server_core) {
  std::string command = "env";
  if (server_core) command += " FARCALL_SERVER_CORE=" + std::to_string(*server_core);
  command += " perftest.sh";
  for (const std::string& word : PerftestCommand(workload)) command += " " + word;
  absl::Status last;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const absl::StatusOr<std::string> output = OutputOf(command);
    absl::StatusOr<Measurement> measured = output.ok()
                                               ? FromPerftest(workload, *output)
                                               : absl::StatusOr<Measurement>(output.status());
    if (measured.ok() || !absl::IsUnavailable(measured.status())) return measured;
    last = measured.status();
  }
  return last;
}

}  // namespace farcall::bench
