#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Set-up, from nothing: the build root, a stock kernel, its Rust metadata, the guest's image.
#
# Everything lands in the cache directory (scripts/lib.sh), under names that hold a checksum of
# what it depends on, or the kernel's release. A thing is made under another name and renamed
# when complete: what has its final name is whole, so an interrupted set-up goes on where it was.
#
#   UPGRADE=1      look for a newer kernel; otherwise the one chosen first stays
#   MIRROR=URL     Debian mirror; otherwise the host's, otherwise mmdebstrap's default
#   NFRUST_CACHE=  another cache directory

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

SUITE=trixie
FLAVOUR=amd64
GUEST_DIR=$TOP/selftests/guest

ROOT_KEY=$({
	echo "$SUITE"
	package_list "$TOP/scripts/packages"
} | key)
TREE_KEY=$({
	echo "$SUITE"
	package_list "$GUEST_DIR/packages"
} | key)
GUEST_KEY=$({
	echo "$TREE_KEY"
	cat "$GUEST_DIR/image.sh"
} | key)
# What this script and the lists say now; the same as in env means that nothing is to be done.
SETUP_KEY=$({
	echo "$ROOT_KEY $GUEST_KEY"
	cat "${BASH_SOURCE[0]}"
} | key)

# Warm: one comparison, and a look whether what env names is still there.
if [ -z "${UPGRADE:-}" ] && [ -r "$CACHE/env" ]; then
	# shellcheck source=/dev/null
	. "$CACHE/env"
	if [ "${NFRUST_KEY:-}" = "$SETUP_KEY" ] && [ -x "$NFRUST_ROOT/bin/bash" ] &&
	   [ -r "$NFRUST_KDIR/Module.symvers" ] && [ -r "$NFRUST_VMLINUZ" ] &&
	   [ -r "$NFRUST_GUEST" ]; then
		exit 0
	fi
fi

[ "$(uname -m)" = x86_64 ] || die "needs an x86-64 machine: the kernel and tools are amd64's"
[ "$(id -u)" = 0 ] || die "needs root (chroot and mount): run 'sudo make setup'"
if ! have unshare || ! have flock; then
	die "missing: unshare and flock; install util-linux"
fi
unshare --mount --propagation private true 2>/dev/null ||
	die "no right to mount: in a container, start it with --privileged"

mkdir -p "$CACHE/log" "$CACHE/tmp"

# One set-up at a time. A second one waits, then finds everything done.
exec 9>>"$CACHE/lock"
if ! flock --nonblock 9; then
	say "another set-up is running in $CACHE; waiting for it"
	flock 9
fi
# Left over by one that was interrupted; the lock says that nobody uses it.
rm -rf --one-file-system "$CACHE/tmp"
mkdir -p "$CACHE/tmp"

# ---- steps, their logs, and what to do when one fails ----

declare -A STEP_PID=() STEP_START=() STEP_NAME=()

# Children have process groups of their own, so that stopping a step stops all it started.
set -m

stop_steps() {
	local pid
	for pid in "${STEP_PID[@]}"; do
		kill -TERM -- "-$pid" 2>/dev/null || :
	done
	wait 2>/dev/null || :
}
trap stop_steps EXIT
trap 'echo; say "interrupted; run it again to go on from here"; exit 130' INT TERM HUP

# start ID FUNCTION DESCRIPTION: run FUNCTION in the background, with a log of its own.
start() {
	local id=$1 fn=$2
	STEP_NAME[$id]=$3
	STEP_START[$id]=$SECONDS
	say "$3 ..."
	(
		set +m
		trap - EXIT INT TERM HUP
		set -e
		"$fn"
	) >"$CACHE/log/$id.log" 2>&1 </dev/null 9>&- &
	STEP_PID[$id]=$!
}

# finish ID...: wait for these, saying now and then what for.
finish() {
	local id pid rc since=$SECONDS
	for id; do
		pid=${STEP_PID[$id]:-}
		[ -n "$pid" ] || continue
		while kill -0 "$pid" 2>/dev/null; do
			sleep 0.2
			if [ $((SECONDS - since)) -ge 15 ]; then
				since=$SECONDS
				say "waiting for: ${STEP_NAME[$id]} ($((SECONDS - STEP_START[$id])) s):" \
				    "$(tail -n1 "$CACHE/log/$id.log" | tr -d '\r' | cut -c1-60)"
			fi
		done
		rc=0
		wait "$pid" || rc=$?
		unset "STEP_PID[$id]"
		if [ "$rc" != 0 ]; then
			say "FAILED: ${STEP_NAME[$id]}"
			grep -q '^nfrust: ' "$CACHE/log/$id.log" ||
				tail -n 10 "$CACHE/log/$id.log" | sed 's/^/    /' >&2
			die "$(remedy "$id")"
		fi
		say "done: ${STEP_NAME[$id]} ($((SECONDS - STEP_START[$id])) s)"
	done
}

# One line that says what to do about a failed step.
remedy() {
	local log=$CACHE/log/$1.log
	if grep -q -E 'No space left on device|enough free space' "$log"; then
		echo "no space left in $CACHE: free some, or set NFRUST_CACHE to a larger disk"
	elif grep -qE 'Could not resolve|Temporary failure resolving|Unable to connect|Could not connect' "$log"; then
		echo "the mirror cannot be reached: check network and proxy, or set MIRROR=URL (log: $log)"
	elif grep -qE '404 +Not Found|was not found' "$log"; then
		echo "a package is gone from the archive: 'make setup UPGRADE=1' looks for the present one (log: $log)"
	elif grep -qE 'GPG error|NO_PUBKEY|not signed' "$log"; then
		echo "archive key missing or too old: upgrade debian-archive-keyring on this machine (log: $log)"
	elif grep -q '^nfrust: ' "$log"; then
		sed -n 's/^nfrust: //p' "$log" | tail -n1
	else
		echo "see $log; running 'make setup' again repeats this step only"
	fi
}

# For use in steps: the last word, and the reason that remedy() shows.
give_up() {
	echo "nfrust: $*"
	exit 1
}

inroot() {
	NFRUST_ROOT=$ROOT "$TOP/scripts/inroot" "$@"
}

# ---- the host ----

need_space() {
	local free
	free=$(df --output=avail -k "$CACHE" | tail -n1)
	[ "$free" -ge $(($1 * 1024 * 1024)) ] ||
		die "needs $1 GiB free in $CACHE, has $((free / 1024 / 1024)): free some, or set NFRUST_CACHE"
}

host_programs() {
	local missing=()
	have mmdebstrap || missing+=(mmdebstrap)
	[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing+=(debian-archive-keyring)
	have gpgv || missing+=(gpgv)
	[ ${#missing[@]} -gt 0 ] || return 0
	have apt-get || die "missing: ${missing[*]}; install them with this system's package manager"
	say "installing on this machine: ${missing[*]}"
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
		"${missing[@]}" >"$CACHE/log/host.log" 2>&1 || {
		apt-get update -qq
		DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
			"${missing[@]}"
	} >>"$CACHE/log/host.log" 2>&1 ||
		die "apt-get cannot install ${missing[*]}: see $CACHE/log/host.log"
}

# The mirror that this machine's own apt uses for Debian; empty for mmdebstrap's default.
mirror() {
	[ -z "${MIRROR:-}" ] || { echo "$MIRROR"; return; }
	# shellcheck disable=SC2016 # apt expands it
	apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(LABEL)' 'Created-By: Packages' \
		2>/dev/null | awk '$2 == "Debian" && $3 == "Debian" { print $1; exit }'
}

# bootstrap DIR LIST [MMDEBSTRAP-OPTION...]: a Debian tree with these packages.
bootstrap() {
	local dir=$1 list=$2 uri conf
	shift 2
	uri=$(mirror)
	conf=$(mktemp "$CACHE/tmp/apt.XXXXXX")
	# mmdebstrap keeps the host's apt configuration out, but the way to the mirror is the
	# host's.
	apt-config dump 2>/dev/null |
		grep -E '^Acquire::(http|https|ftp)::.*(Proxy|CaInfo|Verify)|^Acquire::ForceIPv' \
		>"$conf" || :
	# The hook adds what a MIRROR argument leaves out. In a mount namespace, so that no mount
	# of mmdebstrap's outlives it when it is killed.
	# shellcheck disable=SC2016 # the hook's shell expands it
	unshare --mount --propagation private -- mmdebstrap \
		--mode=root --format=directory --keyring=/usr/share/keyrings \
		--architectures=amd64 --aptopt="$conf" --dpkgopt=force-unsafe-io \
		--include="$(package_list "$list" | paste -sd,)" \
		--setup-hook='cd "$1/etc/apt"
			uri=$(cat sources.list sources.list.d/* 2>/dev/null |
				sed -n "s/^deb \(\[[^]]*\] \)*\([^ ]*\) '$SUITE' .*/\2/p" | head -n1)
			for s in '$SUITE-updates' '$SUITE-backports'; do
				grep -q " $s " sources.list || echo "deb $uri $s main" >>sources.list
			done' \
		"$@" "$SUITE" "$dir" ${uri:+"$uri"}
	rm -f "$conf"
}

# ---- the build root ----

make_root() {
	local new=$CACHE/tmp/root
	bootstrap "$new" "$TOP/scripts/packages" --variant=apt --skip=cleanup/apt/lists
	# For a mirror behind a certificate of this machine's own.
	if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
		cat /etc/ssl/certs/ca-certificates.crt >"$new/etc/ssl/certs/ca-certificates.crt"
	fi
	# shellcheck disable=SC2016 # the inner shell expands it
	NFRUST_ROOT=$new "$TOP/scripts/inroot" bash -c \
		'for tool in rustc bindgen clang gcc-14; do $tool --version | head -n1; done' \
		>"$new/.nfrust-tools"
	mv "$new" "$ROOT"
}

# ---- the kernel ----

# Name, version and dependencies of the packages in backports, a package a line, fields
# separated by '|' (dependencies hold commas, blanks and '|' of their own: last).
backports() {
	# shellcheck disable=SC2016 # the inner shell and apt expand it
	inroot bash -c '
		apt-get indextargets --format "\$(FILENAME)" "Created-By: Packages" \
			"Codename: $0-backports" | xargs -r /usr/lib/apt/apt-helper cat-file' "$SUITE" |
	awk -F': ' '
		$1 == "Package" { name = $2 }
		$1 == "Version" { version = substr($0, 10) }
		$1 == "Depends" { depends = substr($0, 10) }
		/^$/ { if (name ~ /^linux-/) print name "|" version "|" depends
		       name = version = depends = "" }
		END { if (name ~ /^linux-/) print name "|" version "|" depends }'
}

# Choose the newest kernel for which image, headers and source are all there, and write
# "RELEASE VERSION" and its packages, one a line.
choose_kernel() {
	local all=$CACHE/tmp/backports version rel name source
	backports >"$all"
	[ -s "$all" ] || give_up "no index of $SUITE-backports: does the mirror carry it? (MIRROR=URL)"
	# Newest first. The other flavours have their name between release and architecture.
	sed -n -E "s/^linux-image-([0-9].*-$FLAVOUR)\|([^|]*)\|.*/\1 \2/p" "$all" |
	grep -vE "^[^ ]*-(cloud|rt)-$FLAVOUR " |
	while read -r rel version; do
		printf '%s %s\n' "$version" "$rel"
	done | sort -k1,1Vr >"$all.images"
	while read -r version rel; do
		source=linux-source-$(echo "$rel" | sed -E 's/^([0-9]+\.[0-9]+).*/\1/')
		for name in "linux-headers-$rel" "$source"; do
			grep -qF "$name|$version|" "$all" || {
				echo "$rel ($version): no $name of that version, trying an older one"
				continue 2
			}
		done
		{
			echo "$rel $version"
			echo "linux-headers-$rel"
			echo "$source"
			image_packages "linux-image-$rel" "$version" "$all"
		} >"$CACHE/tmp/kernel"
		mv "$CACHE/tmp/kernel" "$CACHE/kernel"
		return
	done <"$all.images"
	give_up "no kernel in $SUITE-backports with image, headers and source of one version: try later"
}

# The image package and those of its dependencies that are parts of the same kernel: the boot
# file and the modules have been packages of their own since 7.1 or so.
image_packages() {
	local name=$1 version=$2 all=$3 dep
	echo "$name"
	grep -F "$name|$version|" "$all" | cut -d'|' -f3- | tr ',' '\n' |
		sed -E 's/^ *([^ |(]+).*/\1/' | sort -u |
	while read -r dep; do
		case $dep in
		linux-image-*|linux-binary-*|linux-modules-*)
			if grep -qF "$dep|$version|" "$all"; then
				image_packages "$dep" "$version" "$all"
			fi ;;
		esac
	done
}

read_kernel() {
	{
		read -r KREL KVERSION
		mapfile -t KPACKAGES
	} <"$CACHE/kernel"
	KERNEL=$CACHE/kernel-$KREL
	KBASE=${KREL%%[+-]*}
	MODULES=$KERNEL/guest-modules-$GUEST_KEY
	GUEST=$CACHE/guest-$GUEST_KEY-$KREL.img
}

refresh_index() {
	inroot apt-get update -q
}

fetch_kernel() {
	local name
	mkdir -p "$KERNEL/deb"
	cd "$KERNEL/deb"
	# Files of another version of the same release would be taken for this one's.
	rm -f ./*.deb
	# The unprivileged user that apt downloads as cannot write here.
	inroot apt-get -q -o APT::Sandbox::User=root download "${KPACKAGES[@]/%/=$KVERSION}"
	for name in "${KPACKAGES[@]}"; do
		ls "$name"_*.deb
	done
	rm -rf "$KERNEL/image.new" "$KERNEL/src.new"
	mkdir "$KERNEL/image.new"
	for name in "${KPACKAGES[@]}"; do
		case $name in
		linux-source-*)	;;
		*)		inroot dpkg-deb -x "$name"_*.deb "$KERNEL/image.new" ;;
		esac
	done
	rm -rf "$KERNEL/image"
	mv "$KERNEL/image.new" "$KERNEL/image"
}

unpack_source() {
	local deb
	deb=$(echo "$KERNEL"/deb/linux-source-*.deb)
	rm -rf "$KERNEL/src.new"
	mkdir "$KERNEL/src.new"
	# shellcheck disable=SC2016 # the inner shell expands it
	inroot bash -c 'set -eo pipefail
		dpkg-deb --fsys-tarfile "$1" | tar -xO --wildcards "*/linux-source-*.tar.xz" |
			tar -xJ -C "$2" --strip-components=1' unpack "$deb" "$KERNEL/src.new"
	rm -rf "$KERNEL/src"
	mv "$KERNEL/src.new" "$KERNEL/src"
}

# A string of the kernel's configuration.
config_string() {
	sed -n "s/^$1=\"\?\([^\"]*\)\"\?\$/\1/p" "$HEADERS/.config"
}

# The tools must be those that the kernel was built with: symbol names of Rust code hold a hash of
# the compiler's version string, and the layout of C structures comes from bindgen.
check_tools() {
	local want is
	[ "$(config_string CONFIG_RUST)" = y ] ||
		give_up "kernel $KREL was built without CONFIG_RUST: no Rust module can load in it"
	want=$(config_string CONFIG_RUSTC_VERSION_TEXT)
	is=$(inroot rustc --version)
	[ "$is" = "$want" ] || give_up "kernel $KREL was built with '$want', the build root has '$is':" \
		"remove $ROOT and run 'make setup UPGRADE=1'"
	want=$(config_string CONFIG_BINDGEN_VERSION_TEXT)
	is=$(inroot bindgen --version workaround-for-0.69.0)
	[ "$is" = "$want" ] || give_up "kernel $KREL was built with '$want', the build root has '$is'"
	CC=$(config_string CONFIG_CC_VERSION_TEXT | cut -d' ' -f1)
	want=$(config_string CONFIG_GCC_VERSION)
	want=${want%????}
	is=$(inroot "$CC" -dumpversion 2>/dev/null | cut -d. -f1) || is=none
	[ "$is" = "$want" ] ||
		give_up "kernel $KREL was built with gcc $want ($CC), the build root has $is: see scripts/packages"
}

# The header packages ship no Rust metadata. The same source, configuration and compiler give the
# same; whether they did is checked symbol by symbol.
make_metadata() {
	local obj=$KERNEL/obj.new
	HEADERS=$KERNEL/image/usr/src/linux-headers-$KREL
	check_tools
	echo "$CC" >"$KERNEL/cc"
	# The object tree holds its own absolute path: made in place, complete when .nfrust says so.
	obj=$KERNEL/obj
	rm -rf "$obj"
	mkdir "$obj"
	cp "$HEADERS/.config" "$HEADERS/Module.symvers" "$obj/"
	inroot make -C "$KERNEL/src" -j"$(nproc)" O="$obj" CC="$CC" \
		"LOCALVERSION=${KREL#"$KBASE"}" olddefconfig modules_prepare
	[ "$(cat "$obj/include/config/kernel.release")" = "$KREL" ] ||
		give_up "the source makes release $(cat "$obj/include/config/kernel.release"), not $KREL"
	check_metadata "$obj"
	rust_stamp >"$obj/.nfrust"
}

# What the metadata depends on.
rust_stamp() {
	echo "$KVERSION"
	cat "$ROOT/.nfrust-tools"
}

# Every Rust symbol that the stock kernel exports must have come out under the same name. A module
# linked against other names would be refused by the kernel, one symbol at a time.
check_metadata() {
	local obj=$1 syms=$CACHE/tmp/rust-symbols count
	awk '$2 ~ /^(_R|rust_helper_)/ && $3 == "vmlinux" { print $2 }' "$obj/Module.symvers" |
		sort -u >"$syms.want"
	count=$(wc -l <"$syms.want")
	[ "$count" -gt 100 ] ||
		give_up "Module.symvers of $KREL lists hardly any Rust symbol: headers and image do not match"
	sed -n -E 's/^EXPORT_SYMBOL_RUST_GPL\((.*)\);.*/\1/p' "$obj"/rust/exports_*_generated.h |
		sort -u >"$syms.have"
	comm -23 "$syms.want" "$syms.have" >"$syms.missing"
	if [ -s "$syms.missing" ]; then
		give_up "$(wc -l <"$syms.missing") of $count Rust symbols of $KREL did not come out" \
			"($(head -n 3 "$syms.missing" | paste -sd' ') ...): not the kernel's compiler or source"
	fi
	echo "all $count Rust symbols of $KREL are there"
}

# ---- the guest ----

make_guest_tree() {
	local new=$CACHE/tmp/guest
	bootstrap "$new" "$GUEST_DIR/packages" --variant=essential \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/info/*'
	rm -rf "$GUEST_TREE"
	mv "$new" "$GUEST_TREE"
}

make_guest_image() {
	NFRUST_ROOT=$ROOT "$GUEST_DIR/image.sh" \
		"$GUEST_TREE" "$KERNEL/image" "$KREL" "$MODULES" "$CACHE/tmp" "$GUEST"
}

# ---- what to do ----

ROOT=$CACHE/root-$ROOT_KEY
GUEST_TREE=$CACHE/guest-$TREE_KEY

host_programs
say "set-up in $CACHE (logs: $CACHE/log)"
[ -d "$ROOT" ] || need_space 12

guest_wanted() {
	[ ! -d "$GUEST_TREE" ] || return 1
	[ -s "$CACHE/kernel" ] || return 0
	read_kernel
	[ ! -e "$GUEST" ]
}

if guest_wanted; then
	start guest-tree make_guest_tree "guest: Debian $SUITE with its packages"
fi

if [ ! -d "$ROOT" ]; then
	start root make_root "build root: Debian $SUITE with the kernel's tool chain"
	finish root
fi
if [ -n "${UPGRADE:-}" ] || ! compgen -G "$ROOT/var/lib/apt/lists/*_Packages*" >/dev/null; then
	start index refresh_index "package index of the build root"
	finish index
fi

if [ -n "${UPGRADE:-}" ] || [ ! -s "$CACHE/kernel" ]; then
	start choose choose_kernel "choosing a kernel from $SUITE-backports"
	finish choose
fi
read_kernel
say "kernel: $KREL ($KVERSION)"

if [ "$(cat "$KERNEL/version" 2>/dev/null)" != "$KVERSION" ]; then
	mkdir -p "$KERNEL"
	rm -rf "$KERNEL/src" "$KERNEL/obj" "$KERNEL"/guest-modules* "$CACHE"/guest-*-"$KREL".img
	start kernel fetch_kernel "kernel: downloading ${#KPACKAGES[@]} packages"
	finish kernel
	echo "$KVERSION" >"$KERNEL/version"
fi

if [ ! -d "$KERNEL/src" ]; then
	start source unpack_source "kernel source: unpacking"
	finish source
fi
if [ "$(cat "$KERNEL/obj/.nfrust" 2>/dev/null)" != "$(rust_stamp)" ]; then
	start metadata make_metadata "Rust metadata of $KREL: building (a minute or two)"
fi
if [ ! -e "$GUEST" ]; then
	finish guest-tree
	start image make_guest_image "guest: image with the modules of $KREL"
	finish image
fi
finish metadata

VMLINUZ=$KERNEL/image/usr/lib/modules/$KREL/vmlinuz
[ -r "$VMLINUZ" ] || VMLINUZ=$KERNEL/image/boot/vmlinuz-$KREL

cat >"$CACHE/tmp/env" <<EOT
# Written by scripts/setup.sh
NFRUST_KEY=$SETUP_KEY
NFRUST_CACHE_DIR=$(printf '%q' "$CACHE")
NFRUST_ROOT=$(printf '%q' "$ROOT")
NFRUST_KREL=$(printf '%q' "$KREL")
NFRUST_KDIR=$(printf '%q' "$KERNEL/obj")
NFRUST_KSRC=$(printf '%q' "$KERNEL/src")
NFRUST_VMLINUZ=$(printf '%q' "$VMLINUZ")
NFRUST_MODULES=$(printf '%q' "$MODULES/lib/modules/$KREL")
NFRUST_GUEST=$(printf '%q' "$GUEST")
NFRUST_CC=$(cat "$KERNEL/cc")
EOT
mv "$CACHE/tmp/env" "$CACHE/env"

# What env no longer names is of no use. A guest that runs from it keeps its open file. To remove
# a root takes time on a busy disk: nobody has to wait for that.
remove() {
	mv "$1" "$(mktemp -d "$CACHE/tmp/old.XXXXXX")"
}
shopt -s nullglob
for old in "$CACHE"/guest-*; do
	case $old in
	"$GUEST_TREE"|"$GUEST")	;;
	*)			remove "$old" ;;
	esac
done
for old in "$KERNEL"/guest-modules-*; do
	[ "$old" = "$MODULES" ] || remove "$old"
done
for old in "$CACHE"/root-*; do
	[ "$old" != "$ROOT" ] || continue
	if find /proc/[0-9]*/root -maxdepth 0 -lname "$old" 2>/dev/null | grep -q .; then
		say "still in use, so kept: $old"
	else
		remove "$old"
	fi
done
nice rm -rf --one-file-system "$CACHE/tmp"/old.* >/dev/null 2>&1 </dev/null 9>&- &
disown
say "set-up complete"
