#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# guest.sh [SCRIPT...]: the selftests on the debug kernel, and then a look at what they left behind:
# network namespaces that somebody still holds, modules that cannot go, memory that nobody points
# to. Runs in the guest; output is that of selftests/run.sh, and one more line for each look.
#
# What the kernel says on its console (KASAN, lockdep, ...) is the host's to see: vmtest.sh.

set -u

dir=$(dirname "$(readlink -e "$0")")
trackers=/sys/kernel/debug/ref_tracker
kmemleak=/sys/kernel/debug/kmemleak
failed=0

# What the looks rest on.
for file in "$trackers" "$kmemleak" /proc/lockdep_stats /sys/kernel/debug/failslab; do
	[ -e "$file" ] || { echo "Bail out! no $file: not the debug kernel"; exit 1; }
done

pass()
{
	echo "ok leaks: $1"
}

# fail DESCRIPTION: with details on standard input
fail()
{
	failed=1
	sed 's/^/# /'
	echo "not ok leaks: $1"
}

# One for each network namespace that is alive, named or not: it is what counts its references.
namespaces()
{
	local all=("$trackers"/net_refcnt@*)
	echo ${#all[@]}
}

# Everything takes ten times as long here: less of the same, except when asked for.
export ROUNDS=${ROUNDS:-20} PACKETS=${PACKETS:-1000} CYCLES=${CYCLES:-3} NUMBERS=${NUMBERS:-4000}
export NAMESPACES=${NAMESPACES:-10} DURATION=${DURATION:-1} STRIDE=${STRIDE:-25}
export HOSTILE=${HOSTILE:-60} SEED=${SEED:-1}
# New keys have to be agreed on before they are replaced again, while the other guest is busy, too.
export REKEY=${REKEY:-8} MBITS=${MBITS:-5}

before=$(namespaces)
"$dir/../run.sh" "$@" || failed=1

# They go in a worker, one batch after a grace period after the other.
for ((i = 0; i < 120; i++)); do
	[ "$(namespaces)" -gt "$before" ] || break
	sleep 0.5
done
if [ "$(namespaces)" -le "$before" ]; then
	pass "network namespaces are gone"
else
	fail "network namespaces are gone" <<-EOT
		$(namespaces) of them, $before before the tests; held by:
		$(head -n 40 "$trackers"/net_refcnt@* "$trackers"/net_notrefcnt@*)
	EOT
fi

out=
for ko in /lib/modules/"$(uname -r)"/updates/*.ko; do
	module=$(basename "$ko" .ko)
	module=${module//-/_}
	[ -e "/sys/module/$module/refcnt" ] || continue
	out+=$(rmmod "$module" 2>&1) || out+=$'\n'
done
if [ -z "$out" ]; then
	pass "modules can be unloaded"
else
	fail "modules can be unloaded" <<<"$out"
fi

# kmemleak takes for lost what is older than five seconds and was so in two scans.
echo scan >"$kmemleak"
sleep 6
echo scan >"$kmemleak"
out=$(head -n 200 "$kmemleak")
if [ -z "$out" ]; then
	pass "no memory is lost"
else
	fail "no memory is lost" <<<"$out"
fi

# Another look when the guest ends would find the same.
echo off >"$kmemleak"

# After a first report, or when its tables are full, lockdep turns itself off: then it saw nothing.
if grep -q 'debug_locks: *1' /proc/lockdep_stats; then
	pass "lockdep was looking until the end"
else
	fail "lockdep was looking until the end" < <(grep -E 'debug_locks|max' /proc/lockdep_stats)
fi

[ "$failed" = 0 ]
