#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# build.sh: build the plugin for the build root's QEMU, and the program that tests it, in
# build/bench/plugin. The last line is the plugin's path.
#
# Debian has no package of QEMU's plugin header. The bindings are those of the crate qemu-plugin-sys,
# of the version and checksum in Cargo.lock, from the registry of crates; the network is needed once.
# Exit status 4 when they cannot be had.

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib.sh"
load_env

source=$TOP/selftests/bench/plugin
target=$TOP/build/bench/plugin
log=$target/log
mkdir -p "$target" "$CACHE/cargo"

# cargo COMMAND [ARG...]
cargo() {
	local command=$1
	shift
	"$TOP/scripts/inroot" env CARGO_HOME="$CACHE/cargo" CARGO_TARGET_DIR="$target" \
		cargo "$command" --manifest-path "$source/Cargo.toml" --locked "$@" >"$log" 2>&1
}
cargo fetch --offline || cargo fetch || {
	tail -n 3 "$log" >&2
	echo "the registry of crates cannot be reached, which has the bindings: see network and proxy" >&2
	exit 4
}
# The crate claims to need a newer Rust than the build root's, which is enough for the bindings.
cargo build --offline --release --ignore-rust-version || {
	cat "$log" >&2
	die "QEMU's plugin does not build"
}
"$TOP/scripts/inroot" "$NFRUST_CC" -O2 -Wall -Werror -pthread -static \
	-o "$target/writes" "$source/writes.c"
echo "$target/release/libcontended.so"
