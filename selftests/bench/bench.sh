#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench.sh [full|quick|demo]: C against Rust, in one boot. Prints a table and writes
# build/bench/results.json; README.rst here says how it is measured and what is in the file.
#
#   BENCH_APPEND='...'	kernel command line; mitigations=off unless given
#   BENCH_OUT=DIR	instead of build/bench

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

mode=${1:-full}
case $mode in
full|quick|demo) ;;
*)	die "mode $mode: full, quick or demo" ;;
esac
load_env
unset CMD # of make vm; it would come before the argument
[ "${KERNEL:-stock}" = stock ] || die "costs are those of the stock kernel: leave KERNEL= alone"
out=$(realpath -m "${BENCH_OUT:-$TOP/build/bench}")
append=${BENCH_APPEND-mitigations=off}
[ -e "$TOP/build/$NFRUST_KREL/nft_socket_rust.ko" ] ||
	die "no module yet: run 'make modules' first"

case $mode in
full)	command="make bench" ;;
quick)	command="make bench QUICK=1" ;;
*)	command="selftests/bench/bench.sh $mode" ;;
esac
[ -z "${BENCH_APPEND+set}" ] || command="BENCH_APPEND=${append@Q} $command"

mkdir -p "$out"
rm -f "$out/figures.json"

# Which source the module is from; which module it was, the guest says.
commit=$(git -C "$TOP" rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
changes=$(git -C "$TOP" status --porcelain -- Kbuild rust selftests/bench 2>/dev/null || :)
[ -z "$changes" ] || commit="$commit, with changes"
qemu=$("$TOP/scripts/inroot" qemu-system-x86_64 --version)
[[ ! $qemu =~ version\ ([0-9.]+) ]] || qemu=${BASH_REMATCH[1]}

say "measuring in a guest whose clock counts instructions ($mode)"
ICOUNT=1 SHARE=$out SHARE_RW=1 TIMEOUT=${TIMEOUT:-900} APPEND=$append \
	"$TOP/selftests/vmtest.sh" \
	"python3 -S /src/selftests/bench/instructions.py $mode /share/figures.json"
say "done"

NFRUST_BIND=$out "$TOP/scripts/inroot" python3 "$TOP/selftests/bench/report.py" \
	"$out/figures.json" "$out/results.json" \
	"commit=$commit" "command=$command" \
	"qemu=$qemu, -accel tcg -icount shift=0,sleep=off -smp 1"
printf '%-8s %s\n' results "${out#"$PWD"/}/results.json"
