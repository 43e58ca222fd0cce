#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# modules.sh [TARGET]: build the modules into build/<kernel release>/.
#
# Without KDIR: for the stock kernel that 'make setup' prepared, with the tool chain of the build
# root. With KDIR=TREE: for that tree, with this machine's tool chain, which has to be the tree's.
# TARGET is one of Kbuild's, "modules" unless given.

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

KDIR=${KDIR:-}
target=${1:-modules}

if [ -n "$KDIR" ]; then
	KDIR=$(realpath "$KDIR")
	run=()
	make=(make)
	[ -z "${LLVM:-}" ] || make+=("LLVM=$LLVM")
else
	load_env
	KDIR=$NFRUST_KDIR
	run=("$TOP/scripts/inroot")
	make=(make "CC=$NFRUST_CC")
fi

"${run[@]}" "$TOP/scripts/preflight.sh" "$KDIR" "${make[@]:1}"

release=$(cat "$KDIR/include/config/kernel.release")
output=$TOP/build/$release
mkdir -p "$output"
"${run[@]}" "${make[@]}" -C "$KDIR" M="$TOP" MO="$output" "-j$(nproc)" "$target"
