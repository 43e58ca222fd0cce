#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""report.py DIR [NAME=VALUE...]: the report of 'make bench'.

Reads what the guests measured (DIR/instructions.json, contention.json, speed.json, each if it is
there), adds the names and values (commit and the like), writes DIR/results.json
(selftests/bench/README.rst says what is in it), and prints the tables.

report.py --layout BTF: what a guest needs to know of its kernel's structures, as JSON.
report.py --bars RESULTS: each figure as two bars, for a few. Status 1 if Rust takes more than C.
report.py --plots RESULTS DIR: the plots.
report.py --profile RESULTS [TRAFFIC]: where the instructions go, by function.
"""

import json
import os
import sys

sys.dont_write_bytecode = True

import contention  # noqa: E402

KEYS = ("mark", "transparent", "wildcard", "cgroupv2")
LABEL = 29
IMPLS = ("base", "c", "rust")
# Where CPUs wait for each other as the harness begins, for as long as that takes.
WAITING = ("smp_call_function_many_cond", "mutex_spin_on_owner", "native_queued_spin_lock_slowpath",
           "mwait_idle", "pv_native_safe_halt", "default_idle", "osq_lock")


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


def socket_table(rows):
    keys = [key for key in KEYS if any(row["key"] == key for row in rows)]
    yield "Instructions a packet that 'socket KEY' adds to the path without it (base)"
    yield ""
    yield " " * (LABEL + 9) + "".join(f"{key:>16} " for key in keys)
    yield f"{'':{LABEL}}  {'base':>6} " + "     C Rust ratio" * len(keys)
    for (label, version), by_key in groups(rows):
        base = next(iter(by_key.values()))["base"]["median"]
        line = f"{label:{LABEL - 3}} v{version}  {base:6.0f} "
        yield (line + "".join(cell(by_key.get(key)) for key in keys)).rstrip()


def nat_table(rows):
    yield "Instructions a packet that NAT adds to forwarding with connection tracking (base)"
    yield ""
    yield f"{'':45}{'base':>7}{'C':>7}{'Rust':>7}{'fewer':>7}  ratio"
    for row in rows:
        label = f"{row['traffic']}{', pktgen' if row['injector'] == 'pktgen' else ''}, {row['key']}"
        c, rust = row["c"]["median"], row["rust"]["median"]
        yield (f"{label:42} v{row['ip']}{row['base']['median']:7.0f}{c:7.0f}{rust:7.0f}"
               f"{c - rust:7.0f}  {row['ratio']:5.2f}{'' if row['met'] else '*'}")


def esp_table(rows):
    yield "Instructions a packet that receiving ESP adds to receiving what it holds (base)"
    yield ""
    yield f"{'':45}{'base':>7}{'C':>7}{'Rust':>7}{'fewer':>7}  ratio"
    for row in rows:
        c, rust = row["c"]["median"], row["rust"]["median"]
        yield (f"{row['traffic'] + ', ' + row['key']:42} v{row['ip']}{row['base']['median']:7.0f}"
               f"{c:7.0f}{rust:7.0f}{c - rust:7.0f}  {row['ratio']:5.2f}"
               f"{'' if row['met'] else '*'}")


TABLES = {"socket": socket_table, "nat": nat_table, "esp": esp_table}


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
    for limit in sorted({row["limit"] for row in missed if "limit" in row}):
        which = [row for row in missed if row.get("limit") == limit]
        worst = max(which, key=lambda row: row["ratio"])
        yield (f"Above {limit:.2f} of C: {len(which)}, the worst {worst['traffic']}, "
               f"IPv{worst['ip']}, {worst['key']}: {worst['ratio']:.3f}.")


def contention_table(rows):
    yield "Writes a packet to cache lines that several CPUs write (whole path; base: without it)"
    yield ""
    yield f"{'':41}CPUs{'base':>7}{'C':>7}{'Rust':>7}"
    most = max(row["cpus"] for row in rows)
    for row in rows:
        figures = "".join(f"{row['writes'].get(impl, 0):7.2f}" for impl in IMPLS)
        yield f"{row['traffic'] + ', ' + row['key']:37} v{row['ip']}{row['cpus']:4}{figures}"
        if row["cpus"] != most:
            continue
        names = []
        for impl in IMPLS:
            names += [one["object"] for one in row["objects"].get(impl, ())]
        for name in dict.fromkeys(names):
            figures, where = "", []
            for impl in IMPLS:
                one = next((o for o in row["objects"].get(impl, ()) if o["object"] == name), None)
                figures += f"{one['writes']:7.2f}" if one else f"{'-':>7}"
                where += one["functions"] if one else []
            yield f"  {name[:43]:43}{figures}  {', '.join(dict.fromkeys(where))[:60]}"


def lock_table(rows):
    yield "Under the lock of the state: instructions a packet, and times it is taken for a packet"
    yield ""
    yield f"{'':45}{'C':>7}{'Rust':>7}  ratio{'C':>10}{'Rust':>8}"
    for row in rows:
        c, rust = row["c"], row["rust"]
        yield (f"{row['traffic'] + ', ' + row['key']:42} v{row['ip']}{c['instructions']:7.1f}"
               f"{rust['instructions']:7.1f}{rust['instructions'] / c['instructions']:7.2f}"
               f"{c['acquisitions']:10.4f}{rust['acquisitions']:8.4f}")


def speed_table(rows):
    yield "Packets a second"
    yield ""
    for row in rows:
        yield (f"{row['traffic'] + ', ' + row['key']:37} v{row['ip']}{row['cpus']:4} "
               f"{row['impl']:5}{row['rate']:14,.0f}")


def bars(rows):
    for row in rows:
        if row["traffic"] == "UDP, rule for rule":
            continue
        c, rust = row["c"]["median"], row["rust"]["median"]
        print(f"   {row['traffic']}, IPv{row['ip']}, 'socket {row['key']}'")
        for name, value, note in (("C", c, ""), ("Rust", rust, f"  {rust / c:.2f} of C's")):
            print(f"      {name:5}{value:4.0f}  {'#' * round(value / 12)}{note}")
    return all(row["rust"]["median"] <= row["c"]["median"] for row in rows)


def profile(rows, traffic, where=""):
    """Functions whose part differs from base, C or Rust: what the path is made of."""
    for row in rows:
        if not row["functions"] or (traffic and traffic not in row["traffic"]):
            continue
        print(f"{row['traffic']}, IPv{row['ip']}, {row['key']}: instructions a packet{where} by "
              "function")
        print(f"{'base':>8}{'C':>8}{'Rust':>8}")
        names = dict.fromkeys(name for impl in IMPLS for name in row["functions"].get(impl, ()))
        figures = {name: [row["functions"].get(impl, {}).get(name, 0) for impl in IMPLS]
                   for name in names}
        for name, (base, c, rust) in sorted(figures.items(), key=lambda item: -max(item[1])):
            if name not in WAITING and max(abs(c - base), abs(rust - base), abs(rust - c)) >= 1:
                print(f"{base:8.1f}{c:8.1f}{rust:8.1f}  {name}")
        print()


def load(path):
    with open(path) as file:
        return json.load(file)


def show(lines):
    print()
    print("\n".join(lines))


def main():
    option = sys.argv[1]
    if option == "--layout":
        json.dump(contention.layout(sys.argv[2]), sys.stdout)
        return
    if option == "--bars":
        sys.exit(0 if bars(load(sys.argv[2])["instructions"]) else 1)
    if option == "--plots":
        # A library that takes a second to load
        import plots
        plots.write(load(sys.argv[2]), sys.argv[3])
        return
    if option == "--profile":
        results, traffic = load(sys.argv[2]), "".join(sys.argv[3:])
        profile(results["contention"], traffic)
        profile(results.get("locks", ()), traffic, " under the lock")
        return

    share = option
    data = {"schema": 3, **dict(arg.split("=", 1) for arg in sys.argv[2:])}
    for what in ("speed", "contention", "instructions"):
        if os.path.exists(f"{share}/{what}.json"):
            data.update(load(f"{share}/{what}.json"))
    if "contention" in data:
        attribution = contention.Attribution(share)
        data["contention"] = attribution.rows(data["contention"])
        data["locks"] = attribution.locks(data.get("locks", ()))
    with open(f"{share}/results.json", "w") as file:
        json.dump(data, file, indent=1)
        file.write("\n")

    for path, table in TABLES.items():
        rows = [row for row in data.get("instructions", ()) if row["path"] == path]
        if rows:
            show(table(rows))
            show(verdict(rows))
    if data.get("contention"):
        show(contention_table(data["contention"]))
    if data.get("locks"):
        show(lock_table(data["locks"]))
    if data.get("speed"):
        show(speed_table(data["speed"]))
    print()
    for name in ("kernel", "cpus", "cmdline", "qemu", "commit", "module", "command"):
        print(f"{name:8} {data[name]}")


main()
