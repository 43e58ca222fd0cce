#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# rust-analyzer.sh: write rust-project.json, by which rust-analyzer finds the kernel crate and ours.
# For the stock kernel, or for KDIR=TREE. Builds the modules first: the bindings are generated.

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$TOP/scripts/modules.sh" modules >/dev/null
"$TOP/scripts/modules.sh" rust-analyzer >/dev/null

run=()
root=
if [ -z "${KDIR:-}" ]; then
	load_env
	KDIR=$NFRUST_KDIR
	run=("$TOP/scripts/inroot")
	root=$NFRUST_ROOT
fi
output=$TOP/build/$(cat "$KDIR/include/config/kernel.release")
"${run[@]}" python3 "$TOP/scripts/rust-analyzer.py" "$output/rust-project.json" "$TOP" \
	"$output/rust/bindings" "$root"
say "wrote rust-project.json"
