"""A class with wrong methods gives one readable error a method, and no other.

usage: python3 bind_message_test.py <compile_commands.json>
"""

import json
import re
import shlex
import subprocess
import sys

SIGNATURES = (
    "service farcall.test.Echo needs a public method '{0}' of the class that is bound to it, as "
    "one of: (1) absl::Status {0}(farcall::Context&, const farcall::test::SayRequest&, "
    "farcall::Reply<farcall::test::SayReply>&); (2) boost::asio::awaitable<absl::Status> "
    "{0}(farcall::Context&, farcall::Msg<farcall::test::SayRequest>, "
    "farcall::Reply<farcall::test::SayReply>&); (3) absl::Status {0}(farcall::Context&, const "
    "farcall::test::SayRequestT&, farcall::test::SayReplyT&)")
EXPECTED = [SIGNATURES.format(method) for method in ("Say", "Repeat")]


def main():
    with open(sys.argv[1]) as file:
        entries = [e for e in json.load(file) if e["file"].endswith("/wrong_service.cc")]
    entry, = entries
    command = [word for word in shlex.split(entry["command"]) if not word.endswith("ccache")]
    run = subprocess.run(command + ["-fsyntax-only"], cwd=entry["directory"], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    errors = re.findall(r"error: (.*)", run.stdout)
    right = run.returncode != 0 and len(errors) == len(EXPECTED) and all(
        error.endswith(expected) for error, expected in zip(errors, EXPECTED))
    if not right:
        print(run.stdout)
        print("expected these errors and no other:", *EXPECTED, sep="\n  ")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
