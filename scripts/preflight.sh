#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# preflight.sh KDIR [CC=... LLVM=...]: can modules in Rust be built for this kernel tree, here?
#
# The first thing that stands in the way is printed as one reason and its remedy. Without this, the
# answers come from deep inside a build.

set -euo pipefail

KDIR=${1:?usage: preflight.sh KDIR}
shift
CC=gcc
for assignment; do
	case $assignment in
	CC=*) CC=${assignment#CC=} ;;
	LLVM=*) CC=clang ;;
	esac
done

refuse() {
	printf 'preflight: %s\npreflight: %s\n' "$1" "$2" >&2
	exit 1
}

# The value of a configuration option of the tree, without quotes; empty where it is not set.
option() {
	sed -n "s/^$1=//p" "$KDIR/.config" | tr -d '"'
}

[ -d "$KDIR" ] || refuse "$KDIR is no directory" "name a prepared kernel build tree: KDIR=..."
if [ ! -r "$KDIR/.config" ] || [ ! -r "$KDIR/include/config/kernel.release" ]; then
	refuse "$KDIR is not a prepared kernel tree" \
		"run 'make olddefconfig modules_prepare' in it, or name the tree's O= directory"
fi

release=$(cat "$KDIR/include/config/kernel.release")
IFS=.- read -r major minor _ <<<"$release"
if ((major < 7 || (major == 7 && minor < 3))); then
	refuse "the kernel is $release, older than 7.3" \
		"use 7.3 or newer: the C functions that are called here have other arguments before"
fi

[ "$(option CONFIG_64BIT)$(option CONFIG_X86)" = yy ] || refuse "the kernel is not for x86-64" \
	"use an x86-64 kernel: per-CPU counters are written for it alone"

[ "$(option CONFIG_RUST)" = y ] || refuse "the kernel $release was built without CONFIG_RUST" \
	"use a kernel with CONFIG_RUST=y ('make rustavailable' in its source says what it needs)"

for wanted in CONFIG_NF_TABLES CONFIG_NF_TABLES_INET CONFIG_NF_TABLES_IPV6 CONFIG_NF_CONNTRACK \
	CONFIG_NF_NAT CONFIG_XFRM CONFIG_SOCK_CGROUP_DATA; do
	case $(option $wanted) in
	y|m) ;;
	*) refuse "the kernel $release was built without $wanted" "use a kernel that has it" ;;
	esac
done

rustc=${RUSTC:-rustc}
command -v "$rustc" >/dev/null || refuse "there is no rustc" \
	"install the one that built the kernel: $(option CONFIG_RUSTC_VERSION_TEXT)"
have=$("$rustc" --version)
want=$(option CONFIG_RUSTC_VERSION_TEXT)
# The whole text goes into symbol names, so that the same version from elsewhere does not do.
[ "$have" = "$want" ] || refuse "rustc here is '$have', the kernel's was '$want'" \
	"install that one, or build without KDIR= for the stock kernel, whose tool chain is set up"

bindgen=${BINDGEN:-bindgen}
command -v "$bindgen" >/dev/null || refuse "there is no bindgen" \
	"install bindgen $(option CONFIG_BINDGEN_VERSION_TEXT)"
want=$(option CONFIG_BINDGEN_VERSION_TEXT)
have=$("$bindgen" --version | head -n 1)
[ -z "$want" ] || [ "$have" = "$want" ] ||
	refuse "bindgen here is '$have', the kernel's was '$want'" "install that one"

for file in rust/libkernel.rmeta rust/libmacros.so rust/bindings/bindings_generated.rs; do
	[ -e "$KDIR/$file" ] || refuse "$KDIR has no Rust metadata ($file is missing)" \
		"run 'make modules_prepare' in the kernel's source with this configuration"
done
[ -e "$KDIR/Module.symvers" ] || refuse "$KDIR has no Module.symvers" \
	"build the kernel's modules once, or copy the file from the distribution's headers"

command -v "$CC" >/dev/null || refuse "there is no $CC" "install it, or name another with CC="
if [ "$(option CONFIG_CC_IS_CLANG)" = y ]; then
	"$CC" --version | grep -q clang || refuse "the kernel was built with clang, not with gcc" \
		"pass LLVM=1"
elif [ "$(option CONFIG_CC_IS_GCC)" = y ]; then
	want=$(($(option CONFIG_GCC_VERSION) / 10000))
	have=$("$CC" -dumpversion | cut -d. -f1)
	[ "$have" = "$want" ] || refuse "$CC is version $have, the kernel's gcc was version $want" \
		"pass CC= with gcc $want"
fi
