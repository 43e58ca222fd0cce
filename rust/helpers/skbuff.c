// SPDX-License-Identifier: GPL-2.0

#include <linux/skbuff.h>
#include "helpers.h"

void nfrust_helper_nf_reset_ct(struct sk_buff *skb)
{
	nf_reset_ct(skb);
}

bool nfrust_helper_skb_cloned(const struct sk_buff *skb)
{
	return skb_cloned(skb);
}
