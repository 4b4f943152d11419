"""The tests that a table names must exist: their ctest entries and their Catch cases.

usage: python3 tests/house/cases.py <root of the source tree>

Looked at, in the tables (lines that begin with |) of every README.md below tests/:
  rpc.frame              an entry that some CMakeLists.txt of tests/ registers
  rpc.frame "a case"     one of the cases in that entry's sources; further ones may follow it
  "a case"               one of the cases of any entry, in a cell that names none before it, but
                         whose row does
In a case's name … stands for any text.
"""

import itertools
import os
import re

import tree as house

# How the CMakeLists.txt files register entries: command -> the name of its entry.
COMMANDS = {"farcall_test": "{}", "faults_test": "faults.{}", "fuzz_target": "fuzz.{}",
            "house_test": "house.{}"}
CALL = re.compile(rf"^[ ]*({'|'.join(COMMANDS)})\(([\w.]+)(?=[\s)])([^)]*)\)", re.MULTILINE)
ADDED = re.compile(r"add_test\(NAME ([\w.]+)(?:\$\{(\w+)\})?\s")
LOOP = re.compile(r"foreach\((\w+)((?:\s+\w+)+)\)")
CASE = re.compile(r'TEST_CASE\(\s*((?:"(?:\\.|[^"\\])*"\s*)+)')
LITERAL = re.compile(r'"((?:\\.|[^"\\])*)"')
# An entry or a quoted name, in the order of the cell; not a path, nor a file of one.
MENTION = re.compile(r'(?<![\w./-])([a-z]\w*(?:\.\w+)+)(?![\w/])|"([^"|]+)"')


def check_cases(tree):
    entries = entries_of(tree)
    rooms = {name.split(".")[0] for name in entries}
    anywhere = set().union(*filter(None, entries.values()))
    for path in tree.with_suffix("_test.cc"):
        anywhere.update(cases_of(tree, path))
    entries = {name: anywhere if cases is None else cases for name, cases in entries.items()}
    violations = []
    for path in tree.with_suffix("README.md"):
        if not path.startswith("tests/"):
            continue
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            cells = [re.sub(r"\]\([^)]*\)", "]", cell) for cell in line.split("|")]
            if not line.startswith("|") or not any(named(cell, rooms) for cell in cells):
                continue
            for cell in cells:
                violations += [house.Violation(path, number, reason)
                               for reason in refusals(cell, entries, rooms, anywhere)]
    return violations


def refusals(cell, entries, rooms, anywhere):
    """What is wrong with the tests that one cell of a table names."""
    cases, where = anywhere, "the tests"
    for name, quoted in MENTION.findall(cell):
        if quoted:
            if not any(matches(quoted, case) for case in cases):
                yield f'{where} have no case "{quoted}"'
        elif is_entry(name, rooms):
            if name not in entries:
                yield f"no test is called {name}"
            cases, where = entries.get(name, anywhere), name if name in entries else "the tests"


def named(cell, rooms):
    return any(is_entry(name, rooms) for name, _ in MENTION.findall(cell))


def is_entry(name, rooms):
    return name.split(".")[0] in rooms and not name.endswith(house.CODE + house.SCRIPTS)


def matches(quoted, case):
    return re.fullmatch(".*".join(map(re.escape, quoted.split("…"))), case) is not None


def entries_of(tree):
    """The entries of ctest, each with the names of the Catch cases in its sources (None: any)."""
    entries = {}
    for path in tree.with_suffix("CMakeLists.txt"):
        if not path.startswith("tests/"):
            continue
        folder = os.path.dirname(path)
        text = re.sub(r"#.*", "", tree.text(path))
        for command, name, arguments in CALL.findall(text):
            words = re.findall(r"[\w./-]+\.cc", arguments) or [f"{name}_test.cc"]
            entries[COMMANDS[command].format(name)] = set(itertools.chain.from_iterable(
                cases_of(tree, f"{folder}/{word}") for word in words))
        for match in ADDED.finditer(text):
            name, variable = match.groups()
            loops = [words for looped, words in LOOP.findall(text[:match.start()])
                     if looped == variable]
            for word in (loops[-1].split() if loops else [""] if not variable else []):
                entries.setdefault(name + word, None)
    return entries


def cases_of(tree, path):
    if path not in tree.files:
        return []
    return ["".join(LITERAL.findall(match.group(1))).replace('\\"', '"')
            for match in CASE.finditer(tree.text(path))]


if __name__ == "__main__":
    house.run(check_cases)
