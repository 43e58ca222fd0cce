/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A pair of network devices that imitate a NIC with ESP crypto offload, for tests.
 *
 * Each pair is a cable: what one port sends, the other receives. Nothing is encrypted. A frame
 * whose state is offloaded leaves with everything that hardware would add (IV, trailer, ICV,
 * checksums, segmentation), and on arrival an ESP frame that a receive state of the port matches is
 * handed to the stack as hardware does after decryption: state in the secpath, CRYPTO_DONE, a
 * status word, trailer and ICV still there.
 */
#ifndef NFRUST_ESPDEV_H
#define NFRUST_ESPDEV_H

#include <linux/cache.h>
#include <linux/in6.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/timer.h>
#include <linux/wait.h>
#include <net/xfrm.h>

#define ESPDEV_MAX_QUEUES	16
#define ESPDEV_QUEUE_FRAMES	4096
#define ESPDEV_SA_BITS		8
#define ESPDEV_BURSTS		256	/* of an injection that are remembered */
/*
 * What the ICV's bytes are filled with. The stack must not look at them; the port at the other end
 * tells by them what software has encrypted.
 */
#define ESPDEV_ICV		0xa5

/* How an arriving ESP frame finds its queue */
enum espdev_spread {
	ESPDEV_SPREAD_NONE,	/* all to the queue of the knob "queue" */
	ESPDEV_SPREAD_INNER,	/* by addresses and ports of what is inside */
	ESPDEV_SPREAD_ROUND,	/* round robin */
};

/*
 * Knobs of a port's receive side, in debugfs. "every" is: each k-th ESP frame that arrives here, 0
 * for none.
 */
struct espdev_knobs {
	/* on the cable */
	u32 drop_every;
	u32 dup_every;
	u32 reorder_every;
	u32 reorder_by;		/* a held frame comes after so many others */
	u32 spread;
	u32 queue;
	u32 hold;		/* deliver when a queue has so many, in one NAPI poll */
	u32 stall;		/* after a poll, other NAPIs of the CPU wait so many ms, once */
	/* in the NIC */
	u32 status;		/* of the frames that status_every says; others succeed */
	u32 status_every;
	u32 miss_every;		/* no state found */
	u32 nosp_every;		/* a secpath without a state in it */
	u32 ip_summed;		/* CHECKSUM_NONE, _UNNECESSARY or _COMPLETE */
	u32 headlen;		/* linear bytes; 0: all. The rest is in a page */
	u32 cloned;		/* somebody else has a reference to the data, as a tap would */
	u32 gro;		/* napi_gro_receive(), or netif_receive_skb() */
	u32 capture;		/* keep the next ESP frame as the template of "inject" */
	/* injection: copies of the template */
	u32 inject_seq;		/* the first one's sequence number */
	u32 inject_step;	/* and what is added for each */
	u32 inject_stride;	/* and for the first one of each further queue */
	u32 inject_queues;	/* bit mask: each of these delivers all of them */
	u32 inject_burst;	/* so many in a poll, at most NAPI's 64 */
	u32 inject_sink;	/* free them at once: what all but the stack costs */
};

/*
 * What happened, for a test to look at. Each CPU counts for itself: that queues of one port share
 * nothing is what makes the stack's own sharing visible.
 */
struct espdev_counters {
	u64 tx_plain, tx_esp, tx_gso, tx_segments, tx_bad;
	u64 rx_plain, rx_esp, rx_done, rx_miss, rx_nosp, rx_cipher;
	u64 dropped, duplicated, reordered, overrun, stalled;
	u64 polls, injected, esn_advances, states;
};

/* Where things are in a frame that holds ESP, from espdev_parse() */
struct espdev_esp {
	unsigned int network;	/* offsets from the MAC header */
	unsigned int esp;
	u8 family;
	bool encap;		/* in UDP */
	__be32 spi;
	xfrm_address_t daddr;
};

struct espdev_sa {
	struct hlist_node node;
	struct xfrm_state *x;
	struct rcu_head rcu;
};

struct espdev_port;

struct espdev_queue {
	struct napi_struct napi;
	struct espdev_port *port;
	unsigned int index;
	int cpu;		/* that its "interrupt" goes to */
	call_single_data_t irq;
	struct sk_buff_head frames;
	bool flush;		/* deliver although there are less than the knob "hold" says */
	/* set while the queue does not inject, else touched by its poll only */
	u32 inject_seq;
	u32 inject_left;
	unsigned int nbursts;
	u64 bursts[ESPDEV_BURSTS];	/* when each began, ns */
} ____cacheline_aligned_in_smp;

struct espdev_port {
	struct net_device *dev;
	struct espdev_port *peer;
	struct espdev_knobs knobs;
	struct espdev_counters __percpu *counters;

	spinlock_t sa_lock;	/* for changes; lookups are under RCU */
	struct hlist_head sa[1 << ESPDEV_SA_BITS];

	spinlock_t wire_lock;	/* what the cable does to frames that arrive here */
	u32 arrived;
	u32 round;
	struct sk_buff *held;
	u32 held_for;
	atomic_t handled;	/* ESP frames that a knob of the NIC asked about */

	spinlock_t stall_lock;	/* for this list */
	struct list_head stalled; /* NAPIs of others, until the timer lets them go on */
	struct timer_list resume;

	struct sk_buff *captured; /* the next template */
	struct mutex inject_lock; /* template, and one injection at a time */
	struct sk_buff *template;
	u32 template_seq;	/* offset of the sequence number in it, 0 if it has none */
	atomic_t injecting;	/* queues that are at it */
	wait_queue_head_t injected;
	u64 inject_ns;

	unsigned int nqueues;
	struct espdev_queue queues[];
};

#define espdev_count(port, name, n) this_cpu_add((port)->counters->name, n)

/* each k-th of what "number" counts */
static inline bool espdev_every(u32 number, const u32 *every)
{
	u32 k = READ_ONCE(*every);

	return k && number % k == 0;
}

/* main */
bool espdev_parse(const u8 *frame, unsigned int len, struct espdev_esp *esp);

/* sa */
extern const struct xfrmdev_ops espdev_xfrmdev_ops;
struct xfrm_state *espdev_sa_get(struct espdev_port *port, const struct espdev_esp *esp);

/* tx: frames as they are on the cable, appended to out */
int espdev_frames(struct espdev_port *port, struct sk_buff *skb, struct sk_buff_head *out);

/* rx */
void espdev_arrive(struct espdev_port *port, struct sk_buff *frame);
void espdev_flush(struct espdev_port *port);
int espdev_inject(struct espdev_port *port, u32 count);
struct sk_buff *espdev_template(struct espdev_port *port);
void espdev_set_template(struct espdev_port *port, struct sk_buff *frame);
int espdev_poll(struct napi_struct *napi, int budget);
void espdev_interrupt(void *queue);
void espdev_resume(struct timer_list *timer);

/* debugfs */
void espdev_debugfs_add(struct espdev_port *port, struct dentry *parent, const char *name);

#endif
