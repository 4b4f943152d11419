"""What the Markdown files say must exist: links, paths, and names of code; and a README a room.

usage: python3 tests/house/readme.py <root of the source tree>

Looked at, in every .md file outside of fenced code blocks:
  [text](target)      a relative target is a file or folder; a #fragment is one of its headings
  `rpc/frame.{h,cc}`  looks like a path: exists from the root or beside the file ({a,b}, * expand)
  `Server::Listen`    looks like code: each name is declared in one file of the sources, together
"""

import fnmatch
import functools
import itertools
import re

import tree as house

ROOMS = re.compile(r"rpc|transports|codegen|services|tests|bench|transports/[^/]+")

LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
CODE_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
FENCE = re.compile(r"^[ ]*(```|~~~).*?^[ ]*\1[ ]*$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+[ ]+(.+?)[ #]*$", re.MULTILINE)

EXTENSIONS = r"(h|cc|md|sh|py|fbs|cmake|txt|json)"
PATH = re.compile(r"(\./|\.\./)*[\w.*{},+-]+(/[\w.*{},+-]+)*/?")
FILE_NAME = re.compile(rf"[\w*{{}},-]+(\.\w+)*\.({EXTENSIONS}|\*|\{{[\w,]+\}})")
GENERATED = re.compile(r".*(\.rpc\.(h|cc|\*|\{h,cc\})|_generated\.h)")

# farcall::Foo, Foo::Bar(), kFoo, FooBar, farcall_room, FARCALL_FOO, Foo(). Other words are English,
# options, or the names of foreign programs.
QUALIFIED = re.compile(r"~?[A-Za-z_]\w*(::~?[A-Za-z_]\w*)+")
CAMEL = re.compile(r"k?[A-Z]\w*[a-z]\w*")
OURS = re.compile(r"(farcall|FARCALL)_\w+")
FOREIGN = {"std", "absl", "asio", "boost", "flatbuffers", "reflection", "Catch", "benchmark"}


def check_rooms(tree):
    return [house.Violation(folder, 0, "this room has no README.md")
            for folder in tree.folders
            if ROOMS.fullmatch(folder) and f"{folder}/README.md" not in tree.files]


def check_markdown(tree):
    names = Names(tree)
    violations = []
    for path in tree.with_suffix(".md"):
        text = FENCE.sub(lambda match: "\n" * match.group(0).count("\n"), tree.text(path))
        for match in LINK.finditer(text):
            reason = link_refusal(tree, path, match.group(1))
            if reason:
                violations.append(house.Violation(path, house.line_of(text, match.start()), reason))
        for match in CODE_SPAN.finditer(text):
            for word in words_of(match.group(1)):
                reason = path_refusal(tree, path, word) or names.refusal(word)
                if reason:
                    line = house.line_of(text, match.start())
                    violations.append(house.Violation(path, line, f"`{word}`: {reason}"))
    return violations


def link_refusal(tree, path, target):
    if re.match(r"[a-z]+:", target):
        return None  # http: and friends; a test must not need the network
    file, _, fragment = target.partition("#")
    resolved = resolve(path, file) if file else path
    if resolved is None or not exists(tree, resolved):
        return f"link to {target}: no such file or folder"
    if fragment and resolved.endswith(".md") and fragment not in headings(tree, resolved):
        return f"link to {target}: no such heading"
    return None


def headings(tree, path):
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in HEADING.findall(tree.text(path))}


def resolve(path, target):
    """`target`, as the file `path` writes it, as a path from the root; None when outside of it."""
    parts = [] if target.startswith("/") else path.split("/")[:-1]
    for part in target.strip("/").split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in (".", ""):
            parts.append(part)
    return "/".join(parts)


def exists(tree, path):
    if path == "":
        return True
    return any(fnmatch.fnmatchcase(entry, path) if "*" in path else entry == path
               for entry in itertools.chain(tree.files, tree.folders))


def expand(path):
    """x.{h,cc} -> x.h, x.cc"""
    match = re.search(r"\{([^{}]*)\}", path)
    if not match:
        return [path]
    return [whole for choice in match.group(1).split(",")
            for whole in expand(path[:match.start()] + choice + path[match.end():])]


def words_of(span):
    """The words of a code span, without the punctuation of calls, templates and sentences."""
    if "::" in span or "(" in span:
        span = re.sub(r"<[^<>]*>", "", span)
    return re.sub(r"[\"'();,&*=]+(?=\s|$)|(?<!\S)[\"'(]+|\(.*?\)", " ", span).split()


def looks_like_path(tree, word):
    if not PATH.fullmatch(word) or GENERATED.fullmatch(word):
        return False
    first = re.sub(r"^(\./|farcall/)", "", word).split("/")[0]
    if "/" in word.rstrip("/"):
        is_file = FILE_NAME.fullmatch(word.split("/")[-1])
        return first in tree.folders or first == ".." or bool(is_file)
    return bool(FILE_NAME.fullmatch(word)) or (word.endswith("/") and word != "build/")


def path_refusal(tree, path, word):
    if not looks_like_path(tree, word) or word.startswith("build/"):
        return None
    for candidate in expand(word):
        spellings = [resolve(path, candidate), resolve("", candidate)]
        if candidate.startswith("farcall/"):  # the include spelling
            spellings.append(candidate.removeprefix("farcall/"))
        # `rpc/frame` names the pair rpc/frame.h and rpc/frame.cc.
        endings = ("", ".h", ".cc", ".md") if "." not in candidate.split("/")[-1] else ("",)
        if not any(exists(tree, spelling + ending)
                   for spelling in spellings if spelling is not None for ending in endings):
            return "no such file or folder"
    return None


class Names:
    """The identifiers of the sources, by file; comments and literals do not count."""

    def __init__(self, tree):
        self.by_file = []
        for path in tree.files:
            if path.startswith("tests/house/"):
                continue  # the examples of these checks would prove anything
            if path.endswith(house.CODE):
                text = house.strip_cpp(tree.text(path))
            elif path.endswith(house.SCRIPTS) or path.endswith(".fbs"):
                text = re.sub(r"#.*|//.*", "", tree.text(path))
            else:
                continue
            self.by_file.append(set(re.findall(r"\w+", text)))

    @functools.lru_cache(maxsize=None)
    def together(self, parts):
        return any(parts <= words for words in self.by_file)

    def refusal(self, word):
        if QUALIFIED.fullmatch(word):
            parts = word.replace("~", "").split("::")
            if parts[0] in FOREIGN:
                return None
            parts = parts[1:] if parts[0] == "farcall" else parts
        elif CAMEL.fullmatch(word) or OURS.fullmatch(word):
            parts = [word]
        else:
            return None
        if not self.together(frozenset(parts)):
            return "no such name in the sources"
        return None


if __name__ == "__main__":
    house.run(check_rooms, check_markdown)
