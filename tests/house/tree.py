"""The files of the source tree and the way every check in tests/house reports.

A check is a function from a Tree to a list of Violations; run() makes a program of it. Checks read
only text: they need no build and no git, and run the same on a planted tree (self_test.py).
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass

CODE = (".h", ".cc")
SCRIPTS = (".py", ".sh", ".cmake", "CMakeLists.txt", ".ci/run")
SKIPPED_FOLDERS = {".git", ".cache", "build", "__pycache__"}


@dataclass(frozen=True, order=True)
class Violation:
    path: str
    line: int  # 0: the file as a whole
    reason: str

    def __str__(self):
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.reason}"


class Tree:
    """All files below `root` that belong to the project, as paths with forward slashes."""

    def __init__(self, root):
        self.root = os.path.abspath(root)
        self.files = sorted(self._from_git() or self._from_walk())
        self.folders = {folder for path in self.files for folder in _parents(path)}

    def with_suffix(self, *suffixes):
        return [path for path in self.files if path.endswith(suffixes)]

    def text(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            return file.read()

    def _from_git(self):
        """Tracked and new files, not what .gitignore names; nothing where git cannot be used."""
        try:
            listing = subprocess.run(
                ["git", "-C", self.root, "ls-files", "-z", "--cached", "--others",
                 "--exclude-standard"],
                capture_output=True, check=True, text=True).stdout
            top = subprocess.run(["git", "-C", self.root, "rev-parse", "--show-toplevel"],
                                 capture_output=True, check=True, text=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return []
        if os.path.realpath(top) != os.path.realpath(self.root):
            return []  # a plain copy inside of somebody else's repository
        return [path for path in listing.split("\0")
                if path and os.path.isfile(os.path.join(self.root, path))]

    def _from_walk(self):
        found = []
        for folder, below, names in os.walk(self.root):
            below[:] = [name for name in below if name not in SKIPPED_FOLDERS]
            found += [os.path.relpath(os.path.join(folder, name), self.root) for name in names]
        return found


def _parents(path):
    while "/" in path:
        path = path.rsplit("/", 1)[0]
        yield path


_CPP_NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
                        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.DOTALL)


def strip_cpp(text):
    """C++ without comments and literals; every line keeps its number."""
    def blank(match):
        quote = '""' if match.group(0)[0] in '"R' else " "
        return quote + "\n" * match.group(0).count("\n")
    return _CPP_NOISE.sub(blank, text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def run(*checks):
    """Runs the checks over the tree that the command line names; exits with 0 when all hold."""
    tree = Tree(sys.argv[1])
    if not tree.files:
        sys.exit(f"{tree.root}: no files; the argument is the root of the source tree")
    violations = sorted(violation for check in checks for violation in check(tree))
    for violation in violations:
        print(violation)
    print(f"{len(tree.files)} files, {len(violations)} violations")
    sys.exit(1 if violations else 0)
