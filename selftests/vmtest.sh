#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# vmtest.sh [CMD]: boot the guest, run CMD there as root, stream its output, exit with its status.
# Without CMD: a shell.
# vmtest.sh --scan LOG: only look whether the log of a console holds a bug report.
#
# The guest has this checkout at /src, the kernel's selftests at /kselftest, our modules where
# modprobe finds them; everything it writes is thrown away.
#
#   CMD='...'           the same as the argument, which wins
#   KERNEL=stock|debug  Debian's kernel, or the one of 'make check-debug'
#   CPUS=2 MEM=1024M   size
#   TIMEOUT=600        seconds until the guest counts as hung
#   SHARE=DIR          readable at /share; SHARE_RW=1 writable too
#   ICOUNT=1           one CPU whose clock counts instructions: for costs that repeat
#   ACCEL=kvm|tcg      instead of finding out
#   CONSOLE=FILE       keep the console's log
#   APPEND='...'       more for the kernel's command line
#
# Exit status: CMD's; 124 when the guest hung; 1 when it crashed, or when CMD succeeded but the
# kernel reported a bug on the console (selftests/guest/splats).

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
GUEST_DIR=$TOP/selftests/guest

note() {
	printf 'vmtest: %s\n' "$*" >&2
}

# The first line of a console log that reports a bug, as NUMBER:LINE.
scan() {
	tr -d '\r' <"$1" | grep -a -n -m1 -E -f <(grep -v -E '^(#|$)' "$GUEST_DIR/splats") || :
}

# What scan() found, with what the kernel said after it.
report_splat() {
	note "FAILED: the kernel reported, console line ${2%%:*}: ${2#*:}"
	tr -d '\r' <"$1" |
		awk -v from="${2%%:*}" -v lines="$3" 'NR >= from && NR < from + lines' >&2
}

if [ "${1:-}" = --scan ]; then
	[ -r "${2:-}" ] || die "usage: vmtest.sh --scan LOG"
	splat=$(scan "$2")
	[ -n "$splat" ] || exit 0
	report_splat "$2" "$splat" 60
	exit 1
fi

load_env
IMAGE_MODULES=$NFRUST_MODULES
KERNEL=${KERNEL:-stock}
case $KERNEL in
stock)	;;
debug)	[ -r "$CACHE/env-debug" ] || die "no debug kernel yet: 'make check-debug' builds it"
	# shellcheck source=/dev/null
	. "$CACHE/env-debug" ;;
*)	die "KERNEL=$KERNEL: stock or debug" ;;
esac

[ $# = 0 ] || CMD=$*
CMD=${CMD:-}
CPUS=${CPUS:-2}
MEM=${MEM:-1024M}
TIMEOUT=${TIMEOUT:-600}
SHARE=${SHARE:-}
SHARE_RW=${SHARE_RW:-}
ICOUNT=${ICOUNT:-}
[ -z "$SHARE" ] || [ -d "$SHARE" ] || die "SHARE=$SHARE: no such directory"
[ -z "$SHARE" ] || SHARE=$(realpath "$SHARE")

# ---- the initramfs: what mounts the image, and what is laid over it ----

# Everything but the command. Made once for each state of the modules.
initramfs() {
	local build=$TOP/build/$NFRUST_KREL ko kos=() sum dir lib order module
	for ko in "$build"/*.ko; do
		[ ! -e "$ko" ] || kos+=("$ko")
	done
	sum=$({
		echo "$NFRUST_KREL $NFRUST_MODULES $NFRUST_ROOT"
		cat "$GUEST_DIR/initramfs" "$GUEST_DIR/init" "${BASH_SOURCE[0]}"
		[ ${#kos[@]} = 0 ] || (cd "$build" && sha256sum -- *.ko)
	} | key)
	INITRAMFS=$CACHE/vm/initramfs-$sum.cpio
	[ ! -e "$INITRAMFS" ] || return 0

	mkdir -p "$CACHE/vm"
	find "$CACHE/vm" -maxdepth 1 -mtime +2 -exec rm -rf {} +
	dir=$(mktemp -d "$CACHE/vm/new.XXXXXX")
	lib=usr/lib/modules/$NFRUST_KREL

	# depmod wants to see the stock modules beside ours; links cost nothing.
	mkdir -p "$dir/depmod/$lib/updates" "$dir/top/overlay/$lib/updates"
	if [ -n "$NFRUST_MODULES" ]; then
		cp -al "$NFRUST_MODULES/." "$dir/depmod/$lib/"
		rm -f "$dir/depmod/$lib"/modules.{alias,dep,symbols,softdep,devname,weakdep}*
		rm -f "$dir/depmod/$lib"/modules.builtin.*bin
	else
		cp "$NFRUST_KDIR"/modules.{order,builtin,builtin.modinfo} \
			"$dir/depmod/$lib/" 2>/dev/null || :
	fi
	if [ ${#kos[@]} -gt 0 ]; then
		cp -- "${kos[@]}" "$dir/depmod/$lib/updates/"
		cp -- "${kos[@]}" "$dir/top/overlay/$lib/updates/"
	fi
	ln -s usr/lib "$dir/depmod/lib"
	"$TOP/scripts/inroot" depmod -b "$dir/depmod" "$NFRUST_KREL"
	if [ "$NFRUST_MODULES" = "$IMAGE_MODULES" ]; then
		cp "$dir/depmod/$lib"/modules.* "$dir/top/overlay/$lib/"
	else
		cp -a "$dir/depmod/$lib/." "$dir/top/overlay/$lib/"
	fi

	mkdir -p "$dir/top"/{bin,dev,root,modules,overlay/nfrust}
	cp "$NFRUST_ROOT/bin/busybox" "$dir/top/bin/"
	cp "$GUEST_DIR/initramfs" "$dir/top/init"
	cp "$GUEST_DIR/init" "$dir/top/overlay/nfrust/init"
	chmod +x "$dir/top/init" "$dir/top/overlay/nfrust/init"
	order=$dir/top/modules/order
	for module in virtio_blk ext4; do
		"$TOP/scripts/inroot" modprobe -d "$dir/depmod" -S "$NFRUST_KREL" \
			--show-depends "$module"
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$order.path"
	while read -r module; do
		cp "$module" "$dir/top/modules/"
		echo "${module##*/}"
	done <"$order.path" >"$order"
	rm "$order.path"
	# shellcheck disable=SC2016
	"$TOP/scripts/inroot" bash -c 'cd "$1" && find . | cpio --quiet -o -H newc -R 0:0' \
		cpio "$dir/top" >"$dir/cpio"
	mv "$dir/cpio" "$INITRAMFS"
	rm -rf "$dir"
}

# ---- acceleration ----

# /dev/kvm may exist and not work: find out by booting, once for each host kernel and QEMU.
accel() {
	local answer sum
	[ -z "$ICOUNT" ] || { ACCEL=tcg; return; }
	[ -z "${ACCEL:-}" ] || return 0
	if [ ! -w /dev/kvm ]; then
		note "no /dev/kvm here: the guest is emulated (TCG)"
		ACCEL=tcg
		return
	fi
	sum=$({
		echo "$(uname -r) $NFRUST_ROOT $NFRUST_KREL"
		grep -m1 'model name' /proc/cpuinfo
	} | key)
	answer=$CACHE/vm/accel-$sum
	mkdir -p "$CACHE/vm"
	if [ ! -s "$answer" ]; then
		note "trying whether KVM works here (once)"
		if ACCEL=kvm TIMEOUT=30 KERNEL=stock CPUS=2 CONSOLE='' SHARE='' APPEND='' \
			CMD=true "${BASH_SOURCE[0]}" >/dev/null 2>&1 </dev/null; then
			echo kvm >"$answer"
		else
			echo tcg >"$answer"
		fi
	fi
	ACCEL=$(<"$answer")
	[ "$ACCEL" = kvm ] || note "KVM does not work here: the guest is emulated (TCG)"
}

# ---- run ----

RUN=$(mktemp -d "${TMPDIR:-/tmp}/nfrust-vm.XXXXXX")
CONSOLE=${CONSOLE:-}
console=$RUN/console
QEMU=
TAIL=
# shellcheck disable=SC2317 # called by the trap
cleanup() {
	[ -z "$QEMU" ] || kill -KILL "$QEMU" 2>/dev/null || :
	[ -z "$TAIL" ] || kill "$TAIL" 2>/dev/null || :
	[ -z "$CONSOLE" ] || [ ! -e "$console" ] || cp "$console" "$CONSOLE"
	rm -rf "$RUN"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

initramfs
accel

mkdir -p "$RUN/top/overlay/nfrust"
printf '%s\n' "$CMD" >"$RUN/top/overlay/nfrust/cmd"
shares=(src kselftest)
[ -z "$SHARE" ] || shares+=(share)
{
	printf 'INTERACTIVE=%q\n' "$([ -n "$CMD" ] || echo 1)"
	printf 'STTY=(%s)\n' \
		"$(stty size 2>/dev/null </dev/tty | sed 's/\(.*\) \(.*\)/rows \1 cols \2/' || :)"
	printf 'SHARES=(%s)\n' "${shares[*]}"
	printf 'SHARE_RW=%q\n' "$SHARE_RW"
	printf 'CACHE_9P=%q\n' "$([ -n "$SHARE_RW" ] && echo mmap || echo loose)"
} >"$RUN/top/overlay/nfrust/config"

# What a crash does: reset at once, which ends QEMU (-no-reboot). Mitigations and the rest stay
# as they are by default, as code and costs are to be those of the stock kernel.
append=(
	console=ttyS0 loglevel=7 panic=-1 oops=panic
	# A busy host makes TCG slow, not stuck.
	rcupdate.rcu_cpu_stall_timeout=60
	log_buf_len=4M no_timer_check tsc=reliable random.trust_cpu=on
)
# KUnit's suites run when they are asked to.
[ "$KERNEL" != debug ] || append+=(kunit.enable=1)

# Directories for the guest, over 9p.
share() {
	local tag=$1 path=${2//,/,,} option=${3:-}
	qemu+=(
		-fsdev "local,id=$tag,path=$path,security_model=none,multidevs=remap$option"
		-device "virtio-9p-pci,fsdev=$tag,mount_tag=$tag"
	)
}

qemu=(
	qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot
	-machine q35 -cpu "max,la57=off" -m "$MEM"
	-kernel "$NFRUST_VMLINUZ" -initrd "$RUN/initrd" -append "${append[*]} ${APPEND:-}"
	-chardev "file,id=console,path=${console//,/,,}" -serial chardev:console
	-drive "if=none,id=image,file=${NFRUST_GUEST//,/,,},format=raw,snapshot=on"
	-device "virtio-blk-pci,drive=image"
	-device virtio-serial-pci
	-chardev "file,id=status,path=${RUN//,/,,}/status"
	-device "virtserialport,chardev=status,name=nfrust.status"
)
share src "$TOP" ",readonly=on"
share kselftest "$NFRUST_KSRC/tools/testing/selftests" ",readonly=on"
if [ -n "$SHARE_RW" ]; then
	[ -z "$SHARE" ] || share share "$SHARE"
else
	[ -z "$SHARE" ] || share share "$SHARE" ",readonly=on"
fi
if [ -n "$ICOUNT" ]; then
	qemu+=(-accel tcg -icount "shift=0,sleep=off" -smp 1)
elif [ "$ACCEL" = kvm ]; then
	qemu+=(-accel kvm -smp "$CPUS")
else
	qemu+=(-accel "tcg,thread=multi" -smp "$CPUS")
fi
if [ -n "$CMD" ]; then
	qemu+=(
		-chardev "file,id=out,path=${RUN//,/,,}/out"
		-device "virtserialport,chardev=out,name=nfrust.out"
	)
else
	qemu+=(-chardev "stdio,id=out,mux=on,signal=off" -device "virtconsole,chardev=out")
fi

touch "$RUN/out" "$RUN/status" "$console"
# setpriv: QEMU goes when this script is killed.
# shellcheck disable=SC2016
run=("$TOP/scripts/inroot" setpriv --pdeathsig KILL bash -c '
	cd "$1"/top
	shift
	find . | cpio --quiet -o -H newc -R 0:0 | cat "$1" - >../initrd
	shift
	exec "$@"' qemu "$RUN" "$INITRAMFS" "${qemu[@]}")
export NFRUST_BIND=$RUN${SHARE:+:$SHARE}

status=
reason=
if [ -n "$CMD" ]; then
	"${run[@]}" </dev/null >"$RUN/qemu" 2>&1 &
	QEMU=$!
	tail -s 0.1 --pid="$QEMU" -c +1 -f "$RUN/out" 2>/dev/null &
	TAIL=$!
	deadline=$((SECONDS + TIMEOUT))
	while kill -0 "$QEMU" 2>/dev/null; do
		if [ "$SECONDS" -ge "$deadline" ]; then
			reason="hung: no end after $TIMEOUT s (TIMEOUT=)"
			kill -KILL "$QEMU"
			break
		fi
		sleep 0.1
	done
	wait "$QEMU" 2>/dev/null || :
	QEMU=
	wait "$TAIL" 2>/dev/null || :
	TAIL=
else
	note "a shell in the guest follows; Ctrl-a x kills the guest. Console log: ${CONSOLE:-$console}"
	"${run[@]}" || :
fi

# ---- verdict ----

status=$(sed -n 's/^exit //p' "$RUN/status")
if [ -z "$status" ]; then
	if [ -z "$reason" ]; then
		reason="crashed before the command ended"
		[ ! -s "$RUN/qemu" ] || reason="QEMU: $(tail -n1 "$RUN/qemu")"
	fi
fi
splat=$(scan "$console")
# The kernel's own memory of it, in case the words are none that splats knows: machine check, bad
# page, oops, warning, soft lockup.
taint=$(sed -n 's/^taint //p' "$RUN/status")
taint=$((${taint:-0} & (1 << 4 | 1 << 5 | 1 << 7 | 1 << 9 | 1 << 14)))
if [ -z "$splat" ] && [ "$taint" != 0 ] && [ -z "$reason" ]; then
	reason="is tainted ($taint: see tainted-kernels.rst), though its console holds no known report"
fi
if [ -n "$reason" ]; then
	note "--- last 100 lines of the guest's console ---"
	tr -d '\r' <"$console" | tail -n 100 >&2
	note "--- end of the console ---"
fi
if [ -n "$splat" ]; then
	# After a crash the hundred lines above hold the rest.
	report_splat "$console" "$splat" "$([ -n "$reason" ] && echo 0 || echo 60)"
fi
if [ -n "$reason" ]; then
	note "FAILED: the guest $reason"
	case $reason in
	hung*)	exit 124 ;;
	*)	exit 1 ;;
	esac
fi
if [ -n "$splat" ] && [ "$status" = 0 ]; then
	exit 1
fi
exit "$status"
