"""farcall-gen as a program: what it prints where, and its exit status.

usage: python3 program_test.py <farcall-gen> <version>
"""

import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM, VERSION = sys.argv[1], sys.argv[2]
GOOD = "table A { x: int; }\nrpc_service S { M(A): A; }\n"


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_program(self, *arguments):
        run = subprocess.run([PROGRAM, *arguments], cwd=self.folder, text=True, capture_output=True)
        return run.returncode, run.stdout, run.stderr

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)

    def test_help_and_version(self):
        status, out, errors = self.run_program("--help")
        self.assertEqual((status, errors), (0, ""))
        self.assertTrue(out.startswith("usage: farcall-gen "))
        self.assertEqual(self.run_program("--version"), (0, f"farcall-gen {VERSION}\n", ""))

    def test_silent_success(self):
        self.write("a.fbs", GOOD)
        self.assertEqual(self.run_program("a.fbs"), (0, "", ""))
        self.assertEqual(sorted(os.listdir(self.folder)), ["a.fbs", "a.rpc.cc", "a.rpc.h"])

    def test_bad_schema(self):
        self.write("a.fbs", GOOD)
        self.write("b.fbs", "\ntable A { x int; }\n")
        self.assertEqual(self.run_program("a.fbs", "b.fbs"),
                         (1, "", "b.fbs:2: expecting: : instead got: int\n"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["a.fbs", "b.fbs"])

    def test_every_problem_is_reported(self):
        self.write("a.fbs", "table NULL { errno: int; }\n")
        self.write("b.fbs", "table A { x: int }\n")
        status, _, errors = self.run_program("a.fbs", "b.fbs", "none.fbs")
        self.assertEqual(status, 1)
        self.assertEqual([line.split(": ")[0] for line in errors.splitlines()],
                         ["a.fbs:1", "a.fbs:1", "b.fbs:1", "none.fbs"])

    def test_usage_error(self):
        self.assertEqual(self.run_program(),
                         (2, "", "farcall-gen: no schema given (see farcall-gen --help)\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
