#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# run.sh [SCRIPT...]: run the selftests in the guest, as root, for one implementation:
#
#	IMPL=c     the kernel's module: nft_socket.ko, nft_chain_nat.ko for what is in nat/, and
#	           esp4_offload.ko and esp6_offload.ko for what is in esp/
#	IMPL=rust  their namesakes with _rust (the default)
#
# SCRIPT is a path below this directory (socket/matrix.sh); without any, all of them run, those in
# faults/ only where the kernel can make allocations fail. Output is that of the kernel's kselftest
# runner: one line for each script, its own KTAP behind "# ". Exit status 0 when nothing failed.
#
# QUEUE=DIR: a directory that several guests share, empty at first. Each script is run by the guest
# that comes to it first, and leaves a directory with its name there.
#
# BUDGET=SECONDS: scripts that would begin later are skipped.
#
# A script says in a line "# run.sh: WORD..." what is special about it:
#
#	only-rust    no such thing in C
#	module=NAME  C's name of the module that it tests; in nat/ nft_chain_nat, else nft_socket
#	timeout=S    not the default of 180 seconds; on a debug kernel five times that

set -u

dir=$(dirname "$(readlink -e "$0")")
: "${IMPL:=rust}"
export IMPL

case $IMPL in
c|rust)	;;
*)	echo "Bail out! IMPL=$IMPL: neither c nor rust"; exit 1 ;;
esac

# choose SCRIPT: the module that it tests, and the one that it does not; module2 and other2 where
# these are two
choose()
{
	module2=
	case $1 in
	nat/*)	module=nft_chain_nat ;;
	esp/*)	module=esp4_offload module2=esp6_offload ;;
	*)	module=$(option "$1" module) || module=nft_socket ;;
	esac
	other=${module}_rust other2=${module2:+${module2}_rust}
	[ "$IMPL" = c ] || {
		other=$module module=${module}_rust
		other2=$module2 module2=${module2:+${module2}_rust}
	}
}

bail()
{
	echo "Bail out! $*"
	exit 1
}

# Kernel taints that a test must not add: machine check, bad page, oops, warning, soft lockup.
bad_taints=$((1 << 4 | 1 << 5 | 1 << 7 | 1 << 9 | 1 << 14))
tainted()
{
	local taints

	read -r taints </proc/sys/kernel/tainted
	echo $((taints & bad_taints))
}

# Only the module under test is loaded. The kernel loads our nft_socket for new rules, so for C it
# has to be kept away, as a user would do it who wants C back; of chains of type nat C's module is
# what has to be kept away.
load()
{
	local refs conf=/run/modprobe.d/nfrust-test.conf attempt=0 away

	mkdir -p /run/modprobe.d
	rm -f $conf
	case $module in
	nft_socket)
		echo "blacklist nft_socket_rust" >$conf ;;
	nft_chain_nat_rust)
		cp "$dir/../samples/modprobe.d/nft_chain_nat_rust.conf" $conf ;;
	esp4_offload_rust)
		cp "$dir/../samples/modprobe.d/esp_offload_rust.conf" $conf ;;
	esac
	# Chains of type nat and ESP are C's in all other tests. What a namespace that is on its
	# way out holds is given back a little later.
	for away in "$other" $other2 nft_chain_nat_rust esp4_offload_rust esp6_offload_rust; do
		case $away in
		"$module"|"$module2")	continue ;;
		esac
		while [ -e "/sys/module/$away/refcnt" ] && ! rmmod "$away"; do
			attempt=$((attempt + 1))
			[ $attempt -lt 10 ] || return 1
			sleep 1
		done
	done
	[ -e "/sys/module/$module/refcnt" ] || modprobe "$module" || return 1
	[ -z "$module2" ] || [ -e "/sys/module/$module2/refcnt" ] || modprobe "$module2" || return 1
	read -r refs <"/sys/module/$module/refcnt"
	[ "$refs" = 0 ] || echo "# $module has $refs references before the test"
}

option()
{
	local words word

	words=$(sed -n 's/^# run.sh: //p' "$dir/$1")
	for word in $words; do
		case $word in
		"$2")	return 0 ;;
		"$2"=*)	echo "${word#*=}"; return 0 ;;
		esac
	done
	return 1
}

if [ $# -gt 0 ]; then
	scripts=("$@")
else
	cd "$dir" || exit 1
	scripts=(socket/*.sh nat/*.sh esp/*.sh)
	# These have Rust in any case, and C beside it where they need it.
	[ "$IMPL" = c ] || scripts+=(equality/run.sh samples/*.sh)
	[ "$IMPL" = c ] || [ ! -d /sys/kernel/debug/kunit ] || scripts+=(kunit/run.sh)
	# The longest, so that guests with a QUEUE end together.
	[ ! -d /sys/kernel/debug/failslab ] || scripts=(faults/*.sh "${scripts[@]}")
fi
selected=()
for script in "${scripts[@]}"; do
	[ -x "$dir/$script" ] || bail "$script: no such test"
	[ "$IMPL" = rust ] || ! option "$script" only-rust || continue
	selected+=("$script")
done

[ "$(id -u)" = 0 ] || bail "needs root"
choose "${selected[0]:-}"
load || bail "cannot load $module"

echo "KTAP version 1"
[ -n "${QUEUE:-}" ] || echo "1..${#selected[@]}"
echo "# IMPL=$IMPL on $(uname -r), $module loaded"
number=0
failed=0
begin=$EPOCHREALTIME
for script in "${selected[@]}"; do
	# Only one of those who make it at the same time succeeds.
	[ -z "${QUEUE:-}" ] || mkdir "$QUEUE/${script//\//-}" 2>/dev/null || continue
	number=$((number + 1))
	if [ -n "${BUDGET:-}" ] && [ "$SECONDS" -ge "$BUDGET" ]; then
		echo "ok $number selftests: $script # SKIP no time"
		continue
	fi
	limit=$(option "$script" timeout) || limit=180
	[ ! -e /sys/kernel/debug/kmemleak ] || limit=$((5 * limit))
	echo "# selftests: $script"
	echo "selftests: $script" >/dev/kmsg
	taint=$(tainted)
	start=$EPOCHREALTIME
	choose "$script"
	if load; then
		timeout --kill-after=10 "$limit" "$dir/$script" </dev/null 2>&1 | sed -u 's/^/# /'
		status=${PIPESTATUS[0]}
	else
		echo "# cannot load $module"
		status=1
	fi
	end=$EPOCHREALTIME
	took=$((${end/./} - ${start/./}))
	took="$((took / 1000000)).$((took / 100000 % 10)) s"
	if [ "$(tainted)" != "$taint" ]; then
		echo "# the kernel reported a bug: taint $taint before, $(tainted) now"
		status=1
	fi
	case $status in
	0)	echo "ok $number selftests: $script # $took" ;;
	4)	echo "ok $number selftests: $script # SKIP" ;;
	124|137)
		echo "not ok $number selftests: $script # TIMEOUT $limit seconds"
		failed=$((failed + 1)) ;;
	*)	echo "not ok $number selftests: $script # exit=$status, $took"
		failed=$((failed + 1)) ;;
	esac
done

end=$EPOCHREALTIME
[ -z "${QUEUE:-}" ] || echo "1..$number"
echo "# $((number - failed)) of $number scripts passed in $(((${end/./} - ${begin/./}) / 1000000)) s"
[ $failed = 0 ]
