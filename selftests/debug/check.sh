#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check.sh [SCRIPT...]: 'make check-debug'. Builds the debug kernel if it has to, the modules for
# it, and runs the selftests there. Fails on a failed test, on a leak, and on anything that the
# kernel reports on its console. Ends with "N passed, N failed, N skipped".
#
#   GUESTS=2  guests at a time that share the scripts. A script waits for one thing after the
#             other, so that two guests use two CPUs better than one with two.
#   BUDGET=S  after so many seconds no script begins; those that are left are skipped

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

export KERNEL=debug
GUESTS=${GUESTS:-2}
[ $# -ne 1 ] || GUESTS=1
LOGS=$TOP/build/check-debug
mkdir -p "$LOGS"
rm -rf "${LOGS:?}"/*
mkdir "$LOGS/queue"

"$TOP/scripts/debug-kernel.sh"
say "modules for the debug kernel"
"$TOP/scripts/modules.sh" >"$LOGS/modules.log" 2>&1 ||
	{ cat "$LOGS/modules.log" >&2; die "the modules do not build"; }

# guest NUMBER SCRIPT...: what it says that is of interest while it runs
guest() {
	local number=$1 rc=0
	shift

	# KASAN has a shadow of an eighth of memory, and freed objects wait in quarantine.
	MEM=${MEM:-2048M} CPUS=${CPUS:-2} TIMEOUT=${TIMEOUT:-$((${BUDGET:-2400} + 1200))} \
		SHARE=$LOGS/queue SHARE_RW=1 CONSOLE=$LOGS/$number.console \
		CMD="IMPL=rust QUEUE=/share BUDGET=${BUDGET:-} /src/selftests/debug/guest.sh $*" \
		"$TOP/selftests/vmtest.sh" >"$LOGS/$number.log" 2>&1 </dev/null || rc=$?
	echo "$rc" >"$LOGS/$number.status"
}

say "the selftests in $GUESTS guests; what they and their consoles say: build/check-debug/"
# Each in a process group of its own, so that no guest stays when this is interrupted.
set -m
pids=()
for ((number = 1; number <= GUESTS; number++)); do
	touch "$LOGS/$number.log"
	guest "$number" "$@" &
	pids+=($!)
done
set +m
# shellcheck disable=SC2329 # called by the traps
stop() {
	local pid
	for pid in "${pids[@]}"; do
		kill -TERM -- "-$pid" 2>/dev/null || :
	done
}
trap 'stop; exit 130' INT TERM HUP

tail -q -n +1 --pid="${pids[-1]}" -f "$LOGS"/*.log 2>/dev/null |
	grep --line-buffered -E '^(not )?ok |^Bail out!' |
	while IFS= read -r line; do say "$line"; done &
wait "${pids[@]}" || :

passed=0 failed=0 skipped=0
for ((number = 1; number <= GUESTS; number++)); do
	log=$LOGS/$number.log
	status=$(cat "$LOGS/$number.status" 2>/dev/null || echo none)
	ok=$(grep -cE '^ok ' "$log" || :)
	not_ok=$(grep -cE '^not ok |^Bail out!|^vmtest: FAILED' "$log" || :)
	skip=$(grep -cE '^ok .*# SKIP' "$log" || :)
	# A guest that tested nothing, or failed without a word about what, has failed.
	[ "$status" = 0 ] || [ "$not_ok" -gt 0 ] || not_ok=1
	[ $((ok + not_ok)) -gt 0 ] || not_ok=1
	if [ "$not_ok" -gt 0 ]; then
		say "guest $number failed (status $status):"
		grep -E '^# +(# )?(not ok|failed:)|^not ok |^Bail out!|^vmtest:' "$log" || tail -n 20 "$log"
		sed -n '/^vmtest: FAILED/,$p' "$log"
	fi
	passed=$((passed + ok - skip)) failed=$((failed + not_ok)) skipped=$((skipped + skip))
done
taken=$(find "$LOGS/queue" -mindepth 1 | wc -l)
ran=$(cat "$LOGS"/*.log | grep -cE '^(not )?ok [0-9]+ selftests: ' || :)
if [ "$taken" = 0 ] || [ "$ran" != "$taken" ]; then
	say "the guests took $taken scripts and ran $ran"
	failed=$((failed + 1))
fi
say "done"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
