#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh: only-rust timeout=240
#
# Loading and unloading: who was there first stays, states keep the modules loaded, and once they
# are gone the modules go, under traffic too.

# shellcheck source=selftests/esp/lib.bash
source "$(dirname "$0")/lib.bash"

plan 14
restore()
{
	rmmod esp4_offload esp6_offload 2>/dev/null
	modprobe -a esp4_offload_rust esp6_offload_rust
}
cleanup_hooks+=(restore)

# without NAME COMMAND...: what the kernel logged meanwhile has this in it
logs()
{
	local text=$1 marker=nfrust-$RANDOM$RANDOM
	shift

	echo $marker >/dev/kmsg
	"$@"
	dmesg | sed -n "/$marker/,\$p" | grep -qF "$text"
}

refused()
{
	! insmod "/lib/modules/$(uname -r)/updates/$1.ko" 2>/dev/null
}

for version in 4 6; do
	name=esp${version}_offload
	check "IPv$version: C's module cannot be loaded over ours by modprobe" \
		eval "! modprobe -q $name"
	check "IPv$version: ... and the alias for the first state brings ours" eval \
		"modprobe xfrm-offload-$([ $version = 4 ] && echo 2 || echo 10)-50 && [ ! -e /sys/module/$name ]"
	slowwait 10 rmmod "${name}_rust" || ktap_exit_fail_msg "something holds ${name}_rust"
	# The file for modprobe keeps C's away from modprobe; insmod does not ask it.
	insmod "$(modinfo -n $name)"
	check "IPv$version: ours does not load while C's is there" refused ${name}_rust
	check "IPv$version: ... and says why" logs "ESP is served by $name" refused ${name}_rust
	rmmod $name
	modprobe ${name}_rust
	check "IPv$version: it loads when C's is gone" [ -e /sys/module/${name}_rust ]
done

setup_espdev 2
# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$server" <<-'EOT'
	import sys
	import threading
	from esp import *

	w = World(*sys.argv[1:])

	def loaded(name):
	    return os.path.exists(f"/sys/module/{name}/refcnt")

	def run(*words):
	    return subprocess.run(words, stdout=subprocess.DEVNULL,
	                          stderr=subprocess.DEVNULL).returncode == 0

	x, y = w.state(version=4), w.state(version=6)
	w.case("a state of each", x.good(1) + y.good(1), got=(1, 1))
	stays = not run("rmmod", "esp4_offload_rust") and not run("rmmod", "esp6_offload_rust")
	print(f"{stays}|True|states keep the modules loaded")

	stop = threading.Event()
	def spray():
	    n = 0
	    while not stop.is_set():
	        n += 1
	        w.send(x.good(n) + y.good(n))
	thread = threading.Thread(target=spray)
	thread.start()
	cycles = 0
	try:
	    for _ in range(10):
	        w.netlink.do(w.netlink.FLUSH_STATES)
	        # States are freed a grace period later.
	        end = time.monotonic() + 10
	        for name in "esp4_offload_rust", "esp6_offload_rust":
	            while not run("rmmod", name) and time.monotonic() < end:
	                # What a socket has not read keeps the state that it came through, and what it
	                # has read does so until its CPU receives again.
	                w.received()
	                for cpu in range(os.cpu_count()):
	                    run("taskset", "-c", str(cpu), "ping", "-q", "-c", "1", "127.0.0.1")
	                time.sleep(0.05)
	        gone = not loaded("esp4_offload_rust") and not loaded("esp6_offload_rust")
	        run("modprobe", "-a", "esp4_offload_rust", "esp6_offload_rust")
	        back = loaded("esp4_offload_rust") and loaded("esp6_offload_rust")
	        if not gone or not back:
	            break
	        x, y = w.state(version=4), w.state(version=6)
	        time.sleep(0.05)
	        cycles += 1
	finally:
	    stop.set()
	    thread.join()
	print(f"{cycles} cycles|10 cycles|flushed, unloaded and loaded under traffic")
EOT
results
in_charge
finish
