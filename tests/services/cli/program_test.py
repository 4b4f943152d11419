"""farcall as a program: what it prints where, and its exit status.

usage: python3 program_test.py <farcall> <farcall_echo_server> <version>
"""

import json
import subprocess
import sys
import unittest

PROGRAM, SERVER, VERSION = sys.argv[1:4]


def run(*arguments):
    done = subprocess.run([PROGRAM, *arguments], text=True, capture_output=True, timeout=50)
    return done.returncode, done.stdout, done.stderr


class ProgramTest(unittest.TestCase):
    def test_usage(self):
        for arguments in ((), ("cure",), ("doctor", "--loud"),
                          ("doctor", "tcp://a:1", "tcp://b:1")):
            status, out, errors = run(*arguments)
            self.assertEqual((status, out), (2, ""))
            self.assertTrue(errors.startswith("usage: farcall doctor"))
        for arguments in (("--help",), ("doctor", "--help")):
            status, out, errors = run(*arguments)
            self.assertEqual((status, errors), (0, ""))
            self.assertIn("exit status: 0", out)

    def test_an_address_that_cannot_be(self):
        for address in ("nonsense", "gopher://host:1", "loopback://a"):
            status, out, errors = run("doctor", address)
            self.assertEqual((status, out), (2, ""))
            self.assertTrue(errors.startswith("farcall doctor: "), errors)

    def test_this_machine(self):
        status, out, errors = run("doctor", "--json")
        self.assertEqual(errors, "")
        report = json.loads(out)
        self.assertEqual(report["versions"]["farcall"], VERSION)
        self.assertNotIn("probe", report)
        problems = [each for each in report["findings"] if each["level"] == "PROBLEM"]
        self.assertEqual(status, 1 if problems else 0)
        self.assertEqual(report["well"], not problems)
        for each in problems:
            self.assertTrue(each["remedy"], each)
        if not report["adapters"]:
            self.assertIn("adapters", [each["topic"] for each in problems])
        # The same for people.
        text_status, text, errors = run("doctor")
        self.assertEqual((text_status, errors), (status, ""))
        for each in report["findings"]:
            self.assertIn(each["topic"], text)

    def test_a_server(self):
        server = subprocess.Popen([SERVER, "tcp://127.0.0.1:0", "--quiet"], text=True,
                                  stdout=subprocess.PIPE)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)  # the first of the three
        address = server.stdout.readline().split()[-1]
        status, out, errors = run("doctor", address, "--json")
        self.assertEqual((status, errors), (0, ""), out)
        probe = json.loads(out)["probe"]
        self.assertEqual(probe["address"], address)
        self.assertEqual([step["name"] for step in probe["steps"]],
                         ["connect", "HELLO", "PING", "4 KiB", "1 MiB"])
        server.terminate()
        server.wait()
        status, out, errors = run("doctor", address)
        self.assertEqual((status, errors), (1, ""))
        self.assertIn("PROBLEM  connect", out)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
