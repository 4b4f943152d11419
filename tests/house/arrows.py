"""Which room may include what. The arrows of the house, as a table.

    services -> generated stubs -> rpc <- transports        codegen: build time only

usage: python3 tests/house/arrows.py <root of the source tree>
"""

import re

import tree as house

# Sockets and verbs belong to the transports that are named after them.
SOCKETS = re.compile(
    r"(sys/(socket|un)|netinet/.*|arpa/.*|net/.*|netdb|linux/(tcp|if.*|netlink|sock.*))\.h"
    r"|boost/asio\.hpp|boost/asio/(ip|local|generic|ssl)/.*"
    r"|boost/asio/(basic_.*socket.*|basic_socket.*|connect|buffered_.*|socket_base)\.hpp")
VERBS = re.compile(r"(infiniband|rdma)/.*")

# Headers of the C and C++ libraries and of the kernel: <vector>, <unistd.h>, <sys/mman.h>.
PLATFORM = re.compile(r"[a-z0-9_]+(\.h)?|(sys|linux|netinet|arpa|net|bits)/[a-z0-9_]+\.h|netdb\.h")
GENERATED = re.compile(r"([A-Za-z0-9_.-]+/)*[A-Za-z0-9_.-]+(_generated|\.rpc)\.h")
ASIO = r"boost/(asio|system)/.*"
ABSL = r"absl/.*"
FLATBUFFERS = r"flatbuffers/.*"


class Room:
    """What the files of one room may include. `own` is every room it may know, as path patterns."""

    def __init__(self, pattern, own, libraries=(), sockets=False, verbs=False, generated=False):
        self.pattern = re.compile(pattern)
        self.own = [re.compile(f"farcall/({rule})") for rule in own]
        self.libraries = [re.compile(rule) for rule in libraries]
        self.sockets, self.verbs, self.generated = sockets, verbs, generated

    def refusal(self, include):
        """Why the room may not include this; None if it may."""
        if include.startswith("farcall/"):
            if not any(rule.fullmatch(include) for rule in self.own):
                return "against the arrows"
        elif VERBS.fullmatch(include):
            return None if self.verbs else "verbs belong to transports/rdma/verbs"
        elif SOCKETS.fullmatch(include):
            return None if self.sockets else "sockets belong to tcp/ and the devices of rdma/"
        elif GENERATED.fullmatch(include):
            return None if self.generated else "generated stubs belong to services, tests and bench"
        elif not PLATFORM.fullmatch(include):
            if not any(rule.fullmatch(include) for rule in self.libraries):
                return "not among the libraries of this room"
        return None


ANY_LIBRARY = [r".*"]
# What the devices of transports/rdma/ know of it.
DEVICE = r"transports/rdma/(device|fork_guard)\.h"
# The first room whose pattern matches a file judges it.
ROOMS = [
    Room(r"rpc/.*", [r"rpc/.*"], [ASIO, ABSL, FLATBUFFERS]),
    Room(r"transports/dial\.(h|cc)", [r"rpc/.*", r"transports/.*"], [ASIO, ABSL]),
    Room(r"transports/tcp/.*", [r"rpc/.*", r"transports/tcp/.*"], [ASIO, ABSL], sockets=True),
    Room(r"transports/rdma/verbs/.*", [r"rpc/.*", DEVICE, r"transports/rdma/verbs/.*"], [ABSL],
         sockets=True, verbs=True),
    Room(r"transports/rdma/softnic/.*",
         [r"rpc/.*", DEVICE, r"transports/rdma/softnic/.*"], [ABSL],
         sockets=True),
    *[Room(rf"transports/{room}/.*", [r"rpc/.*", rf"transports/{room}/.*"], [ASIO, ABSL])
      for room in ("auto", "loopback", "faulty", "rdma")],
    Room(r"codegen/.*", [r"codegen/.*", r"rpc/method\.h"], [FLATBUFFERS]),
    # farcall doctor asks the adapters themselves.
    Room(r"services/cli/.*",
         [r"rpc/.*", r"transports/dial\.h", r"transports/rdma/verbs/survey\.h", r"services/.*"],
         [ASIO, ABSL]),
    Room(r"services/.*", [r"rpc/.*", r"transports/dial\.h", r"services/.*"],
         [ASIO, ABSL, FLATBUFFERS], generated=True),
    Room(r"tests/.*", [r".*"], ANY_LIBRARY, sockets=True, verbs=True, generated=True),
    Room(r"bench/.*", [r"(rpc|transports|codegen|services|bench)/.*"], ANY_LIBRARY,
         sockets=True, verbs=True, generated=True),
]

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)


def check_arrows(tree):
    violations = []
    for path in tree.with_suffix(*house.CODE):
        room = next((room for room in ROOMS if room.pattern.fullmatch(path)), None)
        if room is None:
            violations.append(house.Violation(path, 0, "no room of tests/house/arrows.py has it"))
            continue
        text = tree.text(path)
        for match in INCLUDE.finditer(text):
            bracket, include = match.groups()
            reason = spelling(tree, path, bracket, include) or room.refusal(include)
            if reason:
                line = house.line_of(text, match.start())
                violations.append(house.Violation(path, line, f"include of {include}: {reason}"))
    return violations


def spelling(tree, path, bracket, include):
    """Ours is "farcall/<room>/<file>.h" in quotes, and nothing else."""
    if include.startswith("farcall/"):
        if bracket == "<":
            return f'write it in quotes: "{include}"'
        if include.removeprefix("farcall/") not in tree.files:
            return "no such file in the tree"
    elif bracket == '"':
        beside = path.rsplit("/", 1)[0] + "/" + include
        for candidate in (include, beside):
            if candidate in tree.files:
                return f'write "farcall/{candidate}"'
    return None


if __name__ == "__main__":
    house.run(check_arrows)
