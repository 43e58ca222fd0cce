// SPDX-License-Identifier: GPL-2.0

#include <net/xfrm.h>
#include "helpers.h"

void nfrust_helper_xfrm_state_put(struct xfrm_state *x)
{
	xfrm_state_put(x);
}
