#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""report.py FIGURES RESULTS [NAME=VALUE...]: the report of 'make bench'.

Reads what the guest measured, adds the names and values (commit and the like), writes RESULTS
(selftests/bench/README.rst says what is in it), and prints the table.

report.py --bars RESULTS: each figure as two bars, for a few. Status 1 if Rust takes more than C.
"""

import json
import sys

KEYS = ("mark", "transparent", "wildcard", "cgroupv2")
LABEL = 29


def groups(rows):
    """The rows of one kind of traffic together, in order: [(label, {key: row})]."""
    found = {}
    for row in rows:
        label = f"{row['traffic']}{', pktgen' if row['injector'] == 'pktgen' else ''}"
        found.setdefault((label, row["ip"]), {})[row["key"]] = row
    return found.items()


def cell(row):
    if row is None:
        return " " * 17
    mark = " " if row["met"] else "*"
    return f"{row['c']['median']:6.0f}{row['rust']['median']:5.0f} {row['ratio']:4.2f}{mark}"


def table(rows):
    keys = [key for key in KEYS if any(row["key"] == key for row in rows)]
    lines = [" " * (LABEL + 9) + "".join(f"{key:>16} " for key in keys),
             f"{'':{LABEL}}  {'base':>6} " + "     C Rust ratio" * len(keys)]
    for (label, version), by_key in groups(rows):
        base = next(iter(by_key.values()))["base"]["median"]
        line = f"{label:{LABEL - 3}} v{version}  {base:6.0f} "
        lines.append((line + "".join(cell(by_key.get(key)) for key in keys)).rstrip())
    return lines


def spread(summary):
    """How far the rounds are apart, relative to their median."""
    return (summary["max"] - summary["min"]) / summary["median"] if summary["median"] else 0


def verdict(rows):
    missed = [row for row in rows if not row["met"]]
    dearer = [row for row in rows if row["rust"]["median"] > row["c"]["median"]]
    widest = max(max(spread(row["c"]), spread(row["rust"])) for row in rows)
    yield (f"{len(rows)} figures, rounds at most {widest:.2%} apart; "
           f"{len(rows) - len(missed)} within their limit, {len(missed)} not (*), "
           f"{len(dearer)} where Rust takes more than C.")
    for limit in sorted({row["limit"] for row in missed}):
        which = [row for row in missed if row["limit"] == limit]
        worst = max(which, key=lambda row: row["ratio"])
        yield (f"Above {limit:.2f} of C: {len(which)}, the worst {worst['traffic']}, "
               f"IPv{worst['ip']}, {worst['key']}: {worst['ratio']:.3f}.")


def bars(rows):
    for row in rows:
        if row["traffic"] == "UDP, rule for rule":
            continue
        c, rust = row["c"]["median"], row["rust"]["median"]
        print(f"   {row['traffic']}, IPv{row['ip']}, 'socket {row['key']}'")
        for name, value, note in (("C", c, ""), ("Rust", rust, f"  {rust / c:.2f} of C's")):
            print(f"      {name:5}{value:4.0f}  {'#' * round(value / 12)}{note}")
    return all(row["rust"]["median"] <= row["c"]["median"] for row in rows)


def main():
    if sys.argv[1] == "--bars":
        with open(sys.argv[2]) as file:
            sys.exit(0 if bars(json.load(file)["instructions"]) else 1)
    figures, results = sys.argv[1:3]
    with open(figures) as file:
        data = {"schema": 1, **dict(arg.split("=", 1) for arg in sys.argv[3:]),
                **json.load(file)}
    with open(results, "w") as file:
        json.dump(data, file, indent=1)
        file.write("\n")

    rows = data["instructions"]
    print()
    print("Instructions a packet that 'socket KEY' adds to the path without it (base)")
    print()
    print("\n".join(table(rows)))
    print()
    print("\n".join(verdict(rows)))
    print()
    for name in ("kernel", "cpus", "cmdline", "qemu", "commit", "module", "command"):
        print(f"{name:8} {data[name]}")


main()
