#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# lint.sh [CHECK...]: rustfmt, Clippy, checkpatch, shellcheck, Python, the inventory of unsafe.
# lint.sh inventory-update: write the inventory, where lint.sh says that it is out of date.
#
# All of what is in the work tree, committed or not. Of commit messages those that are not
# published yet: LINT_COMMITS=RANGE instead of @{upstream}..HEAD, or the last one's without an
# upstream.

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

load_env
cd "$TOP"
INVENTORY=Documentation/unsafe-inventory.rst

inroot() {
	"$TOP/scripts/inroot" "$@"
}

# Files of the project by what they are: the name's ending, or for a script without one its first
# line. One for each line; no name here has white space.
mapfile -t ALL < <(git ls-files --cached --others --exclude-standard 2>/dev/null || :)
[ ${#ALL[@]} -gt 0 ] || mapfile -t ALL < <(find . -name build -prune -o -type f -print | cut -c3-)
RUST=() SHELL_FILES=() PYTHON=() C=() OTHER=()
for file in "${ALL[@]}"; do
	[ -f "$file" ] || continue
	case $file in
	*.rs)			RUST+=("$file") ;;
	*.sh)			SHELL_FILES+=("$file") ;;
	*.py)			PYTHON+=("$file") ;;
	*.c|*.h)		C+=("$file") ;;
	*.rst|*.txt|*.config|*Makefile|*Kbuild|*.toml) OTHER+=("$file") ;;
	*.*|*/corpus/*)		;;
	*)	case $(head -c 64 "$file" | head -n 1 | tr -d '\0') in
		'#!/bin/bash'|'#!/bin/sh'|'#!/usr/bin/env bash'|'#!/bin/busybox sh')
			SHELL_FILES+=("$file") ;;
		'#!/usr/bin/env python3'|'#!/usr/bin/python3')
			PYTHON+=("$file") ;;
		esac ;;
	esac
done

# ---- checks ----

check_rustfmt() {
	inroot rustfmt --check --edition 2021 "${RUST[@]}"
}

# Into a directory of its own: the objects of another compiler would be in the way of the next
# build. All warnings are errors, of C (W=1) and Rust.
check_clippy() {
	local log=$TOP/build/clippy/log flags=-Dwarnings lint
	for lint in undocumented_unsafe_blocks multiple_unsafe_ops_per_block; do
		flags+=" -Dclippy::$lint"
	done
	mkdir -p "${log%/*}"
	if ! OUTPUT=$TOP/build/clippy KERNEL=stock KDIR='' scripts/modules.sh modules \
	     CLIPPY=1 W=1 KCFLAGS=-Werror KRUSTFLAGS="$flags" >"$log" 2>&1; then
		grep -vE '^make|^  [A-Z]+ |directory' "$log"
		return 1
	fi
}

checkpatch() {
	inroot perl "$NFRUST_KSRC/scripts/checkpatch.pl" --no-tree --strict --terse --show-types \
		--no-summary --quiet --max-line-length=100 "$@" 2>/dev/null
}

# Off: a script's own name in its usage, macros that take the name of a field, _Static_assert; and
# in scripts, where words are names and arguments and no prose, spelling and repetition, and the
# length of lines: a rule or a packet that is broken to fit reads worse than one that is not.
check_checkpatch() {
	local rc=0 off=EMBEDDED_FILENAME,MACRO_ARG_REUSE,MACRO_ARG_PRECEDENCE,CAMELCASE
	checkpatch --ignore "$off" -f "${RUST[@]}" "${C[@]}" "${OTHER[@]}" || rc=1
	off+=,REPEATED_WORD,TYPO_SPELLING,LONG_LINE,LONG_LINE_STRING,LONG_LINE_COMMENT
	checkpatch --ignore "$off" -f "${SHELL_FILES[@]}" "${PYTHON[@]}" || rc=1
	rm -f .checkpatch-camelcase.*
	return $rc
}

check_commits() {
	local range=${LINT_COMMITS:-} dir=$TOP/build/patches types rc=0
	git rev-parse -q --verify HEAD >/dev/null 2>&1 || return 4
	if [ -z "$range" ]; then
		range=HEAD~1..HEAD
		git rev-parse -q --verify '@{upstream}' >/dev/null 2>&1 && range='@{upstream}..HEAD'
		git rev-parse -q --verify HEAD~1 >/dev/null 2>&1 || return 4
	fi
	rm -rf "$dir"
	mkdir -p "$dir"
	git format-patch -q -o "$dir" "$range"
	if compgen -G "$dir/*.patch" >/dev/null; then
		types=COMMIT_MESSAGE,COMMIT_LOG_LONG_LINE,COMMIT_COMMENT_SYMBOL,GIT_COMMIT_ID
		types+=,BAD_FIXES_TAG,EMAIL_SUBJECT
		checkpatch --types "$types" "$dir"/*.patch || rc=1
		if git log --no-merges --format=%s "$range" |
		   grep -vE '^[A-Za-z0-9_./,{} -]+: .'; then
			echo "a commit's subject begins with what it is about: 'subsystem: what'"
			rc=1
		fi
	fi
	rm -rf "$dir"
	return $rc
}

check_shellcheck() {
	inroot shellcheck --external-sources "${SHELL_FILES[@]}"
}

# The tests' vocabulary (net.py and the like) is imported whole, which pyflakes cannot look into.
check_python() {
	# shellcheck disable=SC2016 # the inner shell expands it
	inroot bash -euc '
		export PYTHONPYCACHEPREFIX=$(mktemp -d)
		trap "rm -rf \"\$PYTHONPYCACHEPREFIX\"" EXIT
		python3 -m py_compile "$@"
		! python3 -m pyflakes "$@" | grep -v "star imports\|unable to detect undefined names" |
			grep .' python "${PYTHON[@]}"
}

# An include twice is one too many; what is not ASCII is a slip (an editor's quote, a blank).
check_text() {
	local rc=0
	inroot perl "$NFRUST_KSRC/scripts/checkincludes.pl" /dev/null "${C[@]}" |
		grep -v '^No duplicate' && rc=1
	grep -nP '[^\x00-\x7F]' /dev/null "${RUST[@]}" "${C[@]}" "${SHELL_FILES[@]}" \
		"${PYTHON[@]}" && rc=1
	return $rc
}

inventory() {
	inroot python3 scripts/unsafe-inventory.py .
}

check_inventory() {
	local rc=0
	mkdir -p build
	inventory >build/unsafe-inventory.rst || rc=1
	if ! cmp -s build/unsafe-inventory.rst "$INVENTORY"; then
		echo "$INVENTORY is out of date: run 'scripts/lint.sh inventory-update'"
		rc=1
	fi
	return $rc
}

# ---- run ----

if [ "${1:-}" = inventory-update ]; then
	mkdir -p build
	inventory >build/unsafe-inventory.rst || :
	mv build/unsafe-inventory.rst "$INVENTORY"
	exit 0
fi

checks=("$@")
[ $# -gt 0 ] || checks=(rustfmt clippy checkpatch commits shellcheck python text inventory)
passed=0 failed=0 skipped=0
mkdir -p build
for check in "${checks[@]}"; do
	declare -F "check_$check" >/dev/null || die "no check of that name: $check"
	start=$SECONDS
	rc=0
	"check_$check" >build/lint.log 2>&1 || rc=$?
	case $rc in
	0)	passed=$((passed + 1))
		say "ok $check ($((SECONDS - start)) s)" ;;
	4)	skipped=$((skipped + 1))
		say "SKIP $check" ;;
	*)	failed=$((failed + 1))
		say "FAILED $check"
		sed 's/^/    /' build/lint.log ;;
	esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
