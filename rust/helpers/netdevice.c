// SPDX-License-Identifier: GPL-2.0

#include <linux/netdevice.h>
#include "helpers.h"

/* A NAPI that is scheduled by software only, on the CPU that has work for it. */
void nfrust_helper_napi_add(struct net_device *dev, struct napi_struct *napi,
			    int (*poll)(struct napi_struct *, int))
{
	set_bit(NAPI_STATE_NO_BUSY_POLL, &napi->state);
	netif_napi_add(dev, napi, poll);
	napi_enable(napi);
}

/* Waits until it is not polled any more. It can be freed after a grace period. */
void nfrust_helper_napi_del(struct napi_struct *napi)
{
	napi_disable(napi);
	__netif_napi_del(napi);
}
