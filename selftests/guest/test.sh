#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The tests' own test, on the host: vmtest.sh hands output and status through, and lets no bug
# report of the kernel, no crash and no hang pass. Output is KTAP, and at its end
# "N passed, N failed, N skipped".

set -uo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"
load_env
# shellcheck source=/dev/null
. "$NFRUST_KSRC/tools/testing/selftests/kselftest/ktap_helpers.sh"

VMTEST=$TOP/selftests/vmtest.sh
DIR=$(mktemp -d)
trap 'rm -rf "$DIR"' EXIT
# Not what make or the caller set for a guest of their own.
unset CMD KERNEL CPUS MEM TIMEOUT SHARE SHARE_RW ICOUNT CONSOLE APPEND

# vm CMD: run it; leaves $status and the files $DIR/{out,err}.
vm() {
	status=0
	"$VMTEST" "$1" >"$DIR/out" 2>"$DIR/err" </dev/null || status=$?
}

check() {
	local name=$1
	shift
	if "$@"; then
		ktap_test_pass "$name"
	else
		ktap_test_fail "$name"
		ktap_print_msg "status $status"
		tail -n 5 "$DIR/err" 2>/dev/null | sed 's/^/# /'
	fi
}

# One line a kind of report, as the kernel words them; each has to be found.
reports() {
	cat <<-'EOT'
		[    4.2] WARNING: net/core/dst.c:1 at dst_release+0x1/0x2, CPU#0: nft/1
		[    4.2] WARNING: possible circular locking dependency detected
		[    4.2] WARNING: suspicious RCU usage
		[    4.2] BUG: unable to handle page fault for address: ffff888000000000
		[    4.2] BUG: kernel NULL pointer dereference, address: 0000000000000000
		[    4.2] BUG: sleeping function called from invalid context at kernel/locking/mutex.c:1
		[    4.2] BUG: scheduling while atomic: nft/123/0x00000002
		[    4.2] BUG: KASAN: slab-use-after-free in nft_socket_eval+0x1/0x2
		[    4.2] kernel BUG at net/core/skbuff.c:1!
		[    4.2] Oops: general protection fault, probably for non-canonical address 0x1: 0000 [#1] SMP
		[    4.2] Kernel panic - not syncing: Fatal exception in interrupt
		[    4.2] INFO: task nft:12 blocked for more than 120 seconds.
		[    4.2] INFO: trying to register non-static key.
		[    4.2] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
		[    4.2] rcu: INFO: rcu_preempt self-detected stall on CPU
		[    4.2] watchdog: BUG: soft lockup - CPU#0 stuck for 63s! [ksoftirqd/0:12]
		[    4.2] UBSAN: array-index-out-of-bounds in net/core/dev.c:1:2
		[    4.2] ODEBUG: free active (active state 0) object: 1 object type: timer_list
		[    4.2] refcount_t: underflow; use-after-free.
		[    4.2] list_del corruption. prev->next should be ffff888000000000
		[    4.2] kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)
		[    4.2] unregister_netdevice: waiting for veth0 to become free. Usage count = 2
		[    4.2] rust_kernel: panicked at rust/net/skb.rs:1:2:
		[    4.2] nft_socket_rust: Unknown symbol nf_sk_lookup_slow_v4 (err -2)
		[    4.2] Out of memory: Killed process 12 (nft) total-vm:1kB
	EOT
}

all_reports_found() {
	local line bad=0
	while IFS= read -r line; do
		printf '[    1.0] before\r\n%s\r\n[    9.0] after\r\n' "$line" >"$DIR/log"
		if "$VMTEST" --scan "$DIR/log" 2>"$DIR/err"; then
			ktap_print_msg "not found: $line"
			bad=1
		elif ! grep -qF 'console line 2: ' "$DIR/err"; then
			ktap_print_msg "wrong line for: $line"
			bad=1
		fi
	done < <(reports)
	[ "$bad" = 0 ]
}

ktap_print_header
ktap_set_plan 10

status=0
check "each kind of bug report is found in a log" all_reports_found

# Exit status, both streams, a large output, and programs left running.
CONSOLE=$DIR/console vm 'echo out; echo err >&2; seq 100000; echo again >/dev/stdout
	sleep 1000 & exit 37'
check "exit status" [ "$status" = 37 ]
{ echo out; echo err; seq 100000; echo again; } >"$DIR/want"
check "output, all of it, in order" cmp -s "$DIR/want" "$DIR/out"
check "the kernel's log is apart, and clean" "$VMTEST" --scan "$DIR/console"

# CMD succeeds, the kernel does not.
vm 'echo "<4>WARNING: net/netfilter/x.c:1 at x+0x1/0x2, CPU#0: x/1" >/dev/kmsg; echo fine'
check "a bug report fails a command that succeeds" [ "$status" = 1 ]
check "... and is shown" \
	grep -q 'FAILED: the kernel reported, .* WARNING: net/netfilter/x.c:1' "$DIR/err"

# 512: as a warning would have left it.
vm 'echo 512 >/proc/sys/kernel/tainted'
check "so does a taint that the console does not explain" \
	grep -q 'FAILED: the guest is tainted' "$DIR/err"

vm 'echo c >/proc/sysrq-trigger; sleep 60'
check "a crash fails" [ "$status" = 1 ]
check "... with the console's end and the reason" \
	grep -q 'FAILED: the kernel reported, .* Kernel panic - not syncing: sysrq' "$DIR/err"

TIMEOUT=30 vm 'while :; do :; done'
check "a hang ends, with a status of its own" [ "$status" = 124 ]

ktap_print_totals
echo "$KTAP_CNT_PASS passed, $KTAP_CNT_FAIL failed, $KTAP_CNT_SKIP skipped"
[ "$KTAP_CNT_PASS" = "$KSFT_NUM_TESTS" ]
