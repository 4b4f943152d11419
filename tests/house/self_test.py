"""The checks of this folder, checked: each finds what is planted for it, and nothing else."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import arrows
import cases
import clang_format
import readme
import style
import tree as house

HERE = os.path.dirname(os.path.abspath(__file__))


class Planted(unittest.TestCase):
    """Writes files into an empty tree and runs one check over them."""

    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="farcall-house-")
        self.addCleanup(shutil.rmtree, self.root)

    def write(self, path, text=""):
        whole = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w", encoding="utf-8") as file:
            file.write(text)

    def found(self, check):
        return [str(violation) for violation in check(house.Tree(self.root))]

    def expect(self, check, *parts):
        """Exactly one violation, and its text holds all the parts."""
        found = self.found(check)
        self.assertEqual(len(found), 1, found)
        for part in parts:
            self.assertIn(part, found[0])

    def expect_clean(self, check):
        self.assertEqual(self.found(check), [])


class Arrows(Planted):
    def include(self, path, include):
        self.write(path, f"// A file.\n\n#include {include}\n")

    def test_refused(self):
        self.write("transports/tcp/tcp.h")
        self.write("transports/loopback/loopback.h")
        self.write("transports/dial.h")
        self.write("tests/rpc/fixture.h")
        self.write("bench/measure.h")
        for path, include in [
                ("rpc/x.cc", '"farcall/transports/tcp/tcp.h"'),
                ("rpc/x.cc", "<sys/socket.h>"),
                ("rpc/x.cc", "<boost/asio/ip/tcp.hpp>"),
                ("rpc/x.cc", "<boost/asio.hpp>"),
                ("rpc/x.cc", "<infiniband/verbs.h>"),
                ("rpc/x.cc", "<boost/lockfree/queue.hpp>"),
                ("rpc/x.cc", '"echo.rpc.h"'),
                ("rpc/x.cc", '"farcall/tests/rpc/fixture.h"'),
                ("transports/tcp/x.cc", '"farcall/transports/loopback/loopback.h"'),
                ("transports/tcp/x.cc", '"farcall/transports/dial.h"'),
                ("transports/tcp/x.cc", '"flatbuffers/flatbuffers.h"'),
                ("transports/loopback/x.cc", "<netinet/tcp.h>"),
                ("transports/faulty/x.h", '"farcall/transports/loopback/loopback.h"'),
                ("codegen/x.cc", '"absl/status/status.h"'),
                ("services/echo/x.cc", '"farcall/transports/tcp/tcp.h"'),
                ("services/echo/x.cc", "<sys/socket.h>"),
                ("services/echo/x.cc", '"farcall/bench/measure.h"'),
                ("bench/x.cc", '"farcall/tests/rpc/fixture.h"'),
        ]:
            with self.subTest(path=path, include=include):
                self.include(path, include)
                self.expect(arrows.check_arrows, f"{path}:3: include of {include[1:-1]}")
                os.remove(os.path.join(self.root, path))

    def test_spelling(self):
        self.write("rpc/buffer.h")
        for include in ('"buffer.h"', '"rpc/buffer.h"', "<farcall/rpc/buffer.h>",
                        '"farcall/rpc/bufer.h"'):
            with self.subTest(include=include):
                self.include("rpc/x.cc", include)
                self.expect(arrows.check_arrows, "rpc/x.cc:3")

    def test_unknown_room(self):
        self.write("attic/x.cc")
        self.expect(arrows.check_arrows, "attic/x.cc: no room")

    def test_allowed(self):
        self.write("rpc/buffer.h")
        self.write("transports/tcp/tcp.h")
        self.write("transports/dial.h")
        for path, include in [
                ("rpc/a.cc", "<vector>"), ("rpc/b.cc", "<sys/mman.h>"), ("rpc/c.cc", "<unistd.h>"),
                ("rpc/d.cc", '"farcall/rpc/buffer.h"'), ("rpc/e.cc", '"absl/status/status.h"'),
                ("rpc/f.cc", "<boost/asio/steady_timer.hpp>"),
                ("transports/tcp/a.cc", "<boost/asio/ip/tcp.hpp>"),
                ("transports/dial.cc", '"farcall/transports/tcp/tcp.h"'),
                ("codegen/a.cc", '"flatbuffers/idl.h"'),
                ("services/echo/a.cc", '"services/echo/echo.rpc.h"'),
                ("services/echo/b.cc", '"farcall/transports/dial.h"'),
                ("tests/rpc/a.cc", "<catch2/catch.hpp>"),
                ("bench/a.cc", "<benchmark/benchmark.h>"),
        ]:
            self.include(path, include)
        self.expect_clean(arrows.check_arrows)


class Readme(Planted):
    def setUp(self):
        super().setUp()
        self.write("rpc/frame.h",
                   "namespace farcall { class Frame { void Encode(); }; }  // Phantom\n")
        self.write("rpc/README.md", "# The call\n\n## How it flows\n")

    def test_refused(self):
        for line in ("[frame](frame.hh)", "[up](../../x)", "[flow](#how-it-runs)",
                     "[other](../rpc/README.md#nothing)", "`rpc/fraem.h`", "`frame.cc`",
                     "`rpc/frame.{h,cc}`", "`rpc/lost/`", "`farcall/rpc/lost.h`",
                     "`sh tests/walk.sh`", "`farcall::Phantom`", "`Frame::Decode`",
                     "`Frame::Decode(bytes)`", "`FrameTable`", "`farcall_lost()`",
                     "`FARCALL_LOST`", "`StatusOr<Phantom>::Lost`"):
            with self.subTest(line=line):
                self.write("rpc/README.md", f"# The call\n\n{line}\n")
                self.expect(readme.check_markdown, "rpc/README.md:3")

    def test_allowed(self):
        self.write("rpc/README.md", "\n".join([
            "# The call", "", "## How it flows",
            "[frame](frame.h), [room](../rpc), [flow](#how-it-flows)",
            "[site](https://example.org/x.h)", "`rpc/frame.h` `frame.h` `rpc/frame` `frame.*`",
            "`farcall/rpc/frame.h` `echo.rpc.h` `<name>.rpc.h` `/proc/self/maps`",
            "`build/release/bin/x` `farcall::Frame` `Frame::Encode(…)` `absl::Status`",
            "`TCP_NODELAY` `-o` `read()`",
            "```", "`not/looked/at.h`", "```", ""]))
        self.expect_clean(readme.check_markdown)

    def test_room_without_readme(self):
        self.write("transports/tcp/tcp.h")
        self.write("transports/README.md")
        self.expect(readme.check_rooms, "transports/tcp", "no README.md")


class Style(Planted):
    def test_top_level(self):
        for name in style.TOP_LEVEL:
            self.write(name if "." in name or name == "LICENSE" else f"{name}/file")
        self.write(".gitignore")
        self.expect_clean(style.check_top_level)
        self.write("docs/x.md")
        self.expect(style.check_top_level, "docs", "does not belong")
        shutil.rmtree(os.path.join(self.root, "docs"))
        os.remove(os.path.join(self.root, "LICENSE"))
        self.expect(style.check_top_level, "LICENSE", "missing")

    def test_listed(self):
        self.write("transports/CMakeLists.txt", "room(dial SOURCES dial.cc HEADERS dial.h)  # x.h")
        self.write("transports/tcp/CMakeLists.txt", "room(tcp\n  SOURCES a.cc deep/b.cc)")
        for path in ("dial.cc", "dial.h", "tcp/a.cc", "tcp/deep/b.cc"):
            self.write(f"transports/{path}")
        self.expect_clean(style.check_listed)
        for path in ("x.h", "l.cc", "tcp/b.cc", "tcp/deep/a.cc", "tcp/dial.h"):
            with self.subTest(path=path):
                self.write(f"transports/{path}")
                self.expect(style.check_listed, f"transports/{path}", "does not name it")
                os.remove(os.path.join(self.root, "transports", path))

    def test_words(self):
        for word in ("/ho" "me/ann/farcall", "/wo" "rk/x", "../sha" "red/x", "iss" "ue 7",
                     "pypi" ".org", "TO" "DO later"):
            with self.subTest(word=word):
                self.write("rpc/x.h", f"// fine\n// see {word}\n")
                self.expect(style.check_words, "rpc/x.h:2")
        self.write("rpc/x.h", "// at work/ and home/, in the issuer's root/ folder\n")
        self.expect_clean(style.check_words)

    def test_columns(self):
        self.write("rpc/x.cc", "//" + "x" * 98 + "\n")
        self.expect_clean(style.check_columns)
        self.write("rpc/x.cc", "//" + "x" * 99 + "\n")
        self.expect(style.check_columns, "rpc/x.cc:1", "101 columns")

    def test_guards(self):
        self.write("rpc/a_b.h", "#ifndef FARCALL_RPC_A_B_H_\n#define FARCALL_RPC_A_B_H_\n"
                                "#endif  // FARCALL_RPC_A_B_H_\n")
        self.expect_clean(style.check_guards)
        self.write("rpc/c.h", "#pragma once\n")
        self.expect(style.check_guards, "rpc/c.h", "FARCALL_RPC_C_H_")

    def test_functions(self):
        for head in ("void F() {", "auto F() -> int {", "int F(A a) const noexcept {",
                     "F::F() : a_{1}, b_{2} {", "auto f = [&](int x) {", "TEST_CASE(\"a { b\") {",
                     "template <class T>\nvoid F(T t) {", "struct X {\n  void F() {\n"):
            close = "\n}}" if head.startswith("struct") else "\n}"
            with self.subTest(head=head):
                self.write("rpc/x.cc", "int before;\n" + head + "\n  g();" * 60 + close)
                self.expect_clean(style.check_functions)
                self.write("rpc/x.cc", "int before;\n" + head + "\n  if (a) { g(); }" * 80 + close)
                self.expect(style.check_functions, "rpc/x.cc:", "at most 70")

    def test_not_functions(self):
        for head in ("namespace a {", "class A : B<int()> {", "int a[] = {", "enum class E {"):
            self.write("rpc/x.cc", head + "\n  g;" * 100 + "\n}")
            self.expect_clean(style.check_functions)

    def test_python_functions(self):
        self.write("tests/x.py", "def f():\n" + "    g()\n" * 70)
        self.expect(style.check_functions, "tests/x.py:1", "71 lines")


class Cases(Planted):
    def setUp(self):
        super().setUp()
        self.write("tests/rpc/CMakeLists.txt", "farcall_test(rpc.frame\n    SOURCES frame_test.cc\n"
                   "    DEPS x)\nfarcall_test(rpc.hello SOURCES hello_test.cc)\n"
                   "add_test(NAME rpc.plain COMMAND x)\n"
                   "foreach(part one two)\n  add_test(NAME rpc.plain.${part} COMMAND x)\n")
        self.write("tests/rpc/frame_test.cc", 'TEST_CASE("a head, cut") {}\n'
                   'TEST_CASE(\n    "a long "\n    "name, \\"too\\"", "[slow]") {}\n')
        self.write("tests/rpc/hello_test.cc", 'TEST_CASE("a greeting") {}\n')
        self.write("tests/faults/CMakeLists.txt", "faults_test(fork TIMEOUT 5)\n")
        self.write("tests/faults/fork_test.cc", 'TEST_CASE("a child") {}\n')

    def test_refused(self):
        for cell, reason in [("rpc.lost", "no test is called rpc.lost"),
                             ("rpc.plain.three", "no test is called rpc.plain.three"),
                             ('rpc.frame "a head, uncut"',
                              'rpc.frame have no case "a head, uncut"'),
                             ('rpc.frame "a head, cut", "a greeting"', 'no case "a greeting"'),
                             ('rpc.hello "a head…"', 'no case "a head…"'),
                             ('rpc.frame | "nothing"', 'the tests have no case "nothing"'),
                             ('faults.fork "a parent"', 'no case "a parent"')]:
            with self.subTest(cell=cell):
                self.write("tests/README.md", f"# Tests\n\n| a fault | {cell} |\n")
                self.expect(cases.check_cases, "tests/README.md:3", reason)

    def test_allowed(self):
        self.write("tests/README.md", "\n".join([
            "# Tests", "", "rpc.lost is not in a table", "| fault | test |", "|---|---|",
            '| x | rpc.frame "a head, cut", "a long…"; rpc.hello "a greeting"; rpc.plain.two |',
            '| y | faults.fork "… child", "a child" | the same, "a greeting" |',
            '| no test at all | "not sent" |',
            "| z | [main.cc](main.cc), rpc/frame.h, transports/tcp/prefix.cc, `limits.x` |", ""]))
        self.expect_clean(cases.check_cases)


class Format(Planted):
    def test_finds_what_is_unformatted(self):
        self.write(".clang-format", "BasedOnStyle: Google\n")
        self.write("rpc/x.cc", "int a;\n")
        self.expect_clean(clang_format.check_format)
        self.write("rpc/x.cc", "int a;\nint   b;\n")
        self.expect(clang_format.check_format, "rpc/x.cc:2")


class Tidy(Planted):
    """The whole program, on a build of its own: a finding fails, a clean file is remembered."""

    def setUp(self):
        super().setUp()
        shutil.copy(os.path.join(HERE, "..", "..", ".clang-tidy"), self.root)
        self.write("CMakeLists.txt",
                   "cmake_minimum_required(VERSION 3.25)\nproject(x CXX)\n"
                   "set(CMAKE_EXPORT_COMPILE_COMMANDS ON)\nadd_library(x rpc/x.cc)\n")
        self.build = os.path.join(self.root, "build", "x")

    def check(self, text):
        self.write("rpc/x.cc", text)
        for command in (["cmake", "-S", self.root, "-B", self.build, "-G", "Ninja"],
                        ["ninja", "-C", self.build]):
            subprocess.run(command, check=True, capture_output=True)
        environment = {name: value for name, value in os.environ.items()
                       if name != "FARCALL_TIDY_CACHE"}
        program = os.path.join(HERE, "clang_tidy.py")
        return subprocess.run([sys.executable, "-B", program, self.root, self.build],
                              capture_output=True, text=True, env=environment)

    def test_finding_then_clean_then_remembered(self):
        result = self.check("int F() { int BadName = 1; return BadName; }\n")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("BadName", result.stdout)
        result = self.check("int F() { return 1; }\n")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("rpc/x.cc: clean", result.stdout)
        result = self.check("int F() { return 1; }\n")
        self.assertIn("1 files, 1 unchanged", result.stdout)
        result = self.check("int F() { int *p = 0; return *p; }\n")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("modernize-use-nullptr", result.stdout)


class Listing(Planted):
    def test_git_and_walk_agree_and_ignored_files_do_not_belong(self):
        self.write(".gitignore", "/build/\n")
        self.write("build/x.cc")
        self.write("rpc/x.cc")
        walked = house.Tree(self.root).files
        subprocess.run(["git", "init", "-q", self.root], check=True)
        self.assertEqual(house.Tree(self.root).files, walked)
        self.assertEqual(walked, [".gitignore", "rpc/x.cc"])


if __name__ == "__main__":
    unittest.main()
