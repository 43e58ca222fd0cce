#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check.sh [STEP...]: everything that 'make check' does, on the host. Steps run two at a time, the
# longest first; their logs are build/check/STEP.log. Ends with "N passed, N failed, N skipped".
#
#   JOBS=2           steps at a time
#   LIMIT=1800       seconds for a step
#   ONLY='A.sh ...'  only these scripts in the guests (paths below selftests/)
#
# To add a step: write a function step_NAME, whose output ends with a line of that form and whose
# status is 0 if nothing failed, and put NAME into STEPS. The two guests are different: their
# results are compared with each other.

set -uo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
load_env

STEPS=(rust c bench host lint compare)
JOBS=${JOBS:-2}
LIMIT=${LIMIT:-1800}
ONLY=${ONLY:-}
TESTS=$TOP/selftests
LOGS=$TOP/build/check

# ---- the steps ----

# The selftests in a guest, for one implementation
guest()
{
	CPUS=${CPUS:-2} TIMEOUT=${TIMEOUT:-1500} CONSOLE=$LOGS/$1.console SHARE='' KERNEL=stock \
		"$TESTS/vmtest.sh" "IMPL=$1 /src/selftests/run.sh $ONLY" 2>&1
}

step_rust()
{
	guest rust
}

step_c()
{
	guest c
}

# The tests of rust/logic with cargo
step_host()
{
	"$TOP/scripts/host-tests.sh"
}

step_lint()
{
	"$TOP/scripts/lint.sh"
}

# What packets cost, compared with what they may
step_bench()
{
	CPUS='' SHARE='' CONSOLE='' TIMEOUT=600 "$TESTS/bench/bench.sh" check 2>&1
}

# What compares the results of the guests
step_compare()
{
	"$TESTS/compare_test.sh"
}

# ---- one after the other, two at a time ----

[ $# = 0 ] || STEPS=("$@")
for step in "${STEPS[@]}"; do
	declare -F "step_$step" >/dev/null || die "no step of that name: $step"
done
[ -e "$TOP/build/$NFRUST_KREL/nft_socket_rust.ko" ] ||
	die "no nft_socket_rust.ko in build/$NFRUST_KREL: run 'make modules'"
mkdir -p "$LOGS"
rm -f "$LOGS"/*.log "$LOGS"/*.console "$LOGS"/*.status

# What a step says while it runs, as lines of ours. Of the guests that is a line for each script.
progress()
{
	local step=$1 line

	while IFS= read -r line; do
		case $line in
		"ok "[0-9]*" selftests: "* | "not ok "[0-9]*" selftests: "* | "vmtest: FAILED"* | \
		"Bail out!"*)
			say "$step: $line" ;;
		"["\ [0-9]:[0-9][0-9]"] "* | "["[0-9]*:[0-9][0-9]"] "*)
			say "$step: ${line#*] }" ;;
		esac
	done
}

declare -A pid_of=() started=()
cleanup()
{
	local pid

	# Each step has a process group of its own.
	for pid in "${pid_of[@]}"; do
		kill -TERM -- "-$pid" 2>/dev/null
	done
	wait
}
trap 'cleanup; exit 130' INT TERM HUP

start()
{
	local step=$1

	say "$step: starts"
	started[$step]=$SECONDS
	set -m
	{
		"step_$step" </dev/null 2>&1 | tee "$LOGS/$step.log" | progress "$step"
		echo "${PIPESTATUS[0]}" >"$LOGS/$step.status"
	} &
	pid_of[$step]=$!
	set +m
}

waiting=("${STEPS[@]}")
spoke=$SECONDS
while [ ${#waiting[@]} -gt 0 ] || [ ${#pid_of[@]} -gt 0 ]; do
	while [ ${#waiting[@]} -gt 0 ] && [ ${#pid_of[@]} -lt "$JOBS" ]; do
		start "${waiting[0]}"
		waiting=("${waiting[@]:1}")
	done
	sleep 0.2
	for step in "${!pid_of[@]}"; do
		if [ $((SECONDS - started[$step])) -ge "$LIMIT" ]; then
			say "$step: ended after $LIMIT s (LIMIT=)"
			kill -KILL -- "-${pid_of[$step]}"
		fi
		kill -0 "${pid_of[$step]}" 2>/dev/null && continue
		wait "${pid_of[$step]}"
		unset "pid_of[$step]"
		status=none
		[ ! -e "$LOGS/$step.status" ] || read -r status <"$LOGS/$step.status"
		say "$step: done after $((SECONDS - started[$step])) s, status $status"
		spoke=$SECONDS
	done
	if [ $((SECONDS - spoke)) -ge 60 ] && [ ${#pid_of[@]} -gt 0 ]; then
		say "running: ${!pid_of[*]}"
		spoke=$SECONDS
	fi
done

# ---- what came out ----

passed=0 failed=0 skipped=0
# add NAME FILE: the last line of a step's log
add()
{
	local words status=0

	read -r -a words < <(tail -n 1 "$2" 2>/dev/null)
	[ ! -e "$LOGS/$1.status" ] || read -r status <"$LOGS/$1.status"
	if [[ ${words[*]} =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
		passed=$((passed + BASH_REMATCH[1]))
		failed=$((failed + BASH_REMATCH[2]))
		skipped=$((skipped + BASH_REMATCH[3]))
		if [ "${BASH_REMATCH[2]}" = 0 ] && [ "$status" != 0 ]; then
			failed=$((failed + 1))
			echo "FAILED  $1: nothing failed, it says, but its status is $status"
		elif [ "$((BASH_REMATCH[1] + BASH_REMATCH[2]))" = 0 ]; then
			failed=$((failed + 1))
			echo "FAILED  $1: it did not test anything"
		fi
		say "$1: ${words[*]}"
	else
		failed=$((failed + 1))
		echo "FAILED  $1: it ended without a result; the end of build/check/$1.log:"
		tail -n 20 "$2" 2>/dev/null | sed 's/^/    /'
	fi
}

echo
guests=()
for step in "${STEPS[@]}"; do
	case $step in
	rust|c)	guests+=("$step") ;;
	*)	# What a step said only matters when something failed.
		if [ "$(cat "$LOGS/$step.status" 2>/dev/null)" != 0 ]; then
			tail -n 200 "$LOGS/$step.log" 2>/dev/null
		fi
		add "$step" "$LOGS/$step.log" ;;
	esac
done
if [ ${#guests[@]} -gt 0 ]; then
	touch "$LOGS/c.log" "$LOGS/rust.log"
	awk ${ONLY:+-v partial=1} -f "$TESTS/compare.awk" "$TESTS/differences" "$LOGS/c.log" "$LOGS/rust.log" \
		>"$LOGS/guests.log"
	sed '$d' "$LOGS/guests.log"
	add guests "$LOGS/guests.log"
fi
if [ "$((passed + failed))" = 0 ]; then
	echo "FAILED  nothing was tested"
	failed=1
fi
say "everything is done; logs are in build/check"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
