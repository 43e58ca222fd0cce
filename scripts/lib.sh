# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the scripts share: where things are, how they speak, how they fail.
# To be sourced by bash with `set -euo pipefail` in force.

# shellcheck disable=SC2034 # for those who source this
TOP=$(cd -P "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${NFRUST_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/nfrust}
case $CACHE in
/*) ;;
*) CACHE=$PWD/$CACHE ;;
esac
CACHE=$(realpath -m "$CACHE")

# One line, prefixed with the minutes and seconds since the script began.
say() {
	printf '[%2d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"
}

die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

have() {
	command -v "$1" >/dev/null 2>&1
}

# The first 12 hex digits of the checksum of stdin: part of file names, so that
# what depends on other input gets another name instead of being mistaken for it.
key() {
	sha256sum | cut -c1-12
}

# A package list file without its comments, one package a line.
package_list() {
	sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$1"
}

# What set-up wrote last, as variables NFRUST_*; see scripts/setup.sh.
load_env() {
	[ -r "$CACHE/env" ] || die "not set up yet: run 'make setup' (as root) first"
	# shellcheck source=/dev/null
	. "$CACHE/env"
}
