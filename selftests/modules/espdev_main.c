// SPDX-License-Identifier: GPL-2.0
/*
 * The devices, and what they look for in a frame.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/module.h>
#include <linux/udp.h>
#include <net/esp.h>
#include <net/ip.h>
#include <net/ipv6.h>

#include "espdev.h"

static unsigned int pairs = 1;
module_param(pairs, uint, 0444);
MODULE_PARM_DESC(pairs, "pairs of devices: espdev0 and espdev1, espdev2 and espdev3, ...");

static unsigned int queues = 4;
module_param(queues, uint, 0444);
MODULE_PARM_DESC(queues, "receive and transmit queues of a device; queue n is served by CPU n");

#define ESPDEV_FEATURES (NETIF_F_SG | NETIF_F_HW_CSUM | NETIF_F_HIGHDMA | NETIF_F_TSO | \
			 NETIF_F_TSO6 | NETIF_F_TSO_ECN | NETIF_F_GSO_UDP_L4 | \
			 NETIF_F_HW_ESP | NETIF_F_HW_ESP_TX_CSUM | NETIF_F_GSO_ESP)

static struct net_device **devices;
static struct dentry *debugfs;

/* Where L4 begins, or 0: the headers that a NIC skips. A fragment is none of its business. */
static unsigned int espdev_l4(const u8 *frame, unsigned int len, unsigned int network, u16 type,
			      u8 *proto, struct espdev_esp *esp)
{
	unsigned int at = network;

	if (type == ETH_P_IP) {
		const struct iphdr *iph = (const void *)(frame + at);

		if (len < at + sizeof(*iph) || iph->version != 4 || iph->ihl < 5 ||
		    ip_is_fragment(iph))
			return 0;
		esp->family = AF_INET;
		esp->daddr.a4 = iph->daddr;
		*proto = iph->protocol;
		return at + iph->ihl * 4;
	}
	if (type == ETH_P_IPV6) {
		const struct ipv6hdr *ip6h = (const void *)(frame + at);

		if (len < at + sizeof(*ip6h) || ip6h->version != 6)
			return 0;
		esp->family = AF_INET6;
		esp->daddr.in6 = ip6h->daddr;
		*proto = ip6h->nexthdr;
		at += sizeof(*ip6h);
		while (*proto == NEXTHDR_HOP || *proto == NEXTHDR_DEST ||
		       *proto == NEXTHDR_ROUTING) {
			const struct ipv6_opt_hdr *opt = (const void *)(frame + at);

			if (len < at + sizeof(*opt))
				return 0;
			*proto = opt->nexthdr;
			at += ipv6_optlen(opt);
		}
		return at;
	}
	return 0;
}

/* espdev_parse - is that ESP, or ESP in UDP, and where */
bool espdev_parse(const u8 *frame, unsigned int len, struct espdev_esp *esp)
{
	const struct ethhdr *eth = (const void *)frame;
	unsigned int at = sizeof(*eth);
	__be16 type;
	u8 proto;

	if (len < at)
		return false;
	type = eth->h_proto;
	if (eth_type_vlan(type)) {
		const struct vlan_hdr *vlan = (const void *)(frame + at);

		if (len < at + sizeof(*vlan))
			return false;
		type = vlan->h_vlan_encapsulated_proto;
		at += sizeof(*vlan);
	}
	esp->network = at;
	at = espdev_l4(frame, len, at, ntohs(type), &proto, esp);
	if (!at)
		return false;
	esp->encap = proto == IPPROTO_UDP;
	if (esp->encap)
		at += sizeof(struct udphdr);
	else if (proto != IPPROTO_ESP)
		return false;
	if (len < at + sizeof(struct ip_esp_hdr))
		return false;
	esp->esp = at;
	memcpy(&esp->spi, frame + at, sizeof(esp->spi));
	/* After UDP, zero is the marker of IKE. */
	return !esp->encap || esp->spi;
}

static netdev_tx_t espdev_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct espdev_port *port = netdev_priv(dev);
	struct sk_buff_head frames;
	struct sk_buff *frame;
	unsigned int bytes = skb->len;

	__skb_queue_head_init(&frames);
	if (espdev_frames(port, skb, &frames)) {
		__skb_queue_purge(&frames);
		dev_kfree_skb_any(skb);
		dev->stats.tx_dropped++;
		return NETDEV_TX_OK;
	}
	dev_sw_netstats_tx_add(dev, skb_queue_len(&frames), bytes);
	dev_consume_skb_any(skb);
	while ((frame = __skb_dequeue(&frames)))
		espdev_arrive(port->peer, frame);
	return NETDEV_TX_OK;
}

/* Only what goes as ESP of an offloaded state has checksums and segments made here. */
static netdev_features_t espdev_features_check(struct sk_buff *skb, struct net_device *dev,
					       netdev_features_t features)
{
	struct xfrm_offload *xo = xfrm_offload(skb);

	if (xo && xfrm_input_state(skb)->xso.offload_handle)
		return features;
	return features & ~(NETIF_F_CSUM_MASK | NETIF_F_GSO_MASK);
}

static int espdev_open(struct net_device *dev)
{
	struct espdev_port *port = netdev_priv(dev);
	unsigned int i;

	for (i = 0; i < port->nqueues; i++)
		napi_enable(&port->queues[i].napi);
	netif_tx_start_all_queues(dev);
	/* A cable with nothing at its other end has no link. */
	if (netif_running(port->peer->dev)) {
		netif_carrier_on(dev);
		netif_carrier_on(port->peer->dev);
	}
	return 0;
}

static int espdev_stop(struct net_device *dev)
{
	struct espdev_port *port = netdev_priv(dev);
	unsigned int i;

	netif_tx_stop_all_queues(dev);
	netif_carrier_off(dev);
	netif_carrier_off(port->peer->dev);
	for (i = 0; i < port->nqueues; i++) {
		napi_disable(&port->queues[i].napi);
		skb_queue_purge(&port->queues[i].frames);
	}
	return 0;
}

static const struct net_device_ops espdev_netdev_ops = {
	.ndo_open		= espdev_open,
	.ndo_stop		= espdev_stop,
	.ndo_start_xmit		= espdev_xmit,
	.ndo_features_check	= espdev_features_check,
	.ndo_set_mac_address	= eth_mac_addr,
	.ndo_validate_addr	= eth_validate_addr,
};

static const struct ethtool_ops espdev_ethtool_ops = {
	.get_link		= ethtool_op_get_link,
};

static int espdev_setup(struct net_device *dev)
{
	struct espdev_port *port = netdev_priv(dev);
	unsigned int i;

	port->counters = alloc_percpu(struct espdev_counters);
	if (!port->counters)
		return -ENOMEM;

	dev->netdev_ops = &espdev_netdev_ops;
	dev->ethtool_ops = &espdev_ethtool_ops;
	dev->xfrmdev_ops = &espdev_xfrmdev_ops;
	dev->features |= ESPDEV_FEATURES;
	dev->hw_features |= ESPDEV_FEATURES;
	dev->hw_enc_features |= ESPDEV_FEATURES;
	dev->vlan_features |= ESPDEV_FEATURES & ~(NETIF_F_HW_ESP | NETIF_F_HW_ESP_TX_CSUM);
	dev->pcpu_stat_type = NETDEV_PCPU_STAT_TSTATS;
	dev->max_mtu = ETH_MAX_MTU - ETH_HLEN;
	eth_hw_addr_random(dev);

	port->dev = dev;
	spin_lock_init(&port->sa_lock);
	spin_lock_init(&port->wire_lock);
	spin_lock_init(&port->stall_lock);
	mutex_init(&port->inject_lock);
	init_waitqueue_head(&port->injected);
	INIT_LIST_HEAD(&port->stalled);
	timer_setup(&port->resume, espdev_resume, 0);
	port->knobs.reorder_by = 1;
	port->knobs.status = CRYPTO_GENERIC_ERROR;
	port->knobs.gro = 1;
	port->knobs.inject_seq = 1;
	port->knobs.inject_step = 1;
	port->knobs.inject_queues = 1;
	port->knobs.inject_burst = NAPI_POLL_WEIGHT;

	port->nqueues = queues;
	for (i = 0; i < queues; i++) {
		struct espdev_queue *queue = &port->queues[i];

		queue->port = port;
		queue->index = i;
		queue->cpu = i % nr_cpu_ids;
		INIT_CSD(&queue->irq, espdev_interrupt, queue);
		skb_queue_head_init(&queue->frames);
		netif_napi_add(dev, &queue->napi, espdev_poll);
	}
	return 0;
}

static void espdev_free(struct net_device *dev)
{
	struct espdev_port *port = netdev_priv(dev);
	unsigned int i;

	timer_shutdown_sync(&port->resume);
	for (i = 0; i < port->nqueues; i++)
		skb_queue_purge(&port->queues[i].frames);
	kfree_skb(port->held);
	kfree_skb(port->captured);
	kfree_skb(port->template);
	free_percpu(port->counters);
	free_netdev(dev);
}

/* Both ends stay until both are unregistered: nobody sends into one that is gone. */
static void espdev_remove_all(void)
{
	unsigned int i;

	/* Waits for what somebody does by it. */
	debugfs_remove_recursive(debugfs);
	for (i = 0; i < 2 * pairs; i++)
		if (devices[i] && devices[i]->reg_state == NETREG_REGISTERED)
			unregister_netdev(devices[i]);
	for (i = 0; i < 2 * pairs; i++)
		if (devices[i])
			espdev_free(devices[i]);
	kfree(devices);
	/* Entries of states */
	rcu_barrier();
}

static int __init espdev_init(void)
{
	struct espdev_port *port;
	struct net_device *dev;
	unsigned int i;
	int err = -ENOMEM;

	if (!queues || queues > ESPDEV_MAX_QUEUES || !pairs || pairs > 16) {
		pr_err("1 to %d queues, 1 to 16 pairs\n", ESPDEV_MAX_QUEUES);
		return -EINVAL;
	}
	devices = kcalloc(2 * pairs, sizeof(*devices), GFP_KERNEL);
	if (!devices)
		return -ENOMEM;
	debugfs = debugfs_create_dir(KBUILD_MODNAME, NULL);

	for (i = 0; i < 2 * pairs; i++) {
		dev = alloc_etherdev_mqs(struct_size(port, queues, queues), queues, queues);
		if (!dev)
			goto fail;
		if (espdev_setup(dev)) {
			free_netdev(dev);
			goto fail;
		}
		devices[i] = dev;
		scnprintf(dev->name, sizeof(dev->name), "espdev%u", i);
	}
	for (i = 0; i < 2 * pairs; i++) {
		port = netdev_priv(devices[i]);
		port->peer = netdev_priv(devices[i ^ 1]);
		netif_carrier_off(devices[i]);
	}
	for (i = 0; i < 2 * pairs; i++) {
		err = register_netdev(devices[i]);
		if (err)
			goto fail;
		espdev_debugfs_add(netdev_priv(devices[i]), debugfs, devices[i]->name);
	}
	return 0;

fail:
	espdev_remove_all();
	return err;
}

static void __exit espdev_exit(void)
{
	espdev_remove_all();
}

module_init(espdev_init);
module_exit(espdev_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Test only: devices that imitate ESP crypto offload");
