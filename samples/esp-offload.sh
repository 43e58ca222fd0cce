#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ESP with crypto offload through the Rust modules, from nothing: a pair of devices that imitate
# NICs with crypto offload, a state for each direction on both, a ping in a tunnel over IPv4 and one
# in transport mode over IPv6, and what was counted.
#
#	make vm CMD=/src/samples/esp-offload.sh
#
# MODULES='esp4_offload esp6_offload' shows the same with C's modules.

set -eu
: "${MODULES:=esp4_offload_rust esp6_offload_rust}"
read -r -a modules <<<"$MODULES"

say()
{
	printf '\n%s\n' "$*"
}

key=0x$(printf '%02x' {1..20})
cipher=(aead 'rfc4106(gcm(aes))' "$key" 128)

modprobe -a "${modules[@]}" nfrust_espdev
for ns in left right; do
	ip netns add $ns
done
ip link set espdev0 netns left name eth0
ip link set espdev1 netns right name eth0
ip -n left addr add 192.0.2.1/24 dev eth0
ip -n left addr add 2001:db8::1/64 dev eth0 nodad
ip -n right addr add 192.0.2.2/24 dev eth0
ip -n right addr add 2001:db8::2/64 dev eth0 nodad
ip -n left addr add 198.51.100.1/32 dev lo
ip -n right addr add 198.51.100.2/32 dev lo
for ns in left right; do
	ip -n $ns link set lo up
	ip -n $ns link set eth0 up
done
ip -n left route add 198.51.100.2 via 192.0.2.2 src 198.51.100.1
ip -n right route add 198.51.100.1 via 192.0.2.1 src 198.51.100.2

# state NETNS DIRECTION SRC DST SPI MODE
state()
{
	local window=()

	[ "$2" = out ] || window=(replay-window 32)
	ip -n "$1" xfrm state add src "$3" dst "$4" proto esp spi "$5" reqid 1 mode "$6" \
		"${window[@]}" "${cipher[@]}" offload dev eth0 dir "$2"
}

# policy NETNS DIRECTION SRC DST MODE [OUTER_SRC OUTER_DST]
policy()
{
	local outer=()

	[ $# = 5 ] || outer=(src "$6" dst "$7")
	ip -n "$1" xfrm policy add src "$3" dst "$4" dir "$2" \
		tmpl "${outer[@]}" proto esp reqid 1 mode "$5"
}

# both SRC DST SPI MODE FROM TO: one direction of traffic, sent on the left or on the right
both()
{
	state "$5" out "$1" "$2" "$3" "$4"
	state "$6" in "$1" "$2" "$3" "$4"
}

both 192.0.2.1 192.0.2.2 0x100 tunnel left right
both 192.0.2.2 192.0.2.1 0x101 tunnel right left
both 2001:db8::1 2001:db8::2 0x200 transport left right
both 2001:db8::2 2001:db8::1 0x201 transport right left
for ns in left right; do
	one=out two=in
	[ $ns = left ] || one=in two=out
	policy $ns $one 198.51.100.1 198.51.100.2 tunnel 192.0.2.1 192.0.2.2
	policy $ns $two 198.51.100.2 198.51.100.1 tunnel 192.0.2.2 192.0.2.1
	policy $ns $one 2001:db8::1 2001:db8::2 transport
	policy $ns $two 2001:db8::2 2001:db8::1 transport
done

say "# The states that the device on the right decrypts for"
ip -n right xfrm state | grep -E '^src|proto|offload'

say "# Through a tunnel over IPv4, and in transport mode over IPv6"
ip netns exec left ping -q -c 5 -i 0.2 -W 2 198.51.100.2
ip netns exec left ping -q -c 5 -i 0.2 -W 2 2001:db8::2

say "# What the devices did"
grep -E 'tx_esp|rx_done' /sys/kernel/debug/nfrust_espdev/espdev{0,1}/counters

say "# What the states on the right say"
ip -n right -s xfrm state | grep -E '^src|\(packets\)|anti-replay'

say "# Errors of IPsec on the right (none)"
ip netns exec right grep -v '[[:space:]]0$' /proc/net/xfrm_stat || :

for module in "${modules[@]}"; do
	counters=/sys/kernel/debug/$module/counters
	[ -e "$counters" ] || continue
	say "# What $module did"
	grep -v ' 0$' "$counters"
done
say "# The modules, and by how many states they are used"
lsmod | grep -E '^Module|^esp|^nfrust'
