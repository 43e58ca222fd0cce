/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shims for C macros and static inline functions that Rust cannot call, one file a subsystem, as
 * in the kernel's own rust/helpers. None of them may be on a packet's path: a shim is a call.
 */
#ifndef NFRUST_HELPERS_H
#define NFRUST_HELPERS_H

#include <linux/compiler_types.h>
#include <linux/types.h>

struct cgroup;

void nfrust_helper_cgroup_put(struct cgroup *cgrp);
u64 nfrust_helper_percpu_sum(const u64 __percpu *counter);

#endif /* NFRUST_HELPERS_H */
