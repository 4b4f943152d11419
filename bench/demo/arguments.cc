#include "farcall/bench/demo/arguments.h"

#include <charconv>
#include <iostream>
#include <string_view>

namespace farcall::bench {

const char kUsage[] =
    "usage: farcall_demo [--load] [--quick] [--no-peers] [--json FILE] [--csv FILE]\n"
    "                    [--html FILE] [--rounds N] [--help]\n"
    "       farcall_demo --connect HOST | --adapter NAME@ADDRESS | --read FILE... [...]\n"
    "Measures calls between two processes, interleaved with plain sockets (the floor), and prints "
    "a table\n"
    "of both. The last line is the short answer.\n"
    "  --load       small calls under load instead: many at once, on many connections, beside "
    "large\n"
    "               payloads and idle connections\n"
    "  --quick      about 80 s instead of about eight minutes: fewer sizes and rounds\n"
    "  --no-peers   without the libraries of others: half as long\n"
    "  --json FILE  also write every record, one a case and round, to FILE\n"
    "  --csv FILE   the same as a table of values\n"
    "  --html FILE  also write a page with charts to FILE, which needs nothing else\n"
    "  --connect HOST  over rdma:// and tcp:// to farcall_demo_server on HOST\n"
    "  --adapter NAME@ADDRESS  over this host's RDMA adapter NAME, whose interface has the IPv4\n"
    "               ADDRESS, with TCP and perftest beside it: what bench/guest.sh does\n"
    "  --rounds N   that many rounds, however many there usually are\n"
    "  --first-round N  the number of the first round: so that runs can be read together\n"
    "  --read FILE  measure nothing: the report of what --json wrote; of several, read together\n";

namespace {

bool ParseAdapter(std::string_view value, Arguments& arguments) {
  const size_t at = value.find('@');
  if (at == 0 || at == std::string_view::npos || at + 1 == value.size()) return false;
  arguments.adapter = value.substr(0, at);
  arguments.adapter_host = value.substr(at + 1);
  return true;
}

bool ParseCount(std::string_view value, int& round) {
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), round);
  return error == std::errc() && end == value.data() + value.size() && round > 0;
}

// Where the text goes that `argument` is followed by; nullptr: none is.
std::string* TextOf(std::string_view argument, Arguments& arguments) {
  if (argument == "--json") return &arguments.json;
  if (argument == "--csv") return &arguments.csv;
  if (argument == "--html") return &arguments.html;
  if (argument == "--connect") return &arguments.connect;
  if (argument == "--read") return &arguments.read.emplace_back();
  return nullptr;
}

// False: there is no such argument.
bool TakeFlag(std::string_view argument, Arguments& arguments) {
  if (argument == "--help") {
    arguments.help = true;
  } else if (argument == "--load") {
    arguments.load = true;
  } else if (argument == "--quick") {
    arguments.quick = true;
  } else if (argument == "--no-peers") {
    arguments.peers = false;
  } else {
    return false;
  }
  return true;
}

// What is wrong; empty: nothing.
std::string Take(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (TakeFlag(argument, arguments)) continue;
    const bool last = i + 1 == argc;
    const std::string name(argument);
    if (argument == "--adapter") {
      if (last || !ParseAdapter(argv[++i], arguments)) return name + " needs NAME@ADDRESS";
    } else if (argument == "--first-round") {
      if (last || !ParseCount(argv[++i], arguments.first_round)) return name + " needs a number";
    } else if (argument == "--rounds") {
      if (last || !ParseCount(argv[++i], arguments.rounds)) return name + " needs a number";
    } else if (std::string* const text = TextOf(argument, arguments); text == nullptr) {
      return "unknown argument " + name;
    } else if (last) {
      return name + (argument == "--connect" ? " needs a host" : " needs a file");
    } else {
      *text = argv[++i];
    }
  }
  const int kinds = (arguments.connect.empty() ? 0 : 1) + (arguments.adapter.empty() ? 0 : 1) +
                    (arguments.read.empty() ? 0 : 1) + (arguments.load ? 1 : 0);
  if (kinds > 1) return "--load, --connect, --adapter and --read exclude each other";
  return "";
}

}  // namespace

std::optional<Arguments> ParseArguments(int argc, char** argv) {
  Arguments arguments;
  const std::string wrong = Take(argc, argv, arguments);
  if (wrong.empty()) return arguments;
  std::cerr << "farcall_demo: " << wrong << '\n' << kUsage;
  return std::nullopt;
}

}  // namespace farcall::bench
