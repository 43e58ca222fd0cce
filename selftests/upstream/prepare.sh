#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# prepare.sh: the upstream tests, from the source packages, for the guest. Prints their directory:
#
#	kselftest/  the kernel's selftests, from the source that set-up unpacked, helpers compiled
#	nftables/   the source of the guest's nftables, with its tests: by "apt-get source" in the
#		    build root, or what NFTABLES_SRC=DIR holds. Where there is neither (not every
#		    mirror has source packages), nftables.missing says why.
#
# Nothing in there is changed. In the cache, under a name with a checksum of the versions.

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"
load_env

TARGETS=(net/netfilter net/mptcp)
# What the scripts of those read besides, and scripts that need no helper.
SHARED=(kselftest net/lib.sh net/lib/sh net/xfrm_policy.sh net/xfrm_state.sh)
SELFTESTS=$NFRUST_KSRC/tools/testing/selftests

# The version that the image has: of another one there may be a tree, too.
NFTABLES=$("$TOP/scripts/inroot" debugfs -R 'cat /var/lib/dpkg/status' "$NFRUST_GUEST" 2>/dev/null |
	awk '$1 == "Package:" { name = $2 } name == "nftables" && $1 == "Version:" { print $2 }')
[ -n "$NFTABLES" ] || die "no nftables in $NFRUST_GUEST"
DIR=$CACHE/upstream-$({
	cat "${NFRUST_KDIR%/obj}/version" "${BASH_SOURCE[0]}"
	echo "$NFRUST_CC $NFTABLES ${NFTABLES_SRC:-}"
} | key)
LOG=$CACHE/log/upstream.log

kernel() {
	local target
	rm -rf "$DIR"
	mkdir -p "$DIR/tests/kselftest"
	tar -C "$SELFTESTS" -c "${SHARED[@]}" "${TARGETS[@]}" | tar -C "$DIR/tests/kselftest" -x
	"$TOP/scripts/inroot" make -s -C "$NFRUST_KSRC" O="$DIR/headers" headers_install \
		INSTALL_HDR_PATH="$DIR/headers/usr"
	for target in "${TARGETS[@]}"; do
		"$TOP/scripts/inroot" make -C "$SELFTESTS/$target" CC="$NFRUST_CC" \
			OUTPUT="$DIR/tests/kselftest/$target" \
			KHDR_INCLUDES="-isystem $DIR/headers/usr/include"
	done
	rm -rf "$DIR/headers"
}

nftables() {
	local new=$DIR/nftables.new
	rm -rf "$new" "$DIR/tests/nftables.missing"
	mkdir -p "$new/lists/partial" "$new/source"
	if [ -n "${NFTABLES_SRC:-}" ]; then
		cp -a "$NFTABLES_SRC/." "$new/source/"
	else
		# The build root knows binary packages only. This leaves it as it is.
		# shellcheck disable=SC2016 # the inner shell expands it
		"$TOP/scripts/inroot" bash -euc '
			cd "$1"
			sed -n "s/^deb /deb-src /p" /etc/apt/sources.list >sources.list
			apt="apt-get -q -o Dir::Etc::SourceList=$1/sources.list
				-o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=$1/lists
				-o APT::Sandbox::User=root"
			$apt update
			$apt source --download-only "nftables=$2"
			tar -C source --strip-components=1 -xf nftables_*.orig.tar.*[z2]
		' nftables "$new" "$NFTABLES" || {
			echo "no source package nftables $NFTABLES on the mirror (NFTABLES_SRC=)" \
				>"$DIR/tests/nftables.missing"
			rm -rf "$new"
			return
		}
	fi
	mv "$new/source" "$DIR/tests/nftables"
	rm -rf "$new"
}

mkdir -p "$CACHE/log"
if [ ! -e "$DIR/kernel" ]; then
	kernel >"$LOG" 2>&1 || { tail -n 15 "$LOG" >&2; die "the helpers do not build: see $LOG"; }
	touch "$DIR/kernel"
fi
# What was missing may be there the next time.
[ -d "$DIR/tests/nftables" ] || nftables >>"$LOG" 2>&1
for old in "$CACHE"/upstream-*/; do
	[ "${old%/}" = "$DIR" ] || rm -rf "$old"
done
echo "$DIR/tests"
