#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# image.sh TREE KERNEL RELEASE MODULES TMP IMAGE: the guest's ext4 IMAGE from a Debian tree and the
# extracted kernel packages, and MODULES, the kernel's modules that are in it, for depmod.
# Called by scripts/setup.sh.
#
# Modules are decompressed: under TCG the guest takes a second for what the host does in
# milliseconds. Drivers of hardware that the guest has not got stay out.

set -euo pipefail
TREE=$1 KERNEL=$2 KREL=$3 MODULES=$4 TMP=$5 IMAGE=$6
TOP=$(cd -P "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# In drivers/ only these, and of drivers/net not what needs a bus or a cable.
DRIVERS='base block char crypto net ptp pps vdpa vhost virtio'
NET_WITHOUT='arcnet can dsa ethernet fddi hamradio hippi ieee802154 ipa mctp mdio mhi_net pcs phy
	pse-pd usb wan wireless wwan'

inroot() {
	"$TOP/scripts/inroot" "$@"
}

if [ ! -d "$MODULES" ]; then
	from=$KERNEL/usr/lib/modules/$KREL
	[ -d "$from" ] || from=$KERNEL/lib/modules/$KREL
	to=$TMP/modules/lib/modules/$KREL
	mkdir -p "$to/kernel/drivers"
	for dir in "$from"/kernel/*; do
		case ${dir##*/} in
		drivers|sound)	;;
		*)		cp -a "$dir" "$to/kernel/" ;;
		esac
	done
	for dir in $DRIVERS; do
		[ ! -d "$from/kernel/drivers/$dir" ] ||
			cp -a "$from/kernel/drivers/$dir" "$to/kernel/drivers/"
	done
	for dir in $NET_WITHOUT; do
		rm -rf "$to/kernel/drivers/net/$dir"
	done
	find "$to" -name '*.ko.xz' -print0 | xargs -0 -r -n 64 -P "$(nproc)" xz -d
	find "$to" -name '*.ko.zst' -print0 | xargs -0 -r -n 64 -P "$(nproc)" zstd -q -d --rm
	# Not in every version's packages; depmod warns without them.
	touch "$to"/modules.{order,builtin,builtin.modinfo}
	cp "$from"/modules.* "$to/" 2>/dev/null || :
	inroot depmod -b "$TMP/modules" "$KREL"
	mv "$TMP/modules" "$MODULES"
fi

dir=$TMP/image
rm -rf --one-file-system "$dir"
cp -a --reflink=auto "$TREE" "$dir"
cd "$dir"
rm -rf var/cache/* var/lib/apt var/log/* usr/share/doc usr/share/man usr/share/locale boot
rm -f etc/resolv.conf
mkdir -p src share kselftest tmp run proc sys dev lib/modules
echo nfrust >etc/hostname
printf '127.0.0.1\tlocalhost nfrust\n::1\tlocalhost ip6-localhost\n' >etc/hosts
cp -a "$MODULES/lib/modules/$KREL" usr/lib/modules/
mkdir -p "usr/lib/modules/$KREL/updates"

# No journal: a run is thrown away anyway, and mounting is faster. Room for what tests write.
size=$(($(du -sm . | cut -f1) * 5 / 4 + 256))
rm -f "$TMP/image.ext4"
inroot mke2fs -q -t ext4 -L nfrust -O ^has_journal -E lazy_itable_init=0,root_owner=0:0 \
	-m 0 -d "$dir" "$TMP/image.ext4" "${size}M"
cd /
rm -rf --one-file-system "$dir"
mv "$TMP/image.ext4" "$IMAGE"
