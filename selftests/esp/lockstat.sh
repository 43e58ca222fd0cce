#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh: only-rust timeout=300
#
# How often the lock of a state is taken for a packet, by the kernel's own count (/proc/lock_stat):
# with C's modules, with Rust's by packets and by bursts, in one boot.

# shellcheck source=selftests/esp/lib.bash
source "$(dirname "$0")/lib.bash"

if [ ! -e /proc/lock_stat ]; then
	ktap_skip_all "this kernel does not count how often locks are taken"
	exit "$KSFT_SKIP"
fi
plan 7
restore()
{
	rmmod esp4_offload esp6_offload 2>/dev/null
	modprobe -a esp4_offload_rust esp6_offload_rust
}
cleanup_hooks+=(restore)
setup_espdev 1
rules "$server" <<-EOT
	table inet count {
		counter passed { }
		chain input {
			type filter hook input priority 0
			udp dport 7000 counter name passed drop
		}
	}
EOT

# measure NAME: into taken4 and taken6, how often the lock was taken for 100 packets
measure()
{
	# shellcheck disable=SC2154 # set by setup_ns
	traffic "$client" "$server" <<-'EOT'
		import re
		import sys
		from esp import *

		COUNT = 1920

		w = World(*sys.argv[1:])

		def passed():
		    with netns(w.server):
		        return counters()["passed"]

		def taken():
		    """Of all classes of that name: the eighth figure behind it"""
		    total = 0
		    with open("/proc/lock_stat") as stat:
		        for line in stat:
		            if re.match(r"\s*&x->lock([#/]\d+)*:", line):
		                total += int(line.split(":")[1].split()[7])
		    return total

		with open("/proc/sys/kernel/lock_stat", "w") as switch:
		    switch.write("1\n")
		for version in 4, 6:
		    x = w.state(version=version, window=4096, esn=True)
		    w.port.frame(w.wire.frame(x.good(1)[0]))
		    w.port.knob("inject_burst", 64)
		    before, count = passed(), taken()
		    w.port.knob("inject", COUNT)
		    end = time.monotonic() + 10
		    while passed() - before < COUNT and time.monotonic() < end:
		        time.sleep(0.05)
		    count = taken() - count
		    print(version, passed() - before == COUNT, round(count * 100 / COUNT))
		    x.delete()
	EOT
	local version all taken

	while read -r version all taken; do
		[ "$all" = True ] || taken=none
		msg "$1, IPv$version: the lock is taken $taken times for 100 packets"
		declare -g "taken$version=$taken"
	done <"$tmp/traffic"
}

# swap MODULE... : these instead of the others
swap()
{
	local name

	free_packets
	for name in esp4_offload esp6_offload; do
		[ ! -e "/sys/module/$name" ] || slowwait 10 rmmod $name
		[ ! -e "/sys/module/${name}_rust" ] || slowwait 10 rmmod ${name}_rust
	done
	for name; do
		# The file for modprobe keeps C's away.
		case $name in
		*_rust)	modprobe "$name" ;;
		*)	insmod "$(modinfo -n "$name")" ;;
		esac || ktap_exit_fail_msg "cannot load $name"
	done
}

per_burst 0
measure "Rust, by packets"
packets=([4]=$taken4 [6]=$taken6)
per_burst 1
measure "Rust, by bursts of 64"
bursts=([4]=$taken4 [6]=$taken6)
swap esp4_offload esp6_offload
measure "C"
c=([4]=$taken4 [6]=$taken6)
swap esp4_offload_rust esp6_offload_rust

# Something else may take it now and then, such as the state's timer.
for version in 4 6; do
	check "IPv$version: C takes it for each packet" \
		[ "${c[version]}" -ge 100 ]
	check "IPv$version: Rust by packets does not take it more often" \
		[ "${packets[version]}" -le $((c[version] + 1)) ]
	check "IPv$version: Rust by bursts takes it for at most one of 16 packets" \
		[ "${bursts[version]}" -le 6 ]
done
in_charge
finish
