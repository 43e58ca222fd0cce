#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# TCP at full speed through an offloaded tunnel, with and without what merges and cuts packets: GRO
# where they arrive, GSO where they are sent.

# shellcheck source=selftests/esp/lib.bash
source "$(dirname "$0")/lib.bash"

plan 9
setup_espdev 2
patient_tcp
for port in espdev0 espdev1; do
	knob $port spread 1
done

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$server" <<-'EOT'
	import sys
	from stream import *

	SIZE = 2 << 20
	GSO = "gso", "tso", "tx-esp-segmentation"

	pair = Pair(*sys.argv[1:])

	def iperf(version):
	    """What iperf3 says of a transfer from the client to the server. Who is called sends: the
	    caller says when it is over, and does so when it has received all."""
	    caller, called = [("nsenter", f"--net=/run/netns/{pair.ends[host]}") for host in (2, 1)]
	    server = subprocess.Popen((*called, "iperf3", "-s", "-1"), stdout=subprocess.DEVNULL)
	    end = time.monotonic() + 10
	    while not subprocess.run((*called, "ss", "-Htln", "sport = :5201"),
	                             stdout=subprocess.PIPE).stdout and time.monotonic() < end:
	        time.sleep(0.1)
	    said = subprocess.run((*caller, "iperf3", "-c", addr(version, 1), "-R", "-n", str(SIZE),
	                           "-J"), stdout=subprocess.PIPE, timeout=60).stdout
	    server.wait(10)
	    return json.loads(said)["end"]

	def received(version):
	    """How many packets IP has received at the server"""
	    with netns(pair.ends[2]):
	        if version == 6:
	            with open("/proc/thread-self/net/snmp6") as stat:
	                return int(dict(line.split() for line in stat)["Ip6InReceives"])
	        with open("/proc/thread-self/net/snmp") as stat:
	            names, values = (line.split() for line in stat if line.startswith("Ip:"))
	            return int(values[names.index("InReceives")])

	def features(ns, on, *names):
	    words = [word for name in names for word in (name, "on" if on else "off")]
	    with netns(ns):
	        subprocess.run(["ethtool", "-K", "eth0", *words], check=True, stdout=subprocess.DEVNULL)
	        # TCP makes packets of several segments whether the device says so or not.
	        if "gso" in names:
	            subprocess.run(["ip", "link", "set", "eth0", "gso_max_segs", "65535" if on else "1"],
	                           check=True)

	for version in 4, 6:
	    for gso in True, False:
	        for gro in True, False:
	            features(pair.ends[1], gso, *GSO)
	            features(pair.ends[2], gro, "gro")
	            pair.protect(version=version, mode="tunnel", window=1024)
	            errors, there = pair.errors(), received(version)
	            ports = {n: port.counters() for n, port in pair.ports.items()}
	            end = iperf(version)
	            ports = {n: moved(ports[n], port.counters()) for n, port in pair.ports.items()}
	            whole = SIZE <= end["sum_received"]["bytes"] <= end["sum_sent"]["bytes"]
	            # What GRO has not seen is received twice, as ESP and as what was in it.
	            arrived = ports[2]["rx_done"]
	            in_gro = received(version) - there < arrived * 3 / 2
	            cut = "tx_gso" in ports[1]
	            again = end["sum_sent"]["retransmits"] * 100 < arrived
	            bad = moved(errors, pair.errors()) | {
	                name: n for name, n in ports[2].items() if name in ("rx_miss", "rx_cipher", "overrun")}
	            print(f"{whole} {again} {bad} {cut} {in_gro}|True True {{}} {gso} {gro}|"
	                  f"IPv{version}: GSO {'on' if gso else 'off'}, GRO {'on' if gro else 'off'}")
EOT
results
in_charge
finish
