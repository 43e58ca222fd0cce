#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# modules.sh [TARGET] [VARIABLE=VALUE...]: build the modules into build/<kernel release>/.
#
# Without KDIR: for the stock kernel that 'make setup' prepared, or with KERNEL=debug for the one of
# scripts/debug-kernel.sh, with the tool chain of the build root.
# With KDIR=TREE: for that tree, with this machine's tool chain, which has to be the tree's.
# TARGET is one of Kbuild's, "modules" unless given; variables are for Kbuild too. OUTPUT=DIR builds
# there instead. NFRUST_SELFTESTS= leaves out the modules that only the selftests need.

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

KDIR=${KDIR:-}
target=${1:-modules}
shift $(($# > 0))

if [ -n "$KDIR" ]; then
	KDIR=$(realpath "$KDIR")
	run=()
	make=(make)
	[ -z "${LLVM:-}" ] || make+=("LLVM=$LLVM")
else
	load_env
	run=("$TOP/scripts/inroot")
	make=(make "CC=$NFRUST_CC")
	if [ "${KERNEL:-stock}" = debug ]; then
		[ -r "$CACHE/env-debug" ] || die "no debug kernel yet: 'make check-debug' builds it"
		# shellcheck source=/dev/null
		. "$CACHE/env-debug"
		make=(make LLVM=1)
	fi
	KDIR=$NFRUST_KDIR
fi

"${run[@]}" "$TOP/scripts/preflight.sh" "$KDIR" "${make[@]:1}"

release=$(cat "$KDIR/include/config/kernel.release")
output=${OUTPUT:-$TOP/build/$release}
mkdir -p "$output"
"${run[@]}" "${make[@]}" -C "$KDIR" M="$TOP" MO="$output" "-j$(nproc)" \
	NFRUST_SELFTESTS="${NFRUST_SELFTESTS-1}" "$target" "$@"
