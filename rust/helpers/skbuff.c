// SPDX-License-Identifier: GPL-2.0

#include <linux/skbuff.h>
#include "helpers.h"

/* Sets a bit in a bit field, whose place is known to the compiler alone. */
void nfrust_helper_skb_dst_set(struct sk_buff *skb, struct dst_entry *dst)
{
	skb_dst_set(skb, dst);
}
