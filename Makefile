# SPDX-License-Identifier: GPL-2.0
#
# What people and CI type. `make help` lists it. The modules' own build rules are in Kbuild.

ifneq ($(KERNELRELEASE),)
# Kbuild came here by M=; Kbuild reads the file of that name first, so this is for safety only.
include $(src)/Kbuild
else

SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

##@ General
.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z][a-z-]*:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "Variables: NFRUST_CACHE=dir (downloads and builds), KDIR=tree (a kernel tree of your own),"
	@echo "KERNEL=stock|debug CPUS= MEM= TIMEOUT= SHARE=dir ICOUNT=1 CONSOLE=file (the guest)"

.PHONY: demo
demo: modules ## from nothing: Rust and C serve real traffic, and what each of them costs
	@selftests/demo/demo.sh

##@ Build
.PHONY: setup
setup: ## tools, stock kernel, Rust metadata, guest (UPGRADE=1: newest kernel, MIRROR=url)
	@scripts/setup.sh

# A tree of one's own needs none of the set-up.
.PHONY: modules
modules: $(if $(KDIR),,setup) ## the modules, for the stock kernel or for KDIR=tree
	@scripts/modules.sh

.PHONY: install
install: export NFRUST_SELFTESTS :=
install: export KDIR := $(or $(KDIR),/lib/modules/$(shell uname -r)/build)
install: ## build for the running kernel, or for KDIR=tree, and install for modprobe
	@scripts/modules.sh
	@scripts/modules.sh modules_install

.PHONY: rust-analyzer
rust-analyzer: $(if $(KDIR),,setup) ## rust-project.json, for editors
	@scripts/rust-analyzer.sh

.PHONY: clean
clean: ## remove what was built in the checkout (the cache stays)
	rm -rf build rust-project.json

##@ Guest
# The command goes by the environment as it was typed: no expansion of $ by make, no quoting for
# the shell that make calls. (make itself exits with 2 where the command exits with something else
# than 0; `selftests/vmtest.sh 'command'` gives the very status.)
override CMD := $(value CMD)
export CMD KDIR KERNEL CPUS MEM TIMEOUT SHARE SHARE_RW ICOUNT CONSOLE APPEND ACCEL PLUGIN

.PHONY: vm
vm: modules ## run CMD='...' in a guest with the modules; a shell without CMD
	@selftests/vmtest.sh

##@ Measurements
.PHONY: bench
bench: modules ## what C and Rust cost: instructions, contended writes (QUICK=1: in 3 minutes)
	@selftests/bench/bench.sh $(if $(QUICK),quick,full)

##@ Checks
.PHONY: check
check: modules ## host tests, lints, the selftests in a guest for C and for Rust; compares them
	@selftests/check.sh

.PHONY: lint
lint: setup ## rustfmt, Clippy, checkpatch, shellcheck, the inventory of unsafe code
	@scripts/lint.sh

.PHONY: check-debug
check-debug: setup ## the selftests on a kernel with KASAN, lockdep, kmemleak, ... (builds it once)
	@selftests/debug/check.sh

.PHONY: check-upstream
check-upstream: modules ## the kernel's and nftables' own tests, unmodified, C then Rust
	@selftests/upstream/check.sh

endif
