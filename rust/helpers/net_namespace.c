// SPDX-License-Identifier: GPL-2.0

#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include "helpers.h"

void *nfrust_helper_net_generic(const struct net *net, unsigned int id)
{
	return net_generic(net, id);
}
