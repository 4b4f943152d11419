"""Every schema with a service in a folder of real ones: generated, implemented and called.

usage: python3 schemas_test.py <source root> <build root> <c++ compiler> [folder] [refusals]

Each schema becomes a program of a project that uses the installed package as a user would:
farcall_generate(), an implementation of its services (implement.cc prints it), and calls of each
method (exercise.h). A schema that flatc refuses, or whose flatc header does not
compile, is not looked at further, and said so. What farcall-gen refuses must be in the file
`refusals`, a line each: the schema's path below the folder, ": ", and the message; and what is
there must be refused.

The folder is that of FARCALL_SCHEMA_DIR in the environment, or the argument; without one the test
is skipped. Includes are looked for in the folders below the schema's own, then in those of its
project, which is the first part of its path.
"""

import os
import re
import shutil
import subprocess
import sys

SKIPPED = 77
FLATC = ["flatc", "--cpp", "--gen-object-api", "--cpp-std", "c++17", "--no-warnings"]

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(schemas LANGUAGES CXX)
find_package(farcall REQUIRED)
add_library(exercise STATIC {tests}/exercise.cc {tests}/sample.cc)
target_compile_features(exercise PUBLIC cxx_std_20)
target_include_directories(exercise PUBLIC {build}/include)
target_link_libraries(exercise PUBLIC farcall::rpc farcall::loopback)
"""
PROGRAM = """
farcall_generate(TARGET {name}_stubs SCHEMAS "{path}" INCLUDES {includes})
target_compile_options({name}_stubs PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                       -Wno-sign-conversion -Werror)
add_executable({name} {name}/services.cc)
target_link_libraries({name} PRIVATE exercise {name}_stubs)
"""


def run(command, **options):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          **options)


def check(command, **options):
    done = run(command, **options)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nfailed: {' '.join(command)}")
    return done.stdout


class Schema:
    def __init__(self, folder, path):
        self.path, self.below = path, os.path.relpath(path, folder)
        self.name = re.sub(r"\W", "_", self.below.removesuffix(".fbs"))
        own = os.path.dirname(path)
        project = os.path.join(folder, self.below.split(os.sep)[0])
        folders = folders_with_schemas(own) + folders_with_schemas(project)
        self.includes = list(dict.fromkeys(folders))
        self.flags = [word for include in self.includes for word in ("-I", include)]

    def refusal_of_flatc(self, work):
        done = run([*FLATC, *self.flags, "-o", work, self.path])
        return done.stdout if done.returncode != 0 else None

    def header_compiles(self, work, compiler):
        """Whether flatc's headers compile, each for itself or all in one."""
        stem = os.path.basename(self.path).removesuffix(".fbs")
        rule = check([*FLATC, "-M", *self.flags, self.path]).replace("\\\n", " ")
        files = rule.split(":", 1)[1].split()
        for command in ([*FLATC, *self.flags, "-o", work, *files],
                        [*FLATC, "--gen-all", *self.flags, "-o", work, self.path]):
            check(command)
            source = os.path.join(work, "probe.cc")
            with open(source, "w") as file:
                file.write(f'#include "{stem}_generated.h"\n')
            if run([compiler, "-std=c++20", "-fsyntax-only", source]).returncode == 0:
                return True
        return False


def folders_with_schemas(root):
    return sorted(folder for folder, _, files in os.walk(root)
                  if any(file.endswith(".fbs") for file in files))


def schemas_with_services(folder):
    found = []
    for directory in folders_with_schemas(folder):
        for file in sorted(os.listdir(directory)):
            path = os.path.join(directory, file)
            if file.endswith(".fbs"):
                with open(path, encoding="utf-8", errors="replace") as text:
                    if re.search(r"^\s*rpc_service\b", text.read(), re.MULTILINE):
                        found.append(Schema(folder, path))
    return found


class Test:
    def __init__(self, source, build, compiler, folder, refusals):
        self.build, self.compiler, self.folder = build, compiler, folder
        self.tests = os.path.join(source, "tests/codegen")
        self.work = os.path.join(build, "codegen.schemas")
        self.expected = {}
        if refusals:
            with open(refusals) as file:
                lines = [line.rstrip("\n") for line in file if line.strip()]
            self.expected = dict(line.split(": ", 1) for line in lines)
        self.failures, self.left_out = [], []

    def fail(self, schema, reason):
        self.failures.append(f"{schema.below}: {reason}")

    def usable(self, schema, prefix):
        """Whether the schema is to be built, after asking flatc and farcall-gen."""
        work = os.path.join(self.work, "probe")
        os.makedirs(work, exist_ok=True)
        if refusal := schema.refusal_of_flatc(work):
            self.left_out.append(f"{schema.below}: flatc refuses it: {refusal}")
            return False
        program = os.path.join(prefix, "bin/farcall-gen")
        done = run([program, *schema.flags, "-o", work, schema.path])
        said = done.stdout.replace(self.folder + os.sep, "").strip()
        expected = self.expected.pop(schema.below, None)
        if done.returncode == 0 and expected is None:
            return True
        if done.returncode == 0:
            self.fail(schema, f"is not refused: {expected}")
        elif said != expected:
            self.fail(schema, f"is refused: {said}")
        return False

    def run(self):
        shutil.rmtree(self.work, ignore_errors=True)
        prefix = os.path.join(self.work, "prefix")
        check(["cmake", "--install", self.build, "--prefix", prefix])
        schemas = schemas_with_services(self.folder)
        usable = [schema for schema in schemas if self.usable(schema, prefix)]
        self.failures += [f"{name}: expected to be refused, and there is no such schema"
                          for name in self.expected]
        self.build_programs(usable, prefix)
        for schema in usable:
            self.call(schema)
        for line in self.left_out:
            print("left out:", line)
        for line in self.failures:
            print("FAILED:", line)
        print(f"{len(schemas)} schemas with services, {len(self.left_out)} left out, "
              f"{len(self.failures)} failures")
        return 1 if self.failures or not usable else 0

    def build_programs(self, schemas, prefix):
        text = PROJECT.format(tests=self.tests, build=self.build)
        implement = os.path.join(self.build, "bin/tests/codegen_implement")
        for schema in schemas:
            out = os.path.join(self.work, schema.name)
            os.makedirs(out)
            check([implement, *schema.flags, "-o", out, schema.path])
            includes = " ".join(f'"{include}"' for include in schema.includes)
            text += PROGRAM.format(name=schema.name, path=schema.path, includes=includes)
        with open(os.path.join(self.work, "CMakeLists.txt"), "w") as file:
            file.write(text)
        out = os.path.join(self.work, "build")
        launcher = "ccache" if shutil.which("ccache") else ""
        check(["cmake", "-S", self.work, "-B", out, "-G", "Ninja",
               f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={self.compiler}",
               f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}"])
        jobs = str(os.cpu_count())
        self.log = run(["cmake", "--build", out, "--parallel", jobs, "--", "-k", "0"])

    def call(self, schema):
        program = os.path.join(self.work, "build", schema.name)
        if not os.path.exists(program):
            if schema.header_compiles(os.path.join(self.work, "probe"), self.compiler):
                self.fail(schema, f"does not build:\n{self.log.stdout}")
            else:
                self.left_out.append(f"{schema.below}: flatc's header does not compile")
            return
        done = subprocess.run([program], text=True, capture_output=True, timeout=60)
        print(f"{schema.below}: {done.stdout.strip()}")
        if done.returncode != 0:
            self.fail(schema, f"exit status {done.returncode}\n{done.stderr}")


def main():
    source, build, compiler, *rest = sys.argv[1:]
    folder = os.environ.get("FARCALL_SCHEMA_DIR") or (rest[0] if rest else "")
    refusals = rest[1] if len(rest) > 1 else ""
    if not os.path.isdir(folder):
        print("skipped: name a folder of schemas, -DFARCALL_SCHEMA_DIR=... or in the environment")
        return SKIPPED
    return Test(source, build, compiler, os.path.realpath(folder), refusals).run()


if __name__ == "__main__":
    sys.exit(main())
