// SPDX-License-Identifier: GPL-2.0
/*
 * Routes that are being destroyed while a packet still has them, without a reference: what happens
 * where a route goes between the lookup and the hooks of one packet, only on purpose. Packets with
 * the mark 0xdead get one right before the NAT hook at postrouting, a copy of the route that they
 * had; memory goes after the RCU section that the hooks are in.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <net/dst.h>
#include <net/ip6_fib.h>
#include <net/ip6_route.h>
#include <net/net_namespace.h>
#include <net/route.h>

#define DEADROUTE_MARK 0xdead

static struct dst_entry *copy_v4(struct dst_entry *dst)
{
	struct rtable *old = dst_rtable(dst);
	struct rtable *rt = rt_dst_alloc(dst->dev, old->rt_flags, old->rt_type, false);

	if (!rt)
		return NULL;
	rt->dst.input = dst->input;
	rt->dst.output = dst->output;
	rt->dst.error = dst->error;
	rt->rt_is_input = old->rt_is_input;
	rt->rt_iif = old->rt_iif;
	rt->rt_gw_family = old->rt_gw_family;
	rt->rt_gw6 = old->rt_gw6;
	return &rt->dst;
}

static struct dst_entry *copy_v6(struct net *net, struct dst_entry *dst)
{
	struct rt6_info *old = dst_rt6_info(dst);
	struct rt6_info *rt = ip6_dst_alloc(net, dst->dev, 0);

	if (!rt)
		return NULL;
	rt->dst.input = dst->input;
	rt->dst.output = dst->output;
	rt->dst.error = dst->error;
	rt->rt6i_dst = old->rt6i_dst;
	rt->rt6i_src = old->rt6i_src;
	rt->rt6i_gateway = old->rt6i_gateway;
	rt->rt6i_flags = old->rt6i_flags;
	rt->rt6i_idev = in6_dev_get(dst->dev);
	return &rt->dst;
}

static unsigned int deadroute(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	struct dst_entry *dst = skb_dst(skb);

	if (skb->mark != DEADROUTE_MARK || !dst || dst->xfrm)
		return NF_ACCEPT;
	dst = state->pf == NFPROTO_IPV4 ? copy_v4(dst) : copy_v6(state->net, dst);
	if (!dst)
		return NF_DROP;
	skb_dst_drop(skb);
	skb_dst_set_noref(skb, dst);
	/* The last reference: no other can be had from now on. */
	dst_release(dst);
	return NF_ACCEPT;
}

static const struct nf_hook_ops deadroute_ops[] = {
	{
		.hook = deadroute,
		.pf = NFPROTO_IPV4,
		.hooknum = NF_INET_POST_ROUTING,
		.priority = NF_IP_PRI_NAT_SRC - 1,
	},
	{
		.hook = deadroute,
		.pf = NFPROTO_IPV6,
		.hooknum = NF_INET_POST_ROUTING,
		.priority = NF_IP6_PRI_NAT_SRC - 1,
	},
};

static int __net_init deadroute_net_init(struct net *net)
{
	return nf_register_net_hooks(net, deadroute_ops, ARRAY_SIZE(deadroute_ops));
}

static void __net_exit deadroute_net_exit(struct net *net)
{
	nf_unregister_net_hooks(net, deadroute_ops, ARRAY_SIZE(deadroute_ops));
}

static struct pernet_operations deadroute_net_ops = {
	.init = deadroute_net_init,
	.exit = deadroute_net_exit,
};

static int __init deadroute_init(void)
{
	return register_pernet_subsys(&deadroute_net_ops);
}

static void __exit deadroute_exit(void)
{
	unregister_pernet_subsys(&deadroute_net_ops);
}

module_init(deadroute_init);
module_exit(deadroute_exit);

MODULE_AUTHOR("The nfrust authors");
MODULE_DESCRIPTION("Packets whose routes are being destroyed, for selftests");
MODULE_LICENSE("GPL");
