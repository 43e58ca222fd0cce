#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# debug-kernel.sh: the kernel of 'make check-debug', from the source package that set-up unpacked.
# debug-kernel.sh cached: only tell whether it is there (status 0), for those short of time.
#
# Its configuration is what selftests/debug/*.config list and nothing else. Clang builds it: with
# gcc KASAN and Rust exclude each other, and the configuration would drop one without a word, so
# every option is looked up again afterwards.
#
# In the cache, in a directory whose name holds a checksum of configuration, version and tools.
# Interrupted, it goes on where make was. Writes env-debug, which vmtest.sh reads for KERNEL=debug.

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

load_env
FRAGMENTS=("$NFRUST_KSRC/tools/testing/selftests/net/netfilter/config"
	"$TOP"/selftests/debug/{guest,net,checks}.config)
BASE=$(make -s -C "$NFRUST_KSRC" kernelversion)
# Objects of a whole build, for the progress that is shown.
OBJECTS=1930

# Where KASAN's checks are compiled in, beside modules built outside the tree: what packets, and what
# is kept about them, pass through. Everything is allocated under its eyes in any case, and a program
# starts in half the time when memory management and file systems do not look at each byte.
SANITIZE='crypto/% drivers/net/% kernel/bpf/% kernel/cgroup/% kernel/module/% kernel/rcu/% lib/% net/% rust/%'

KEY=$({
	echo "$BASE"
	cat "$NFRUST_ROOT/.nfrust-tools" "${FRAGMENTS[@]}"
	echo "$SANITIZE"
	# What a patch level of the package changes is in the source, not in its version.
	cat "${NFRUST_KDIR%/obj}/version"
} | key)
DIR=$CACHE/debug-$BASE-$KEY
OBJ=$DIR/obj
LOG=$DIR/build.log
RELEASE=$BASE-debug

write_env() {
	cat >"$CACHE/env-debug.new" <<-EOT
		# Written by scripts/debug-kernel.sh
		NFRUST_DEBUG_KEY=$KEY
		NFRUST_KREL=$(printf '%q' "$RELEASE")
		NFRUST_KDIR=$(printf '%q' "$OBJ")
		NFRUST_VMLINUZ=$(printf '%q' "$OBJ/vmlinux")
		NFRUST_MODULES=$(printf '%q' "$DIR/modules/lib/modules/$RELEASE")
		NFRUST_CC=clang
		NFRUST_LLVM=1
	EOT
	mv "$CACHE/env-debug.new" "$CACHE/env-debug"
}

if [ -e "$DIR/complete" ]; then
	grep -qx "NFRUST_DEBUG_KEY=$KEY" "$CACHE/env-debug" 2>/dev/null || write_env
	exit 0
fi
[ "${1:-}" != cached ] || exit 1

mkdir -p "$OBJ"
exec 9>>"$CACHE/debug.lock"
if ! flock --nonblock 9; then
	say "another build of the debug kernel is running; waiting for it"
	flock 9
	[ ! -e "$DIR/complete" ] || { write_env; exit 0; }
fi

kmake() {
	"$TOP/scripts/inroot" make -C "$NFRUST_KSRC" O="$OBJ" LLVM=1 LOCALVERSION= \
		KASAN_SANITIZE="\$(if \$(filter $SANITIZE,\$(obj)/),y,n)" "$@"
}

# Options of the fragments with the values wanted, a later line winning.
wanted() {
	sed -nE 's/^(CONFIG_\w+)=(.*)/\1 \2/p; s/^# (CONFIG_\w+) is not set/\1 n/p' \
		"${FRAGMENTS[@]}" |
		awk '{ value[$1] = $2 } END { for (o in value) print o, value[o] }'
}

configure() {
	cat "${FRAGMENTS[@]}" >"$DIR/wanted.config"
	rm -f "$OBJ/.config"
	kmake -s KCONFIG_ALLCONFIG="$DIR/wanted.config" allnoconfig
}

# Prints what is not as wanted. Built in where a module would do is well.
missing() {
	wanted | awk '
		FILENAME == "-" {
			is = ($1 in value) ? value[$1] : "n"
			if (is != $2 && !($2 == "m" && is == "y"))
				print $1 "=" $2 " (is " is ")"
			next
		}
		/^CONFIG_/ {
			i = index($0, "=")
			value[substr($0, 1, i - 1)] = substr($0, i + 1)
		}' "$OBJ/.config" - | sort
}

if [ ! -e "$DIR/configured" ]; then
	say "debug kernel $RELEASE: configuring"
	configure >"$LOG" 2>&1 || { tail -n 15 "$LOG" >&2; die "configuring failed: see $LOG"; }
	if [ -n "$(missing)" ]; then
		missing >&2
		die "these options did not come out as selftests/debug/*.config want them"
	fi
	touch "$DIR/configured"
fi

free=$(($(df --output=avail -k "$CACHE" | tail -n1) / 1024 / 1024))
[ "$free" -ge 4 ] || die "needs 4 GiB free in $CACHE, has $free: free some, or set NFRUST_CACHE"

build() {
	kmake "-j$(nproc)" vmlinux modules
	rm -rf "$DIR/modules"
	kmake -s INSTALL_MOD_PATH="$DIR/modules" modules_install
}

# In a process group of its own, so that stopping it stops all of make's children.
set -m
build >>"$LOG" 2>&1 </dev/null 9>&- &
pid=$!
set +m
# shellcheck disable=SC2329 # called by the traps
stop() {
	kill -TERM -- "-$pid" 2>/dev/null || :
	wait "$pid" 2>/dev/null || :
}
trap stop EXIT
trap 'echo; say "interrupted; run it again to go on from here"; exit 130' INT TERM HUP

say "debug kernel $RELEASE: building about $OBJECTS objects (half an hour on 2 CPUs; log: $LOG)"
next=$((SECONDS + 15))
while kill -0 "$pid" 2>/dev/null; do
	sleep 0.5
	if [ "$SECONDS" -ge "$next" ]; then
		next=$((SECONDS + 30))
		say "$(find "$OBJ" -name '*.o' | wc -l) of about $OBJECTS objects:" \
		    "$(tail -n1 "$LOG" | cut -c1-60)"
	fi
done
rc=0
wait "$pid" || rc=$?
trap - EXIT INT TERM HUP
if [ "$rc" != 0 ]; then
	grep -nE -m5 'error|Error|\*\*\*' "$LOG" >&2 || tail -n 15 "$LOG" >&2
	die "the build failed: see $LOG"
fi
[ "$(cat "$OBJ/include/config/kernel.release")" = "$RELEASE" ] ||
	die "the source makes release $(cat "$OBJ/include/config/kernel.release"), not $RELEASE"
touch "$DIR/complete"
write_env

# Others are of no use: a changed configuration is not changed back.
for old in "$CACHE"/debug-*/; do
	[ "${old%/}" = "$DIR" ] || rm -rf --one-file-system "$old"
done
say "debug kernel $RELEASE: complete, $(find "$OBJ" -name '*.o' | wc -l) objects"
