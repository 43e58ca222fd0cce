// SPDX-License-Identifier: GPL-2.0
/*
 * The states that a port was given, and how an arriving frame finds one.
 */
#include <linux/hash.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <net/esp.h>
#include <net/xfrm.h>

#include "espdev.h"

static struct hlist_head *espdev_sa_bucket(struct espdev_port *port, __be32 spi)
{
	return &port->sa[hash_32((__force u32)spi, ESPDEV_SA_BITS)];
}

static int espdev_state_add(struct net_device *dev, struct xfrm_state *x,
			    struct netlink_ext_ack *extack)
{
	struct espdev_port *port = netdev_priv(dev);
	struct espdev_sa *sa;

	if (x->id.proto != IPPROTO_ESP || x->xso.type != XFRM_DEV_OFFLOAD_CRYPTO) {
		NL_SET_ERR_MSG(extack, "espdev: ESP and crypto offload only");
		return -EINVAL;
	}
	sa = kzalloc(sizeof(*sa), GFP_KERNEL);
	if (!sa)
		return -ENOMEM;
	sa->x = x;
	x->xso.offload_handle = (unsigned long)sa;
	espdev_count(port, states, 1);
	if (x->xso.dir == XFRM_DEV_OFFLOAD_IN) {
		spin_lock_bh(&port->sa_lock);
		hlist_add_head_rcu(&sa->node, espdev_sa_bucket(port, x->id.spi));
		spin_unlock_bh(&port->sa_lock);
	}
	return 0;
}

/* The state is dying: no more frames find it. Under x->lock. */
static void espdev_state_delete(struct net_device *dev, struct xfrm_state *x)
{
	struct espdev_port *port = netdev_priv(dev);
	struct espdev_sa *sa = (void *)x->xso.offload_handle;

	espdev_count(port, states, -1);
	if (x->xso.dir == XFRM_DEV_OFFLOAD_IN) {
		spin_lock_bh(&port->sa_lock);
		hlist_del_rcu(&sa->node);
		spin_unlock_bh(&port->sa_lock);
	}
}

static void espdev_state_free(struct net_device *dev, struct xfrm_state *x)
{
	struct espdev_sa *sa = (void *)x->xso.offload_handle;

	x->xso.offload_handle = 0;
	kfree_rcu(sa, rcu);
}

static void espdev_state_advance_esn(struct xfrm_state *x)
{
	struct espdev_port *port = netdev_priv(x->xso.dev);

	espdev_count(port, esn_advances, 1);
}

const struct xfrmdev_ops espdev_xfrmdev_ops = {
	.xdo_dev_state_add		= espdev_state_add,
	.xdo_dev_state_delete		= espdev_state_delete,
	.xdo_dev_state_free		= espdev_state_free,
	.xdo_dev_state_advance_esn	= espdev_state_advance_esn,
};

/*
 * espdev_sa_get - the state that a frame belongs to, with a reference, or NULL. A NIC does not look
 * at marks, and whether the frame came in UDP is for the stack to judge.
 */
struct xfrm_state *espdev_sa_get(struct espdev_port *port, const struct espdev_esp *esp)
{
	struct xfrm_state *found = NULL;
	struct espdev_sa *sa;

	rcu_read_lock();
	hlist_for_each_entry_rcu(sa, espdev_sa_bucket(port, esp->spi), node) {
		struct xfrm_state *x = sa->x;

		if (x->id.spi != esp->spi || x->props.family != esp->family ||
		    !xfrm_addr_equal(&x->id.daddr, &esp->daddr, esp->family))
			continue;
		/* The last reference may be gone already. */
		if (refcount_inc_not_zero(&x->refcnt))
			found = x;
		break;
	}
	rcu_read_unlock();
	return found;
}
