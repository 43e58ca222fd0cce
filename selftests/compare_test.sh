#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# compare_test.sh: that compare.awk finds everything that may be wrong with the results of the two
# guests. On the host, in a second. Ends with "N passed, N failed, N skipped".

set -uo pipefail
here=$(dirname "$(readlink -e "$0")")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

# run SCRIPTS [CASE...]: the log of a guest with one script, t.sh; a CASE is "ok TEXT" or
# "not ok TEXT". It announces SCRIPTS scripts.
run()
{
	local number=0 state="ok 1"

	echo "KTAP version 1"
	echo "1..$1"
	shift
	echo "# selftests: t.sh"
	echo "# TAP version 13"
	echo "# 1..${PLAN:-$#}"
	for case in "$@"; do
		number=$((number + 1))
		if [[ $case == not* ]]; then
			state="not ok 1"
			echo "# # it says why"
			echo "# not ok $number ${case#not ok }"
		else
			echo "# ok $number ${case#ok }"
		fi
	done
	echo "${STATE:-$state} selftests: t.sh # ${EXIT:-0.1 s}"
}

# expect DESCRIPTION SUM [TEXT]: the comparison of the files c and rust with the list differences
# ends with that sum, and says TEXT
expect()
{
	local out

	out=$(awk -f "$here/compare.awk" "$tmp/differences" "$tmp/c" "$tmp/rust" 2>&1)
	if [ "$(tail -n 1 <<<"$out")" = "$2" ] && grep -qF -- "${3:-}" <<<"$out"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $1: expected $2${3:+, and \"$3\"}:"
		printf '    %s\n' "${out//$'\n'/$'\n    '}"
	fi
	: >"$tmp/differences"
}
: >"$tmp/differences"

run 1 "ok a" "ok b" >"$tmp/c"
run 1 "ok a" "ok b" >"$tmp/rust"
expect "all passes" "4 passed, 0 failed, 0 skipped"

run 1 "ok a" "not ok b" >"$tmp/rust"
expect "Rust fails" "3 passed, 1 failed, 0 skipped" "it says why"
echo "t.sh | b | passes | fails | reason" >"$tmp/differences"
expect "Rust fails, as the list has it" "4 passed, 0 failed, 0 skipped"
echo "t.sh | b | fails | passes | reason" >"$tmp/differences"
expect "the list has it the other way round" "2 passed, 1 failed, 0 skipped"
echo "t.sh | a | fails | passes | reason" >"$tmp/differences"
expect "the list has a case that does not differ" "1 passed, 2 failed, 0 skipped" \
	"t.sh | a: by the list"
echo "t.sh | c | fails | passes | reason" >"$tmp/differences"
expect "the list has a case that is not there" "3 passed, 2 failed, 0 skipped" "no such case"
echo "t.sh | b | passes | fails" >"$tmp/differences"
expect "the list gives no reason" "3 passed, 2 failed, 0 skipped" "not five fields"

run 1 "ok a" "not ok b" >"$tmp/c"
expect "both fail" "2 passed, 2 failed, 0 skipped"

run 1 "ok a" "ok b # SKIP" >"$tmp/c"
cp "$tmp/c" "$tmp/rust"
expect "both skip" "2 passed, 0 failed, 2 skipped"
run 1 "ok a" "ok b" >"$tmp/rust"
expect "one skips" "3 passed, 1 failed, 1 skipped" "C skips, Rust passes"

run 1 "ok a" "ok b" >"$tmp/c"
run 1 "ok a" >"$tmp/rust"
expect "a case is missing" "3 passed, 1 failed, 0 skipped" "Rust: t.sh | b: no result"
PLAN=3 run 1 "ok a" "ok b" >"$tmp/rust"
expect "fewer cases than planned" "4 passed, 1 failed, 0 skipped" "planned 3 cases, and did 2"
PLAN=1 run 1 "ok a" "ok b" >"$tmp/rust"
expect "more cases than planned" "4 passed, 1 failed, 0 skipped" "planned 1 cases, and did 2"
run 1 "ok a" "ok b" | grep -v '^# 1[.]' >"$tmp/rust"
expect "no plan" "4 passed, 1 failed, 0 skipped" "it has no plan"
STATE="not ok 1" EXIT="TIMEOUT 180 seconds" run 1 "ok a" "ok b" >"$tmp/rust"
expect "all cases pass, the script does not" "4 passed, 1 failed, 0 skipped" "TIMEOUT 180 seconds"
run 2 "ok a" "ok b" >"$tmp/rust"
expect "a script is missing" "4 passed, 1 failed, 0 skipped" "2 scripts planned, 1 have a result"
run 1 "ok a" "ok b" | sed '$d' >"$tmp/rust"
echo "vmtest: FAILED: the guest crashed before the command ended" >>"$tmp/rust"
expect "a crash in the last script" "4 passed, 2 failed, 0 skipped" "crashed"
{ run 1 "ok a" "ok b"; echo "vmtest: FAILED: the kernel reported, console line 7"; } >"$tmp/rust"
expect "the kernel reported a bug" "4 passed, 1 failed, 0 skipped" "the kernel reported"
run 1 "ok a" "ok b" "ok b" >"$tmp/rust"
expect "two cases of the same name" "5 passed, 1 failed, 0 skipped" "C: t.sh | b #2: no result"

# Rust has scripts of its own; C does not.
{ run 2 "ok a" "ok b"; run 2 "ok x" | sed '1,2d; s/t[.]sh/r.sh/'; } >"$tmp/rust"
expect "a script for Rust alone" "5 passed, 0 failed, 0 skipped"
{ run 2 "ok a" "ok b"; run 2 "not ok x" | sed '1,2d; s/t[.]sh/r.sh/'; } >"$tmp/rust"
expect "a script for Rust alone fails" "4 passed, 1 failed, 0 skipped"
run 1 "ok a" "ok b" >"$tmp/rust"
{ run 2 "ok a" "ok b"; run 2 "ok x" | sed '1,2d; s/t[.]sh/r.sh/'; } >"$tmp/c"
expect "a script for C alone" "5 passed, 1 failed, 0 skipped" "Rust: r.sh | x: no result"
printf '%s\n' "KTAP version 1" 1..1 "# selftests: t.sh" "# no tool" \
	"ok 1 selftests: t.sh # SKIP" >"$tmp/c"
cp "$tmp/c" "$tmp/rust"
expect "both skip a script" "0 passed, 1 failed, 2 skipped" "no tests were run"

: >"$tmp/c"
run 1 "ok a" "ok b" >"$tmp/rust"
expect "C's guest did not run" "2 passed, 1 failed, 0 skipped" "C: no tests were run"
run 1 "ok a" "ok b" >"$tmp/c"
: >"$tmp/rust"
expect "Rust's guest did not run" "2 passed, 3 failed, 0 skipped" "Rust: no tests were run"
: >"$tmp/c"
expect "neither did" "0 passed, 2 failed, 0 skipped"

echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
