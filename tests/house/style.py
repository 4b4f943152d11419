"""Style that no formatter checks: the top level, sources in no target, header guards, length of
functions and lines, and words that have no place in a public tree.

usage: python3 tests/house/style.py <root of the source tree>
"""

import ast
import re

import tree as house

TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md",
             "rpc", "transports", "codegen", "services", "tests", "bench"}
MAX_FUNCTION_LINES = 70
MAX_COLUMNS = 100
# Output of the generator that the tests compare with: it obeys the generator, not this file.
GOLDEN = re.compile(r"tests/codegen/golden/.*")

LISTED = re.compile(r"(rpc|transports)/.*\.(h|cc)|(codegen|services|bench)/.*\.cc")

# Written so that this file does not match itself.
FORBIDDEN = [
    (re.compile(r"(?<![\w.])/(home|work|root|Users)/\w"), "a path of somebody's machine"),
    (re.compile(r"\.\./shared\b"), "a path outside of the tree"),
    (re.compile(r"\b(deb[.]debian|snapshot[.]debian|pypi|npmjs|proxy[.]golang)[.](org|com)\b"),
     "a registry's host"),
    (re.compile(r"\bissue[ ]#?\d+\b|(?<!\w)#\d+(?= (fixes|closes)\b)", re.IGNORECASE),
     "the number of an issue: say what it was about"),
    (re.compile(r"\b(TODO|FIXME|XXX)\b(?![|)])"), "unfinished: finish it or say why it is right"),
]


def check_top_level(tree):
    names = {path.split("/")[0] for path in tree.files}
    violations = [house.Violation(name, 0, "does not belong to the top level")
                  for name in names if name not in TOP_LEVEL and not name.startswith(".")]
    violations += [house.Violation(name, 0, "is missing at the top level")
                   for name in TOP_LEVEL - names]
    return violations


def check_listed(tree):
    """A source that no CMakeLists.txt names is never compiled; such a header is never installed."""
    violations = []
    for path in tree.files:
        if not LISTED.fullmatch(path):
            continue
        folder, beside = path.rsplit("/", 1)
        while f"{folder}/CMakeLists.txt" not in tree.files and "/" in folder:
            folder, up = folder.rsplit("/", 1)
            beside = f"{up}/{beside}"
        lists = f"{folder}/CMakeLists.txt"
        named = lists in tree.files and re.search(
            rf"(?<![\w./-]){re.escape(beside)}(?![\w./-])", re.sub(r"#.*", "", tree.text(lists)))
        if not named:
            violations.append(house.Violation(path, 0, f"{lists} does not name it"))
    return violations


def check_words(tree):
    violations = []
    for path in tree.files:
        try:
            lines = tree.text(path).splitlines()
        except UnicodeDecodeError:
            continue  # binary
        for number, line in enumerate(lines, 1):
            violations += [house.Violation(path, number, f"'{match.group(0)}': {reason}")
                           for pattern, reason in FORBIDDEN
                           if (match := pattern.search(line))]
    return violations


def check_columns(tree):
    return [house.Violation(path, number, f"{len(line)} columns, more than {MAX_COLUMNS}")
            for path in tree.with_suffix(*house.CODE, *house.SCRIPTS) if not GOLDEN.fullmatch(path)
            for number, line in enumerate(tree.text(path).splitlines(), 1)
            if len(line) > MAX_COLUMNS and "http" not in line]


def check_guards(tree):
    violations = []
    for path in tree.with_suffix(".h"):
        if GOLDEN.fullmatch(path):
            continue
        guard = "FARCALL_" + re.sub(r"\W", "_", path).upper() + "_"
        text = tree.text(path)
        if f"#ifndef {guard}\n#define {guard}\n" not in text or f"#endif  // {guard}\n" not in text:
            violations.append(house.Violation(path, 0, f"wants the header guard {guard}"))
    return violations


def check_functions(tree):
    violations = []
    for path in tree.files:
        if GOLDEN.fullmatch(path):
            continue
        if path.endswith(house.CODE):
            functions = cpp_functions(tree.text(path))
        elif path.endswith(".py"):
            functions = [(node.lineno, node.end_lineno - node.lineno + 1)
                         for node in ast.walk(ast.parse(tree.text(path)))
                         if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        else:
            continue
        violations += [
            house.Violation(path, line, f"a function of {n} lines; at most {MAX_FUNCTION_LINES}")
            for line, n in functions if n > MAX_FUNCTION_LINES]
    return violations


NOT_A_FUNCTION = re.compile(
    r"^(\s|template\s*<.*>|\[\[.*\]\])*"
    r"(if|else|for|while|do|switch|try|catch|namespace|class|struct|union|enum|extern|concept)\b",
    re.DOTALL)


def cpp_functions(text):
    """(line, number of lines) of everything that looks like the body of a function or lambda.

    A heuristic over braces: what stands between the previous `;`, `{` or `}` and a `{` tells what
    it opens. Preprocessor lines are ignored; both branches of an #if must balance by themselves.
    """
    code = re.sub(r"^[ \t]*#(\\\n|[^\n])*", lambda match: "\n" * match.group(0).count("\n"),
                  house.strip_cpp(text), flags=re.MULTILINE)
    functions, opened, start = [], [], 0
    for match in re.finditer(r"[{};]", code):
        if match.group(0) == "{":
            head = code[start:match.start()]
            # An initializer list leaves nothing between its last brace and the constructor's body.
            body = (")" in head or not head.strip()) and not NOT_A_FUNCTION.match(head)
            opened.append((start + len(head) - len(head.lstrip()), body))
        elif match.group(0) == "}" and opened:
            position, body = opened.pop()
            if body:
                first = house.line_of(code, position)
                functions.append((first, house.line_of(code, match.start()) - first + 1))
        start = match.end()
    return functions


if __name__ == "__main__":
    house.run(check_top_level, check_listed, check_words, check_columns, check_guards,
              check_functions)
