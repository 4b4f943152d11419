"""Every .h and .cc is as clang-format writes it (.clang-format; a folder may opt out with its own).

usage: python3 tests/house/clang_format.py <root of the source tree>
To repair: git ls-files '*.h' '*.cc' | xargs clang-format -i
"""

import re
import subprocess
import sys

import tree as house

FINDING = re.compile(r"^(.*?):(\d+):\d+: error: ", re.MULTILINE)


def check_format(tree):
    files = tree.with_suffix(*house.CODE)
    if not files:
        return []
    try:
        result = subprocess.run(["clang-format", "--dry-run", "--Werror", *files],
                                cwd=tree.root, capture_output=True, text=True)
    except FileNotFoundError:
        sys.exit("clang-format is missing; sh .ci/setup.sh installs it")
    violations = [house.Violation(path, int(line), "not as clang-format writes it")
                  for path, line in FINDING.findall(result.stderr)]
    if result.returncode != 0 and not violations:
        sys.exit(f"clang-format failed: {result.stderr}")
    return violations


if __name__ == "__main__":
    house.run(check_format)
