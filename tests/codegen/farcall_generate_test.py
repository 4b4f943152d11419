"""farcall_generate() in a project of its own, with spaces in its paths: what is generated, when it
is generated again, and what is refused.

usage: python3 farcall_generate_test.py <source root> <build root> <farcall-gen> <c++ compiler>
"""

import os
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD, PROGRAM, COMPILER = sys.argv[1:5]

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES CXX)
add_library(farcall::rpc INTERFACE IMPORTED)  # its headers are enough: nothing is linked here
target_include_directories(farcall::rpc INTERFACE "{build}/include")
add_executable(farcall::farcall-gen IMPORTED)
set_target_properties(farcall::farcall-gen PROPERTIES IMPORTED_LOCATION "{program}")
include("{source}/codegen/farcall_generate.cmake")
{calls}
"""
MESSAGE = "namespace {0}; table {1} {{ x: int; }}\n"


class FarcallGenerateTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="farcall generate ")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    def cmake(self, *arguments):
        run = subprocess.run(["cmake", *arguments], cwd=self.folder, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return run.returncode, run.stdout

    def configure(self, calls):
        self.write("CMakeLists.txt", PROJECT.format(
            build=BUILD, source=SOURCE, program=PROGRAM, calls=calls))
        return self.cmake("-S", ".", "-B", "build", "-G", "Ninja",
                          f"-DCMAKE_CXX_COMPILER={COMPILER}")

    def build(self):
        status, out = self.cmake("--build", "build")
        self.assertEqual(status, 0, out)
        return out

    def generated(self, target):
        found = []
        for folder, _, files in os.walk(os.path.join(self.folder, f"build/{target}.generated")):
            found += [f"{os.path.basename(folder)}/{file}" for file in files
                      if not file.endswith(".d")]
        return sorted(found)

    def text(self, name):
        with open(os.path.join(self.folder, "build", name)) as file:
            return file.read()

    def test_a_library(self):
        self.write("api/a.fbs", '/* include "no.fbs"; */ // include "nor.fbs";\n'
                   'include "near by.fbs";\ninclude\n  "far.fbs"; // the last\n'
                   "rpc_service A { M(near.Near): far.Far; }\n")
        self.write("api/near by.fbs", MESSAGE.format("near", "Near"))
        self.write("more inc/far.fbs",
                   '\ufeffinclude "sub/deep.fbs";\n' + MESSAGE.format("far", "Far"))
        self.write("more inc/sub/deep.fbs", MESSAGE.format("deep", "Deep"))
        self.write("b.fbs", MESSAGE.format("b", "B") + "rpc_service S { M(B): B; }\n")
        status, out = self.configure('farcall_generate(TARGET stubs SCHEMAS api/a.fbs b.fbs '
                                     'INCLUDES inc "more inc")')
        self.assertEqual(status, 0, out)
        self.build()
        self.assertEqual(self.generated("stubs"), [
            "messages/a_generated.h", "messages/b_generated.h", "messages/deep_generated.h",
            "messages/far_generated.h", "messages/near by_generated.h", "stubs/a.rpc.cc",
            "stubs/a.rpc.h", "stubs/b.rpc.cc", "stubs/b.rpc.h"])
        self.assertIn("no work to do", self.build())

        # A changed message, two includes away: the stubs hold its schema.
        before = self.text("stubs.generated/stubs/a.rpc.cc")
        self.write("more inc/sub/deep.fbs", MESSAGE.format("deep", "Deep").replace("x", "longer"))
        out = self.build()
        self.assertNotEqual(self.text("stubs.generated/stubs/a.rpc.cc"), before)
        self.assertIn("longer", self.text("stubs.generated/messages/deep_generated.h"))
        self.assertIn("Generating a_generated.h", out)
        self.assertNotIn("Generating b", out)
        self.assertIn("no work to do", self.build())

        # A new include: its messages join the library.
        self.write("more inc/new.fbs", MESSAGE.format("fresh", "New"))
        self.write("b.fbs", 'include "new.fbs";\nrpc_service S { M(fresh.New): fresh.New; }\n')
        self.build()
        self.assertIn("messages/new_generated.h", self.generated("stubs"))
        self.assertIn("fresh", self.text("stubs.generated/stubs/b.rpc.h"))
        self.assertIn("no work to do", self.build())

    def test_schemas_that_include_each_other(self):
        self.write("a.fbs", 'include "b.fbs";\ntable A { b: B; }\nrpc_service S { M(A): B; }\n')
        self.write("b.fbs", 'include "a.fbs";\ntable B { a: A; }\n')
        status, out = self.configure("farcall_generate(TARGET stubs SCHEMAS a.fbs)")
        self.assertEqual(status, 0, out)
        self.build()
        self.assertEqual(self.generated("stubs"),
                         ["messages/a_generated.h", "stubs/a.rpc.cc", "stubs/a.rpc.h"])
        status, out = self.configure("farcall_generate(TARGET stubs SCHEMAS a.fbs b.fbs)")
        self.assertNotEqual(status, 0)
        self.assertIn("include each other", out)

    def test_a_bad_schema_breaks_the_build(self):
        self.write("a.fbs", "table A { x: int; }\nrpc_service S { M(A): A (streaming: \"x\"); }\n")
        status, out = self.configure("farcall_generate(TARGET stubs SCHEMAS a.fbs)")
        self.assertEqual(status, 0, out)
        status, out = self.cmake("--build", "build")
        self.assertNotEqual(status, 0)
        self.assertIn("a.fbs:2: method 'M' has the unknown streaming value 'x'", out)
        self.assertNotIn("stubs/a.rpc.h", self.generated("stubs"))

    def test_refusals(self):
        self.write("a.fbs", MESSAGE.format("a", "A"))
        self.write("other/a.fbs", MESSAGE.format("b", "B"))
        for call, reason in [
                ("farcall_generate(TARGET t SCHEMAS none.fbs)", "there is no"),
                ("farcall_generate(TARGET t)", "SCHEMAS <file.fbs>..."),
                ("farcall_generate(TARGET t SCHEMAS a.fbs SOMETHING else)", "there is no"),
                ("farcall_generate(TARGET t SCHEMAS a.fbs other/a.fbs)",
                 "would both become")]:
            with self.subTest(call=call):
                status, out = self.configure(call)
                self.assertNotEqual(status, 0, out)
                self.assertIn(reason, out)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
