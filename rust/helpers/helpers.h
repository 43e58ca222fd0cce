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
struct napi_struct;
struct net;
struct net_device;
struct nf_hook_entries;
struct nf_hook_ops;
struct sk_buff;
struct xfrm_state;

void nfrust_helper_cgroup_put(struct cgroup *cgrp);
void *nfrust_helper_net_generic(const struct net *net, unsigned int id);
u64 nfrust_helper_percpu_sum(const u64 __percpu *counter);
void nfrust_helper_napi_add(struct net_device *dev, struct napi_struct *napi,
			    int (*poll)(struct napi_struct *, int));
void nfrust_helper_napi_del(struct napi_struct *napi);
void nfrust_helper_dev_hold(struct net_device *dev);
void nfrust_helper_dev_put(struct net_device *dev);
void nfrust_helper_nf_reset_ct(struct sk_buff *skb);
bool nfrust_helper_skb_cloned(const struct sk_buff *skb);
void nfrust_helper_xfrm_state_put(struct xfrm_state *x);

/* Exported by netfilter's core, which declares them for its own files only. */
int nf_hook_entries_insert_raw(struct nf_hook_entries __rcu **pp, const struct nf_hook_ops *reg);
void nf_hook_entries_delete_raw(struct nf_hook_entries __rcu **pp, const struct nf_hook_ops *reg);

#endif /* NFRUST_HELPERS_H */
