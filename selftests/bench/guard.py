#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""guard.py check|record RESULTS BUDGETS: has anything become dearer?

BUDGETS has, for each release of the kernel, what Rust's paths cost when that was last looked at:
instructions that the path adds, those under the lock of a state, and contended writes of the whole
path. check fails where they cost more than that and a little, and ends with "N passed, N failed,
N skipped"; record writes down what they cost now, of the paths that were measured. Instructions go
with those of C in the same boot: the kernel's tables are hashed with random keys, so that what both
search takes more of them in one boot than in another (IPv6: 32 for a second socket in a slot), C
and Rust alike. For a kernel without budgets there is nothing to compare with: skipped. What the
plugin's own test passed is among the passed.
"""

import json
import os
import sys

# Above the budget: a part of it, and for writes what a busy machine makes of the ends of a window.
INSTRUCTIONS, WRITES = 1.02, 0.05


def costs(results):
    """{kind: {name: cost}}; of instructions {"c": cost, "rust": cost}"""
    instructions = {f"{row['path']}: {row['traffic']}, IPv{row['ip']}, {row['key']}":
                    {impl: row[impl]["median"] for impl in ("c", "rust")}
                    for row in results["instructions"]}
    locks = {f"{row['path']}: {row['traffic']}, IPv{row['ip']}, {row['key']}":
             row["rust"]["instructions"] for row in results.get("locks", ())}
    writes = {f"{row['path']}: {row['traffic']}, IPv{row['ip']}, {row['key']}, {row['cpus']} CPUs":
              row["writes"]["rust"] for row in results.get("contention", ())}
    return {"instructions": instructions, "instructions under the lock": locks,
            "contended writes": writes}


def compare(kind, cost, budget):
    """(cost, what it was, what it may be), of Rust"""
    if kind == "contended writes":
        return cost, budget, budget + WRITES
    if kind != "instructions":
        return cost, budget, budget * INSTRUCTIONS
    was = budget["rust"] + cost["c"] - budget["c"]
    return cost["rust"], was, was * INSTRUCTIONS


def check(found, budgets, release, only):
    """only: paths that were measured, where not all were"""
    passed = failed = skipped = 0
    for kind, names in found.items():
        if not names:
            skipped += len(budgets.get(kind, {}))
            print(f"SKIP    {kind}: not measured")
            continue
        for name, cost in names.items():
            budget = budgets.get(kind, {}).get(name)
            if budget is None:
                skipped += 1
                print(f"SKIP    {name}: no budget of {kind} for {release}")
                continue
            now, was, limit = compare(kind, cost, budget)
            if now > limit:
                failed += 1
                print(f"FAILED  {name}: {now:.2f} {kind} a packet, the budget is {was:.2f}")
            else:
                passed += 1
        # What is in the budgets and was not measured would go unnoticed otherwise.
        for name in budgets.get(kind, {}).keys() - names.keys():
            if only and name.split(":")[0] not in only:
                skipped += 1
                continue
            failed += 1
            print(f"FAILED  {name}: has a budget of {kind}, and was not measured")
    return passed, failed, skipped


def main():
    what, results_path, path = sys.argv[1:]
    with open(results_path) as file:
        results = json.load(file)
    budgets = {}
    if os.path.exists(path):
        with open(path) as file:
            budgets = json.load(file)
    release, found = results["kernel"], costs(results)
    print()
    if what == "record":
        only = results["only"].split()
        kept = budgets.get(release, {}) if only else {}
        budgets[release] = {
            kind: {**{name: cost for name, cost in kept.get(kind, {}).items()
                      if name.split(":")[0] not in only}, **names}
            for kind, names in found.items()}
        with open(path, "w") as file:
            json.dump(budgets, file, indent=1, sort_keys=True)
            file.write("\n")
        print(f"budgets of {release} written to {os.path.relpath(path)}")
        return
    if release not in budgets:
        count = sum(len(names) for names in found.values())
        print(f"No budgets for {release}: 'selftests/bench/bench.sh record' writes them down, once "
              f"the figures above are right. There are some for {', '.join(sorted(budgets))}.")
        print(f"{results.get('plugin_test', 0)} passed, 0 failed, {count} skipped")
        return
    passed, failed, skipped = check(found, budgets[release], release,
                                    results["only"].split())
    passed += results.get("plugin_test", 0)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


main()
