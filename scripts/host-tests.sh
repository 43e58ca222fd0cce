#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# host-tests.sh: the tests of rust/logic, on this machine and without a kernel. Unit and property
# tests by cargo, and meanwhile the fuzzer. The last line is `N passed, N failed, N skipped`.
#
#   FUZZ_SECONDS=N  how long to fuzz: 20 unless given, 0 for not at all
#
# Everything is written to build/host. Inputs that the fuzzer found interesting stay there in
# corpus/, for the next run to begin with, and those that made it fail in found/: each run tries
# those first, so that a failure stays one until it is fixed.

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

FUZZ_SECONDS=${FUZZ_SECONDS:-20}
case $FUZZ_SECONDS in
'' | *[!0-9]*) die "FUZZ_SECONDS must be a number of seconds, not '$FUZZ_SECONDS'" ;;
esac

load_env
out=$TOP/build/host
mkdir -p "$out/logic" "$out/corpus" "$out/found"

# cargo writes Cargo.lock beside Cargo.toml. There it is made anew by each run, from the crates that
# the build root has; in the source tree it would be one more thing to ignore and to grow old.
rm -f "$out/logic/Cargo.lock"
for name in Cargo.toml src tests fuzz; do
	ln -sfn "$TOP/rust/logic/$name" "$out/logic/$name"
done
cd "$out/logic"

# Debian's packages of crates instead of a registry.
mkdir -p "$out/cargo"
cat >"$out/cargo/config.toml" <<END
[source.crates-io]
replace-with = "debian"
[source.debian]
directory = "/usr/share/cargo/registry"
[net]
offline = true
END

# cargo [VARIABLE=VALUE...] ARG...: in the build root.
cargo() {
	local environment=()
	while [[ $1 == *=* ]]; do
		environment+=("$1")
		shift
	done
	"$TOP/scripts/inroot" env CARGO_HOME="$out/cargo" CARGO_TARGET_DIR="$out/target" \
		"${environment[@]}" cargo "$@"
}

build_fuzzer() {
	local flag flags=(-Cpanic=abort -Cpasses=sancov-module)
	cargo run --quiet --package logic-fuzz --bin seeds -- "$out/seeds" || return

	# What rustc can do by itself: the coverage that libFuzzer steers by. The program is clang's
	# and libFuzzer's, which has main().
	for flag in level=4 inline-8bit-counters pc-table trace-compares; do
		flags+=("-Cllvm-args=-sanitizer-coverage-$flag")
	done
	cargo CARGO_TARGET_DIR="$out/target-fuzz" RUSTFLAGS="${flags[*]}" \
		rustc --package logic-fuzz --lib --crate-type staticlib || return
	"$TOP/scripts/inroot" clang -fsanitize=fuzzer \
		"$out/target-fuzz/debug/liblogic_fuzz.a" -o "$out/fuzz"
}

passed=0 failed=0 skipped=0
fuzzer=

# The fuzzer has one core, the other is left to cargo.
if [ "$FUZZ_SECONDS" -gt 0 ]; then
	if build_fuzzer; then
		RUST_BACKTRACE=0 "$TOP/scripts/inroot" "$out/fuzz" -max_total_time="$FUZZ_SECONDS" -max_len=600 \
			-timeout=5 -print_final_stats=1 -artifact_prefix="$out/found/" \
			"$out/corpus" "$out/seeds" "$out/found" >"$out/fuzz.log" 2>&1 </dev/null &
		fuzzer=$!
		trap 'kill "$fuzzer" 2>/dev/null || :' EXIT
		trap 'exit 130' INT TERM HUP
	else
		echo "fuzzing the parsers ... FAILED: the fuzzer does not build"
		failed=$((failed + 1))
	fi
else
	echo "fuzzing the parsers ... skipped: FUZZ_SECONDS=0"
	skipped=$((skipped + 1))
fi

cargo_status=0
cargo test --workspace --no-fail-fast 2>&1 | tee "$out/cargo.log" || cargo_status=$?
read -r ok bad ignored < <(awk '/^test result: / { ok += $4; bad += $6; ignored += $8 }
	END { print ok + 0, bad + 0, ignored + 0 }' "$out/cargo.log")
# Does not compile, or died: there is no count then, or not of all.
[ "$cargo_status" = 0 ] || [ "$bad" -gt 0 ] || bad=1
[ "$((ok + bad))" -gt 0 ] || bad=1
passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + ignored))

if [ -n "$fuzzer" ]; then
	fuzz_status=0
	wait "$fuzzer" || fuzz_status=$?
	trap - EXIT
	runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$out/fuzz.log")
	coverage=$(sed -n 's/.*\bDONE *cov: \([0-9]*\).*/\1/p' "$out/fuzz.log")
	if [ "$fuzz_status" != 0 ]; then
		grep -vE '^ *#[0-9]+' "$out/fuzz.log" | tail -n 40 || :
		echo "fuzzing the parsers ... FAILED; the input is in build/host/found, to be tried by" \
			"'scripts/inroot build/host/fuzz build/host/found/...'"
		failed=$((failed + 1))
	elif [ "${coverage:-0}" = 0 ]; then
		tail -n 20 "$out/fuzz.log"
		echo "fuzzing the parsers ... FAILED: no coverage, so it was blind: did rustc instrument?"
		failed=$((failed + 1))
	else
		echo "fuzzing the parsers ... ok: $runs inputs in $FUZZ_SECONDS s, $coverage branches"
		passed=$((passed + 1))
	fi
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
