#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check.sh [PATTERN]: 'make check-upstream'. The tests of the kernel and of nftables, as they are,
# once with C's modules and once with Rust's, each in a fresh guest; a table of both, what each test
# that did not pass said, and how often Rust looked at a packet (socket expression, NAT hooks, ESP).
#
# Fails where Rust differs from C, and on anything that the kernel reports. A test that does not
# pass with C is no difference, but is listed. Ends with "N passed, N failed, N skipped".
# PATTERN: only tests whose "suite/name" matches, 'nat|conntrack_icmp' for one. KERNEL=debug runs all
# of it there.

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"
HERE=$TOP/selftests/upstream
OUT=$TOP/build/upstream

say "upstream tests: preparing"
tests=$("$HERE/prepare.sh")
mkdir -p "$OUT"
if [ "${KERNEL:-stock}" = debug ]; then
	"$TOP/scripts/debug-kernel.sh"
	"$TOP/scripts/modules.sh" >"$OUT/modules.log" 2>&1 ||
		{ cat "$OUT/modules.log" >&2; die "the modules do not build"; }
fi

# What failed in here, beside the tests themselves.
failed=0
run() {
	local rc=0
	say "upstream tests with IMPL=$1"
	SHARE=$tests MEM=${MEM:-2048M} TIMEOUT=${TIMEOUT:-7200} CONSOLE=$OUT/$1.console \
		CMD="IMPL=$1 /src/selftests/upstream/guest.sh '${2:-}'" \
		"$TOP/selftests/vmtest.sh" >"$OUT/$1.log" 2>&1 || rc=$?
	grep -E '^(vmtest: FAILED|Bail out!)' "$OUT/$1.log" || :
	if [ "$rc" != 0 ]; then
		failed=$((failed + 1))
		say "IMPL=$1: the guest failed; see ${OUT#"$TOP/"}/$1.log"
	fi
	sed -n 's/^result //p' "$OUT/$1.log" >"$OUT/$1.results"
}
run c "${1:-}"
run rust "${1:-}"

{
	sed 's/^/c /' "$OUT/c.results"
	sed 's/^/rust /' "$OUT/rust.results"
	awk -v pattern="${1:-.}" '!/^#/ && $3 == "-" && ($1 "/" $2) ~ pattern' "$HERE/tests" |
		sed 's/^/none /'
} | awk -v failed="$failed" '
	{
		test = $2 " " $3
		if (!(test in seen)) {
			seen[test] = ++number
			name[number] = test
		}
		why = ""
		for (i = ($1 == "none") ? 5 : 7; i <= NF; i++)
			why = why (why == "" ? "" : " ") $i
		if ($1 == "none") {
			reason[test] = why
			next
		}
		verdict[$1, test] = $4
		seconds[$1, test] = $5
		if ($1 == "rust")
			evaluations[test] = $6
		if (why != "")
			said[$1, test] = why
	}
	function of(impl, test) {
		return (impl SUBSEP test) in verdict ? verdict[impl, test] : "-"
	}
	END {
		format = "%-10s %-46s %-8s %5s  %-8s %5s %9s  %s\n"
		printf format, "suite", "test", "C", "s", "Rust", "s", "packets", ""
		for (n = 1; n <= number; n++) {
			test = name[n]
			split(test, part, " ")
			c = of("c", test)
			rust = of("rust", test)
			mark = ""
			if (test in reason) {
				skipped++
				mark = "not run"
			} else if (c != rust) {
				failed++
				mark = "DIFFERENT"
			} else if (c == "pass") {
				passed++
			} else {
				skipped++
				mark = "with both"
			}
			printf format, part[1], part[2], c, seconds["c", test], rust,
				seconds["rust", test], evaluations[test], mark
		}
		print ""
		for (n = 1; n <= number; n++) {
			test = name[n]
			if (test in reason)
				print test ": not run: " reason[test]
			if (("c" SUBSEP test) in said)
				print test ": C: " said["c", test]
			if (("rust" SUBSEP test) in said)
				print test ": Rust: " said["rust", test]
		}
		if (!passed && !failed)
			failed = 1
		printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
		exit (failed > 0)
	}' | tee "$OUT/table"
