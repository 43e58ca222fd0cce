#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# demo.sh: what `make demo` does after the modules are built. Boots the stock kernel, has the rule
# sets in samples/ served by Rust and then by C, for real sessions, and measures what both cost.
# Every claim on the screen was checked; the first that does not hold ends the demo with status 1.

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

load_env
unset CMD KERNEL APPEND SHARE SHARE_RW CONSOLE ICOUNT
bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
	bold=$'\e[1m' plain=$'\e[0m'
fi

failed() {
	printf '\nThe demo FAILED: %s\n' "$1"
	exit 1
}

cat <<-EOT

	${bold}nfrust: the nftables expression "socket", in Rust and in C${plain}
	Debian's kernel $NFRUST_KREL as it is, in QEMU. It boots in some seconds.
EOT

TIMEOUT=180 "$TOP/selftests/vmtest.sh" \
	"BOLD='$bold' PLAIN='$plain' bash /src/selftests/demo/guest.sh" ||
	failed "in the guest, see above"

cat <<-EOT

	${bold}5. What it costs${plain}
	   Instructions a packet, in one more boot, whose clock counts them: C in one rule, Rust
	   in another, the path without the rule subtracted. A large part is the search of the
	   kernel's socket table, which is the same for both.

EOT
out=$TOP/build/bench/demo
BENCH_OUT=$out "$TOP/selftests/bench/bench.sh" demo >"$out.log" 2>&1 || {
	cat "$out.log"
	failed "the measurement"
}
"$TOP/scripts/inroot" python3 "$TOP/selftests/bench/report.py" --bars "$out/results.json" ||
	failed "Rust takes more instructions than C here"

cat <<-EOT

	${bold}All of that held.${plain} $((SECONDS / 60)) min $((SECONDS % 60)) s.
	   make bench               the whole table: all keys, TCP, ICMP errors, IPv6, conntrack
	   make check               the tests
	   make vm                  a shell in that machine; the checkout is in /src
	   make modules KDIR=tree   the modules for a kernel of your own
EOT
