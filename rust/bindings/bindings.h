/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Headers from which bindgen makes what the kernel crate's own bindings lack.
 * Sorted alphabetically; parameters.txt names the items that are kept.
 */
#include <crypto/aead.h>
#include <linux/cgroup.h>
#include <linux/err.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/random.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <net/dst.h>
#include <net/esp.h>
#include <net/flow.h>
#include <net/gro.h>
#include <net/gso.h>
#include <net/hotdata.h>
#include <net/inet6_hashtables.h>
#include <net/inet_hashtables.h>
#include <net/inet_sock.h>
#include <net/inet_timewait_sock.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <net/netfilter/nf_conntrack.h>
#include <net/netfilter/nf_nat.h>
#include <net/netfilter/nf_tables.h>
#include <net/protocol.h>
#include <net/request_sock.h>
#include <net/sock.h>
#include <net/udp.h>
#include <net/xfrm.h>

#include "../helpers/helpers.h"

/* Constants that C computes in a macro, which bindgen does not evaluate. */
const size_t RUST_CONST_HELPER_NFT_EXPR_SIZE_0 = NFT_EXPR_SIZE(0);
const unsigned long RUST_CONST_HELPER_NFCT_INFOMASK = NFCT_INFOMASK;
const u16 RUST_CONST_HELPER_IPSKB_XFRM_TRANSFORMED = IPSKB_XFRM_TRANSFORMED;
const u16 RUST_CONST_HELPER_IP6SKB_XFRM_TRANSFORMED = IP6SKB_XFRM_TRANSFORMED;
const u64 RUST_CONST_HELPER_NETIF_F_CSUM_MASK = NETIF_F_CSUM_MASK;
const u64 RUST_CONST_HELPER_NETIF_F_FRAGLIST = NETIF_F_FRAGLIST;
const u64 RUST_CONST_HELPER_NETIF_F_HW_ESP = NETIF_F_HW_ESP;
const u64 RUST_CONST_HELPER_NETIF_F_HW_ESP_TX_CSUM = NETIF_F_HW_ESP_TX_CSUM;
const u64 RUST_CONST_HELPER_NETIF_F_SCTP_CRC = NETIF_F_SCTP_CRC;
const u64 RUST_CONST_HELPER_NETIF_F_SG = NETIF_F_SG;

/*
 * Where a field stands that C keeps in an anonymous union or struct. bindgen numbers those, and the
 * numbers change with the configuration; an offset does not care.
 */
#define RUST_FIELD(type, field, field_type)							\
	_Static_assert(sizeof(((struct type *)0)->field) == sizeof(field_type), #field);	\
	const size_t RUST_OFFSETOF_##type##_##field = offsetof(struct type, field)

RUST_FIELD(sk_buff, csum, __wsum);
RUST_FIELD(sk_buff, dev, struct net_device *);
RUST_FIELD(sk_buff, mac_header, __u16);
RUST_FIELD(sk_buff, mark, __u32);
RUST_FIELD(sk_buff, network_header, __u16);
RUST_FIELD(sk_buff, protocol, __be16);
RUST_FIELD(sk_buff, transport_header, __u16);
RUST_FIELD(sk_buff, _skb_refdst, unsigned long);
RUST_FIELD(sk_buff, destructor, void *);
RUST_FIELD(sock, sk_dport, __be16);
RUST_FIELD(sock, sk_rcv_saddr, __be32);
RUST_FIELD(dst_entry, dev, struct net_device *);
RUST_FIELD(dst_entry, __rcuref, rcuref_t);
const size_t RUST_OFFSETOF_cgroup_ancestors = offsetof(struct cgroup, ancestors);
const size_t RUST_OFFSETOF_net_device_core_stats_rx_dropped =
	offsetof(struct net_device_core_stats, rx_dropped);
const netdev_features_t RUST_CONST_HELPER_NETIF_F_GRO = NETIF_F_GRO;
const size_t RUST_OFFSETOF_aead_alg_base = offsetof(struct aead_alg, base);
