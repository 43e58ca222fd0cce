#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""
Every use of `unsafe` in the Rust sources, by crate and file, as reStructuredText.

  unsafe-inventory.py [TREE]

Prints Documentation/unsafe-inventory.rst; `make lint` compares. Ends with status 1, and says which,
if a crate that has to do without has any: all but `net` and `bindings`, where the unsafe code of
this project lives. What runs on the host only (tests, fuzz) is counted apart, and free.
"""

import collections
import pathlib
import re
import sys

MAY = {"rust/bindings", "rust/net"}
HOST = {"tests", "fuzz", "benches"}

# What is no code: comments, strings, characters. A lifetime is no character.
NOISE = re.compile(
    r"""
    //[^\n]*
  | /\*(?:[^*/]|\*(?!/)|/(?!\*)|/\*.*?\*/)*\*/
  | (?<!\w)(?:br|cr|r)(?P<hash>\#*)".*?"(?P=hash)
  | (?<!\w)[bc]?"(?:[^"\\]|\\.)*"
  | (?<!\w)b?'(?:[^'\\\n]|\\(?:u\{[0-9a-fA-F_]+\}|x[0-9a-fA-F]{2}|.))'
    """,
    re.VERBOSE | re.DOTALL,
)
KINDS = (
    ("blocks", re.compile(r"\bunsafe\s*\{")),
    ("functions", re.compile(r'\bunsafe\s+(?:extern\s*(?:"")?\s*)?fn\s+\w')),
    ("impls", re.compile(r"\bunsafe\s+impl\b")),
    ("traits", re.compile(r"\bunsafe\s+(?:auto\s+)?trait\b")),
    ("other", re.compile(r"\bunsafe\b")),
)
FORBID = re.compile(r"#!\[forbid\([^)]*\bunsafe_code\b[^)]*\)\]")


def code_of(path):
    """The code of a file, without comments and the contents of strings."""
    text = path.read_text(encoding="utf-8")
    return NOISE.sub(lambda m: " " if m.group().startswith("/") else '""', text)


def count(code):
    """How often each kind of `unsafe` occurs. Types (unsafe fn(...)) and attributes are `other`."""
    found = {kind: len(pattern.findall(code)) for kind, pattern in KINDS}
    found["other"] -= sum(found[kind] for kind, _ in KINDS[:-1])
    return found


def crates(tree):
    """Crate directory -> its files, sorted. A crate is what has a lib.rs or main.rs on top."""
    files = collections.defaultdict(list)
    for path in sorted(tree.glob("rust/**/*.rs")) + sorted(tree.glob("samples/**/*.rs")):
        parts = path.relative_to(tree).parts
        if "target" in parts:
            continue
        depth = 3 if parts[:2] == ("rust", "modules") or HOST & set(parts[2:3]) else 2
        files["/".join(parts[: min(depth, len(parts) - 1)])].append(path)
    return files


def underline(text, char):
    return f"{text}\n{char * len(text)}\n"


def table(rows):
    """A simple table; the first row is its head."""
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    rule = "  ".join("=" * width for width in widths)

    def line(row):
        cells = [str(row[0]).ljust(widths[0])]
        cells += [str(cell).rjust(width) for cell, width in zip(row[1:], widths[1:])]
        return "  ".join(cells).rstrip()

    return "\n".join([rule, line(rows[0]), rule, *map(line, rows[1:]), rule]) + "\n"


def main():
    tree = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    head = [kind for kind, _ in KINDS]
    by_crate = [["crate", *head]]
    by_file = [["file", *head]]
    wrong = []

    for crate, paths in crates(tree).items():
        may = crate in MAY or crate.split("/")[-1] in HOST
        total = collections.Counter()
        forbids = False
        for path in paths:
            name = path.relative_to(tree).as_posix()
            code = code_of(path)
            found = count(code)
            total.update(found)
            forbids = forbids or bool(FORBID.search(code))
            if any(found.values()):
                by_file.append([f"``{name}``", *found.values()])
                if not may:
                    wrong.append(f"{name}: unsafe code outside {' and '.join(sorted(MAY))}")
        if not may and not forbids:
            wrong.append(f"{crate}: no #![forbid(unsafe_code)]")
        by_crate.append([f"``{crate}``", *(total[kind] for kind in head)])

    print(".. SPDX-License-Identifier: GPL-2.0\n")
    print("=" * 16 + "\nUnsafe inventory\n" + "=" * 16 + "\n")
    print(
        "Where this project's ``unsafe`` is: in the abstractions and nowhere else. Crates that have\n"
        "none forbid it (``#![forbid(unsafe_code)]``), so the compiler keeps it that way. Each block\n"
        "holds one unsafe operation and says why it is sound; Clippy checks both.\n\n"
        "Written by ``scripts/lint.sh inventory``; ``make lint`` fails where it is out of date.\n"
        "*Other* are function pointer types and attributes. What bindgen generates is not counted.\n"
    )
    print(underline("By crate", "-"))
    print(table(by_crate))
    print(underline("By file", "-"))
    print(table(by_file), end="")

    for line in wrong:
        print(line, file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
