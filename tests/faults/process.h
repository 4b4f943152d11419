// What the system knows of a process, this one or another.

#ifndef FARCALL_TESTS_FAULTS_PROCESS_H_
#define FARCALL_TESTS_FAULTS_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>

#include "farcall/rpc/clock.h"

namespace farcall::faults {

std::set<int> Descriptors(pid_t process);
size_t Threads(pid_t process);
// Processor time that all its threads used.
Duration CpuTime(pid_t process);
// How often its threads went to sleep.
uint64_t Sleeps(pid_t process);
// Its address space, bytes.
uint64_t AddressSpace(pid_t process);
// A line of /proc/<process>/status: StatusLine(pid, "SigIgn").
std::string StatusLine(pid_t process, const std::string& name);
// Waits, within a bound, until SIGSTOP has stopped it.
bool WaitUntilStopped(pid_t process);

}  // namespace farcall::faults

#endif  // FARCALL_TESTS_FAULTS_PROCESS_H_
