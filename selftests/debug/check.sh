#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check.sh [SCRIPT...]: 'make check-debug'. Builds the debug kernel if it has to, the modules for
# it, and runs the selftests there. Fails on a failed test, on a leak, and on anything that the
# kernel reports on its console. Ends with "N passed, N failed, N skipped".

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

export KERNEL=debug
mkdir -p "$TOP/build"
log=$TOP/build/check-debug.log

"$TOP/scripts/debug-kernel.sh"
say "modules for the debug kernel"
"$TOP/scripts/modules.sh" >"$log" 2>&1 || { cat "$log" >&2; die "the modules do not build"; }

say "the selftests on the debug kernel; its console: build/check-debug.console"
rc=0
# KASAN has a shadow of an eighth of memory, and freed objects wait in quarantine.
MEM=${MEM:-2048M} TIMEOUT=${TIMEOUT:-2400} CONSOLE=$TOP/build/check-debug.console SHARE='' \
	CMD="IMPL=rust /src/selftests/debug/guest.sh $*" "$TOP/selftests/vmtest.sh" 2>&1 |
	tee "$log" || rc=$?

passed=$(grep -cE '^ok ' "$log" || :)
failed=$(grep -cE '^not ok |^Bail out!|^vmtest: FAILED' "$log" || :)
skipped=$(grep -cE '^ok .*# SKIP' "$log" || :)
[ "$rc" = 0 ] || [ "$failed" -gt 0 ] || failed=1
[ "$passed" -gt 0 ] || [ "$failed" -gt 0 ] || failed=1
say "done"
echo "$((passed - skipped)) passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
