#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# guest.sh [PATTERN]: run the upstream tests of the list "tests" (those whose names match) in the
# guest, for one implementation: IMPL=c or IMPL=rust.
#
# Prints what the tests print behind "# ", and for each one a line
#	result <suite> <test> <pass|fail|skip|timeout> <seconds> <evaluations> <reason>
# where evaluations says how often Rust looked at a packet meanwhile, in the socket expression, in
# the NAT hooks and in ESP.

set -u

dir=$(dirname "$(readlink -e "$0")")
pattern=${1:-.}

# They write into their directories, and 9p is slow.
work=/tmp/upstream
mkdir -p $work
cp -a /share/. $work/

mkdir -p /run/modprobe.d
case $IMPL in
c)	echo "blacklist nft_socket_rust" >/run/modprobe.d/nfrust-test.conf
	modules=(nft_socket nft_chain_nat esp4_offload esp6_offload)
	others=("${modules[@]/%/_rust}") ;;
rust)	cat "$dir"/../../samples/modprobe.d/*.conf >/run/modprobe.d/nfrust-test.conf
	others=(nft_socket nft_chain_nat esp4_offload esp6_offload)
	modules=("${others[@]/%/_rust}") ;;
*)	echo "Bail out! IMPL=$IMPL: neither c nor rust"; exit 1 ;;
esac
modprobe -a "${modules[@]}" || { echo "Bail out! cannot load the modules"; exit 1; }

evaluations()
{
	local file _ value sum=0

	for file in /sys/kernel/debug/*_rust/counters; do
		[ -r "$file" ] || continue
		while read -r _ value; do
			sum=$((sum + value))
		done <"$file"
	done
	echo $sum
}

# What a test says last about why it was skipped or failed.
reason()
{
	grep -aiE "$1" "$work/log" | tail -n1 | tr -d '\r' | cut -c1-100
}

# shellcheck disable=SC2317 # these three are called by the suite's name
run_kernel()
{
	cd "$work/kselftest/${1%/*}" || return 1
	case $1 in
	*/mptcp_connect.sh)
		# Without the delays, losses and sizes that it chooses at random.
		BASH_ENV=$dir/mptcp-transparent.bash timeout -k 10 "$2" \
			./mptcp_connect.sh -d 5 -l 0.01% -r 0 -f 100000 -e tso ;;
	*)	timeout -k 10 "$2" "./${1##*/}" ;;
	esac
}

# All tests of a directory in one go: the runner finds out first what nft and kernel can do.
# shellcheck disable=SC2317
run_nft_shell()
{
	cd "$work/nftables/tests/shell" || return 1
	NFT=/usr/sbin/nft NFT_TEST_JOBS=1 timeout -k 10 "$2" ./run-tests.sh "testcases/$1"
}

# Its exit status does not tell in all versions. Newer ones check JSON against a schema unless told
# not to, with a Python package that the guest has not got.
# shellcheck disable=SC2317
run_nft_py()
{
	local options=(--host)

	cd "$work/nftables" || return 1
	! python3 tests/py/nft-test.py --help | grep -q -e --no-schema || options+=(--no-schema)
	timeout -k 10 "$2" python3 tests/py/nft-test.py "${options[@]}" "$1" || return
	grep -qE '[1-9][0-9]* unit tests, 0 error' "$work/log"
}

# result VERDICT WHY: the line for what just ran
result()
{
	local verdict=$1 why=$2 other

	for other in "${others[@]}"; do
		if [ -e "/sys/module/$other" ]; then
			why="$other came in; $why"
			verdict=fail
		fi
	done
	echo "result $suite $name $verdict $seconds $(($(evaluations) - before)) $why"
}

# The results of nftables' runner, a line for each of its tests, in the order of their names.
results_nft_shell()
{
	local label file

	sed -nE 's/^[IW]: \[([A-Z ]+)\] +([0-9]+\/[0-9]+ +)?([^ :]+).*/\3 \1/p' "$work/log" | sort |
	while read -r file label; do
		seconds=-
		name=${file#*testcases/}
		case $label in
		OK)		result pass "" ;;
		SKIPPED)	result skip "$label" ;;
		EXECUTING)	;;
		*)		result fail "$label" ;;
		esac
	done
}

while read -r suite name limit _; do
	case $suite in ''|'#'*) continue ;; esac
	[[ $suite/$name =~ $pattern ]] || continue
	[ "$limit" != - ] || continue
	if [[ $suite = nft-* ]] && [ -e $work/nftables.missing ]; then
		seconds=0 before=$(evaluations)
		result skip "$(cat $work/nftables.missing)"
		continue
	fi
	echo "# --- $suite $name"
	echo "upstream: $suite $name" >/dev/kmsg
	before=$(evaluations)
	start=$SECONDS
	"run_${suite//-/_}" "$name" "$limit" >"$work/log" 2>&1 </dev/null
	status=$?
	seconds=$((SECONDS - start))
	sed 's/^/# /' "$work/log"
	case $status in
	124|137)
		result timeout "no end after $limit s" ;;
	*)	case $suite-$status in
		nft-shell-*)	results_nft_shell ;;
		*-0)		result pass "" ;;
		*-4|*-77)	result skip "$(reason 'skip')" ;;
		*)		result fail "$(reason 'fail|error|not ok')" ;;
		esac ;;
	esac
	ip -all netns delete 2>/dev/null
	nft flush ruleset
done <"$dir/tests"
exit 0
