#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The KUnit suites of nfrust_kunit.ko, on a kernel with KUnit. Cases are the suites' own; what the
# kernel says of them beyond that is in its log.

dir=$(dirname "$(readlink -e "$0")")
# shellcheck source=selftests/lib.sh
source "$dir/../lib.sh"

suites=/sys/kernel/debug/kunit
if [ ! -d $suites ] || ! modinfo nfrust_kunit >/dev/null 2>&1; then
	ktap_print_header
	ktap_skip_all "no KUnit"
	exit "$KSFT_SKIP"
fi

# The chain types are tested, so there must be none; and namespaces to have state in.
modprobe -r nft_chain_nat_rust nft_chain_nat
# shellcheck disable=SC2034
setup_ns first second || exit "$?"
modprobe nfrust_kunit

cases=$(for suite in "$suites"/nfrust_*; do
	echo y >"$suite/run"
	sed -nE 's/^ +((not )?ok) [0-9]+ (.*)/'"${suite##*/}"' \1 \3/p' "$suite/results"
done)
ktap_print_header
ktap_set_plan "$(($(wc -l <<<"$cases") + 2))"
while read -r suite result name; do
	case $result in
	ok)	pass "$suite: $name" ;;
	*)	cat "$suites/$suite/results"
		fail "$suite: ${name#ok }" ;;
	esac
done <<<"$cases"
check "there are three suites" [ "$(cut -d ' ' -f 1 <<<"$cases" | sort -u | wc -l)" = 3 ]
check "the module can go" modprobe -r nfrust_kunit
finish
