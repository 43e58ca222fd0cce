#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench.sh [full|quick|demo|check|record]: C against Rust, each figure of both in one boot. Prints
# tables and writes build/bench/results.json; README.rst here says how it is measured and what is in
# the file.
#
#   full	everything, and the plots in Documentation
#   quick	less of it
#   demo	a few figures of the socket expression alone
#   check	quick, and compares with the budgets (budgets.json); ends with "N passed, N failed, ..."
#   record	quick, and writes the budgets of this kernel
#
#   BENCH_APPEND='...'	kernel command line; mitigations=off unless given
#   BENCH_OUT=DIR	instead of build/bench
#   BENCH_ONLY='PATH...' only these paths (socket, nat, esp)

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

mode=${1:-full}
guard=
case $mode in
full|quick|demo) ;;
check|record)
	guard=$mode
	mode=quick ;;
*)	die "mode $mode: full, quick, demo, check or record" ;;
esac
load_env
unset CMD # of make vm; it would come before the argument
[ "${KERNEL:-stock}" = stock ] || die "costs are those of the stock kernel: leave KERNEL= alone"
bench=$TOP/selftests/bench
out=$(realpath -m "${BENCH_OUT:-$TOP/build/bench}")
append=${BENCH_APPEND-mitigations=off}
only=${BENCH_ONLY:-}
[ -e "$TOP/build/$NFRUST_KREL/nft_socket_rust.ko" ] ||
	die "no module yet: run 'make modules' first"

case $mode in
full)	command="make bench" ;;
quick)	command="make bench QUICK=1" ;;
*)	command="selftests/bench/bench.sh $mode" ;;
esac
[ -z "$only" ] || command="BENCH_ONLY=${only@Q} $command"
[ -z "${BENCH_APPEND+set}" ] || command="BENCH_APPEND=${append@Q} $command"

mkdir -p "$out"
rm -f "$out"/*.json "$out"/window.* "$out"/kallsyms.*

# Which source the modules are from; which modules they were, the guest says.
commit=$(git -C "$TOP" rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
changes=$(git -C "$TOP" status --porcelain -- Kbuild rust selftests/bench 2>/dev/null || :)
[ -z "$changes" ] || commit="$commit, with changes"
qemu=$("$TOP/scripts/inroot" qemu-system-x86_64 --version)
[[ ! $qemu =~ version\ ([0-9.]+) ]] || qemu=${BASH_REMATCH[1]}

# guest WHAT [VARIABLE=VALUE...]: a boot in which that is measured
guest() {
	local what=$1
	shift
	env SHARE="$out" SHARE_RW=1 TIMEOUT="${TIMEOUT:-900}" "$@" "$TOP/selftests/vmtest.sh" \
		"python3 -S /src/selftests/bench/guest.py $what $mode /share $only"
}

report() {
	NFRUST_BIND=$out "$TOP/scripts/inroot" python3 "$bench/report.py" "$@"
}

say "measuring in a guest whose clock counts instructions ($mode)"
guest instructions ICOUNT=1 APPEND="$append"

if [ "$mode" != demo ]; then
	cpus=2
	[ "$mode" = quick ] || cpus=8
	rc=0
	plugin=$("$bench/plugin/build.sh") || rc=$?
	case $rc in
	0)	say "counting contended writes on $cpus CPUs of a guest"
		cp "${plugin%/release/*}/writes" "$out/"
		report --layout "$out/vmlinux.btf" >"$out/layout.json"
		# One CPU more, for all that is not about packets: the kernel keeps its threads to it.
		# Caches of objects are not to be merged with others of the same size, as their names
		# tell what is in them.
		guest contention CPUS=$((cpus + 1)) PLUGIN="$plugin,out=$out" \
			APPEND="$append isolcpus=1-$cpus nohz_full=1-$cpus slab_nomerge" ;;
	4)	say "contended writes: skipped, the registry with the plugin's bindings cannot be reached" ;;
	*)	exit "$rc" ;;
	esac
fi
if [ "$mode" = full ]; then
	if [ "$("$TOP/selftests/vmtest.sh" --accel 2>/dev/null)" = kvm ]; then
		cpus=$(nproc)
		[ "$cpus" -le 8 ] || cpus=8
		say "counting packets a second on $cpus CPUs"
		guest speed CPUS="$((cpus + 1))" APPEND="$append"
	else
		say "packets a second: skipped, KVM does not work here and emulated ones say nothing"
	fi
fi
say "done"

report "$out" "commit=$commit" "command=$command" "only=$only" \
	"qemu=$qemu, -accel tcg -icount shift=0,sleep=off -smp 1"
printf '%-8s %s\n' results "${out#"$PWD"/}/results.json"
if [ "$mode" = full ] && [ -z "$only" ] && [ -z "${BENCH_OUT:-}" ]; then
	report --plots "$out/results.json" "$TOP/Documentation"
fi
[ -z "$guard" ] || NFRUST_BIND=$out "$TOP/scripts/inroot" python3 "$bench/guard.py" "$guard" \
	"$out/results.json" "$bench/budgets.json"
