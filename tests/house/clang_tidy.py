"""clang-tidy over the library, the generator and the services; findings fail.

usage: python3 tests/house/clang_tidy.py <root of the source tree> <build folder> [--jobs N]

Checks every .cc that the build compiles from rpc, transports, codegen and services. A file that was
clean is not checked again until its content, an included header, its command line, .clang-tidy or
clang-tidy itself changes: the cache holds the hash of all these, under <build>/../tidy-cache or
FARCALL_TIDY_CACHE. What a file includes comes from ninja, so build first.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import time

TIDY = "clang-tidy-16"
ROOMS = re.compile(r"(rpc|transports|codegen|services)/.*\.cc")
# g++'s own options, which clang does not know, are not findings.
EXTRA = ["--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-error"]


@functools.lru_cache(maxsize=None)
def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def dependencies(build):
    """Object file -> everything it was compiled from, as ninja recorded it."""
    output = subprocess.run(["ninja", "-C", build, "-t", "deps"],
                            capture_output=True, text=True, check=True).stdout
    found, current = {}, None
    for line in output.splitlines():
        if line.startswith("    "):
            found[current].append(line.strip())
        elif ": #deps" in line:
            current = line.split(": #deps")[0]
            found[current] = []
    return found


def key(command, root, build, inputs, settings):
    """The hash of all that decides what clang-tidy says of a unit; None when that is not known.

    The same for every copy of the tree, wherever it lies: paths below it are relative in the hash.
    """
    if not inputs:
        return None
    lines = [settings, command]
    for path in sorted(inputs):
        whole = os.path.join(build, path)
        if not os.path.exists(whole):
            return None
        lines.append(f"{whole} {digest(whole)}")
    lines = [line.replace(root, "<root>") for line in lines]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def units_of(root, build):
    """The compile commands of our own rooms, in the order of their paths."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        units = json.load(file)
    ours = {}
    for unit in units:
        path = os.path.relpath(unit["file"], root)
        if ROOMS.fullmatch(path):
            ours.setdefault(path, unit)  # once, even when two targets compile it
    return sorted(ours.items())


def tidy(root, build, path):
    started = time.monotonic()
    result = subprocess.run([TIDY, "--quiet", "-p", build, *EXTRA, os.path.join(root, path)],
                            cwd=root, capture_output=True, text=True)
    findings = result.stdout.strip()
    if result.returncode != 0 and not findings:
        findings = result.stderr.strip()
    return result.returncode == 0, findings, time.monotonic() - started


def main():
    parser = argparse.ArgumentParser(description="clang-tidy with a cache")
    parser.add_argument("root")
    parser.add_argument("build")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    root, build = os.path.abspath(arguments.root), os.path.abspath(arguments.build)
    cache = (os.environ.get("FARCALL_TIDY_CACHE") or
             os.path.join(os.path.dirname(build), "tidy-cache"))
    os.makedirs(cache, exist_ok=True)

    try:
        version = subprocess.run([TIDY, "--version"], capture_output=True, text=True).stdout
    except FileNotFoundError:
        sys.exit(f"{TIDY} is missing; sh .ci/setup.sh installs it")
    settings = version + digest(os.path.join(root, ".clang-tidy")) + digest(__file__)
    recorded = dependencies(build)

    todo = {}
    units = units_of(root, build)
    for path, unit in units:
        inputs = recorded.get(re.search(r" -o (\S+)", unit["command"]).group(1))
        entry = key(unit["command"], root, build, inputs, settings)
        if entry is None or not os.path.exists(os.path.join(cache, entry)):
            todo[path] = entry

    clean = True
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = {pool.submit(tidy, root, build, path): path for path in todo}
        for run in concurrent.futures.as_completed(runs):
            path = runs[run]
            passed, findings, seconds = run.result()
            print(f"{path}: {'clean' if passed else 'FINDINGS'} ({seconds:.1f} s)", flush=True)
            if not passed:
                clean = False
                print(findings, flush=True)
            elif todo[path]:
                open(os.path.join(cache, todo[path]), "w", encoding="utf-8").close()
    print(f"{len(units)} files, {len(units) - len(todo)} unchanged since they were clean")
    sys.exit(0 if clean else 1)


if __name__ == "__main__":
    main()
