#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh: timeout=300
#
# TCP and UDP through states of each kind, both ways, with what the devices take over and what they
# do not: who cuts packets into segments, who fills in checksums, who encrypts.

# shellcheck source=selftests/esp/lib.bash
source "$(dirname "$0")/lib.bash"

plan 121
setup_espdev 4
for port in espdev0 espdev1; do
	knob $port spread 1
done

# shellcheck disable=SC2154 # set by setup_ns
traffic "$IMPL" "$client" "$server" <<-'EOT'
	import sys
	from stream import *

	impl = sys.argv[1]
	pair = Pair(*sys.argv[2:])
	modes = [("transport", None), ("tunnel", 4), ("tunnel", 6), ("beet", 4), ("beet", 6)]

	def talk(name, version, mode, inner, hardware, **options):
	    """One case: TCP, UDP, and no error that is counted; and the device has done, or has not,
	    what it is to do."""
	    inner = inner or version
	    pair.protect(version=version, mode=mode, inner=inner, **options)
	    before, nic = pair.errors(), pair.ports[1].counters()
	    arrived = pair.ports[2].counter("rx_done")
	    # The kernel drops what stands for several packets in BEET mode before a device or GSO sees
	    # it (SKB_BAD_GSO), so that TCP does not get through.
	    tcp = "-" if mode == "beet" else pair.tcp(inner)
	    result = f"tcp {tcp}, udp {pair.udp(inner)}"
	    errors = moved(before, pair.errors())
	    did = moved(nic, pair.ports[1].counters())
	    done = pair.ports[2].counter("rx_done") - arrived
	    what = f"{'cut ' if 'tx_gso' in did else ''}{'encrypted ' if 'tx_esp' in did else ''}" \
	        f"{'decrypted ' if done else ''}{'bad ' if 'tx_bad' in did else ''}"
	    result += f", {errors or 'no errors'}, {what}"
	    if mode == "beet":
	        hardware = hardware.replace("cut ", "")
	    tcp = "-" if mode == "beet" else "ok"
	    print(f"{result}|tcp {tcp}, udp ok, no errors, {hardware}|{name}")

	for device, off in DEVICES.items():
	    set_features(pair.ends[1], off)
	    cuts = "cut " if not off else ""
	    for version in 4, 6:
	        for mode, inner in modes:
	            for in_udp in False, True:
	                name = f"{device}: IPv{version}{' in UDP' if in_udp else ''}, {mode}" + (
	                    f", IPv{inner} inside" if inner else "")
	                # C writes UDP's header to wherever a variable that nobody set points to.
	                if impl == "c" and in_udp and version == 6:
	                    print(f"skip|C would write to a stray address|{name}")
	                    continue
	                talk(name, version, mode, inner, f"{cuts}encrypted decrypted ", in_udp=in_udp)
	set_features(pair.ends[1], ())

	# No state for the device: C encrypts what GSO cut.
	for version in 4, 6:
	    for mode, inner in modes:
	        name = f"IPv{version}, {mode}" + (f", IPv{inner} inside" if inner else "")
	        for algorithm, cipher in (GCM, "GCM"), (CBC, "CBC"):
	            talk(f"software, {cipher}: {name}", version, mode, inner, "", offload=(),
	                 algorithm=algorithm)
	        for in_udp in (True,):
	            talk(f"software, in UDP: {name}", version, mode, inner, "", offload=(),
	                 in_udp=in_udp)
	# The device has the state, and does not encrypt any more.
	set_features(pair.ends[1], ("esp-hw-offload", "esp-tx-csum-hw-offload"))
	for version in 4, 6:
	    for mode, inner in modes:
	        name = f"IPv{version}, {mode}" + (f", IPv{inner} inside" if inner else "")
	        talk(f"the device stopped encrypting: {name}", version, mode, inner, "decrypted ",
	             algorithm=NULL)
EOT
results
in_charge
finish
