// SPDX-License-Identifier: GPL-2.0
/*
 * A frame's way from the cable to the stack, and what the knobs do to it there.
 */
#include <crypto/aead.h>
#include <linux/etherdevice.h>
#include <linux/jhash.h>
#include <linux/ktime.h>
#include <net/checksum.h>
#include <net/esp.h>
#include <net/xfrm.h>

#include "espdev.h"

/* ---- the cable, and the queue at its end ---- */

/* The queue's interrupt, on its CPU */
void espdev_interrupt(void *data)
{
	struct espdev_queue *queue = data;

	napi_schedule_irqoff(&queue->napi);
}

static void espdev_raise(struct espdev_queue *queue)
{
	unsigned long flags;

	/* -EBUSY: it is on its way, and will see what was queued before. */
	if (smp_call_function_single_async(queue->cpu, &queue->irq) != -ENXIO)
		return;
	local_irq_save(flags);
	espdev_interrupt(queue);
	local_irq_restore(flags);
}

static void espdev_enqueue(struct espdev_port *port, struct sk_buff *frame, unsigned int index)
{
	struct espdev_queue *queue = &port->queues[index % port->nqueues];

	if (!netif_running(port->dev) ||
	    skb_queue_len_lockless(&queue->frames) >= ESPDEV_QUEUE_FRAMES) {
		espdev_count(port, overrun, 1);
		dev_kfree_skb_any(frame);
		return;
	}
	skb_queue_tail(&queue->frames, frame);
	/* Less than the knob says wait; the poll would leave them where they are. */
	if (skb_queue_len_lockless(&queue->frames) >= READ_ONCE(port->knobs.hold))
		espdev_raise(queue);
}

/* Addresses (tunnel) and ports of what is inside; without a state only what is outside is known. */
static u32 espdev_inner_hash(struct espdev_port *port, struct sk_buff *frame,
			     const struct espdev_esp *esp)
{
	struct xfrm_state *x = espdev_sa_get(port, esp);
	unsigned int at, from, len = sizeof(u32);
	u32 hash;

	if (!x)
		return (__force u32)esp->spi;
	at = esp->esp + sizeof(struct ip_esp_hdr) + crypto_aead_ivsize(x->data);
	from = at;
	if (x->props.mode == XFRM_MODE_TUNNEL && at < frame->len) {
		bool v4 = frame->data[at] >> 4 == 4;

		from = at + (v4 ? 12 : 8);
		len = (v4 ? 8 : 32) + sizeof(u32);
	}
	hash = from + len <= frame->len ? jhash(frame->data + from, len, 0) : 0;
	xfrm_state_put(x);
	return hash;
}

static void espdev_deliver(struct espdev_port *port, struct sk_buff *frame,
			   const struct espdev_esp *esp)
{
	u32 index = READ_ONCE(port->knobs.queue);

	switch (READ_ONCE(port->knobs.spread)) {
	case ESPDEV_SPREAD_INNER:
		index = espdev_inner_hash(port, frame, esp);
		break;
	case ESPDEV_SPREAD_ROUND:
		index = port->round++;
		break;
	}
	espdev_enqueue(port, frame, index);
}

/*
 * espdev_arrive - a frame comes out of the cable at port. ESP frames are dropped, sent twice and
 * held back here; all others go to queue 0.
 */
void espdev_arrive(struct espdev_port *port, struct sk_buff *frame)
{
	struct espdev_knobs *knobs = &port->knobs;
	struct sk_buff *held = NULL, *again = NULL;
	struct espdev_esp esp;
	unsigned int number;

	if (!espdev_parse(frame->data, frame->len, &esp)) {
		espdev_enqueue(port, frame, 0);
		return;
	}

	spin_lock_bh(&port->wire_lock);
	number = ++port->arrived;
	if (espdev_every(number, &knobs->drop_every)) {
		espdev_count(port, dropped, 1);
		dev_kfree_skb_any(frame);
		goto out;
	}
	if (espdev_every(number, &knobs->dup_every))
		again = skb_copy(frame, GFP_ATOMIC);
	if (port->held && !--port->held_for) {
		held = port->held;
		port->held = NULL;
	}
	if (!port->held && !held && espdev_every(number, &knobs->reorder_every)) {
		espdev_count(port, reordered, 1);
		port->held = frame;
		port->held_for = max(READ_ONCE(knobs->reorder_by), 1);
	} else {
		espdev_deliver(port, frame, &esp);
	}
	if (again) {
		espdev_count(port, duplicated, 1);
		espdev_deliver(port, again, &esp);
	}
	if (held && espdev_parse(held->data, held->len, &esp))
		espdev_deliver(port, held, &esp);
out:
	spin_unlock_bh(&port->wire_lock);
}

/*
 * espdev_flush - deliver what the knobs "hold" and "reorder" keep back, and let go on what "stall"
 * did
 */
void espdev_flush(struct espdev_port *port)
{
	struct espdev_esp esp;
	unsigned int i;

	/* Before the polls that may be the next ones to stall it */
	mod_timer_pending(&port->resume, jiffies);
	spin_lock_bh(&port->wire_lock);
	if (port->held && espdev_parse(port->held->data, port->held->len, &esp)) {
		espdev_deliver(port, port->held, &esp);
		port->held = NULL;
	}
	spin_unlock_bh(&port->wire_lock);
	for (i = 0; i < port->nqueues; i++) {
		WRITE_ONCE(port->queues[i].flush, true);
		espdev_raise(&port->queues[i]);
	}
}

/* ---- the NIC ---- */

/* All but the first bytes into a page */
static struct sk_buff *espdev_nonlinear(struct espdev_port *port, struct sk_buff *frame)
{
	unsigned int head = max_t(u32, READ_ONCE(port->knobs.headlen), ETH_HLEN);
	unsigned int rest = frame->len - head;
	struct sk_buff *skb;
	struct page *page;

	if (frame->len <= head)
		return frame;
	page = alloc_pages(GFP_ATOMIC | __GFP_COMP, get_order(rest));
	skb = netdev_alloc_skb_ip_align(port->dev, head);
	if (!page || !skb) {
		if (page)
			__free_pages(page, get_order(rest));
		kfree_skb(skb);
		return frame;
	}
	skb_put_data(skb, frame->data, head);
	memcpy(page_address(page), frame->data + head, rest);
	skb_add_rx_frag(skb, 0, page, 0, rest, PAGE_SIZE << get_order(rest));
	consume_skb(frame);
	return skb;
}

/*
 * Whether this is what another port's hardware made, or a test by hand: the ICV's bytes say so.
 * What software has encrypted is for software to decrypt; there is no cipher here. (A frame too
 * short for an ICV is not ciphertext either.)
 */
static bool espdev_is_clear(struct sk_buff *skb, const struct espdev_esp *esp,
			    const struct xfrm_state *x)
{
	unsigned int authsize = crypto_aead_authsize(x->data);
	unsigned int headers = esp->esp - ETH_HLEN + sizeof(struct ip_esp_hdr) +
			       crypto_aead_ivsize(x->data);
	u8 icv[64];

	if (!authsize || authsize > sizeof(icv) || skb->len < headers + authsize ||
	    skb_copy_bits(skb, skb->len - authsize, icv, authsize))
		return true;
	return !memchr_inv(icv, ESPDEV_ICV, authsize);
}

/* State, status word and CRYPTO_DONE */
static void espdev_decrypted(struct espdev_port *port, struct sk_buff *skb,
			     const struct espdev_esp *esp)
{
	struct espdev_knobs *knobs = &port->knobs;
	struct xfrm_offload *xo;
	struct xfrm_state *x;
	struct sec_path *sp;
	u32 number = 0;

	/* Nothing that queues share is written where nobody asks for each k-th. */
	if (READ_ONCE(knobs->nosp_every) || READ_ONCE(knobs->miss_every) ||
	    READ_ONCE(knobs->status_every))
		number = atomic_inc_return(&port->handled);
	if (espdev_every(number, &knobs->nosp_every)) {
		espdev_count(port, rx_nosp, 1);
		secpath_set(skb);
		return;
	}
	x = espdev_every(number, &knobs->miss_every) ? NULL : espdev_sa_get(port, esp);
	if (!x) {
		espdev_count(port, rx_miss, 1);
		return;
	}
	if (!espdev_is_clear(skb, esp, x)) {
		espdev_count(port, rx_cipher, 1);
		xfrm_state_put(x);
		return;
	}
	sp = secpath_set(skb);
	if (!sp) {
		xfrm_state_put(x);
		return;
	}
	sp->xvec[sp->len++] = x;
	sp->olen++;
	xo = xfrm_offload(skb);
	xo->flags = CRYPTO_DONE;
	xo->status = CRYPTO_SUCCESS;
	if (espdev_every(number, &knobs->status_every))
		xo->status = READ_ONCE(knobs->status);
	espdev_count(port, rx_done, 1);
}

/* The next user of the template finds it. A poll cannot take the mutex that guards that. */
static void espdev_capture(struct espdev_port *port, const struct sk_buff *frame)
{
	struct sk_buff *copy = skb_copy(frame, GFP_ATOMIC);

	if (!copy)
		return;
	WRITE_ONCE(port->knobs.capture, 0);
	kfree_skb(xchg(&port->captured, copy));
}

static void espdev_receive(struct espdev_queue *queue, struct sk_buff *skb)
{
	struct espdev_port *port = queue->port;
	struct espdev_knobs *knobs = &port->knobs;
	struct sk_buff *clone = NULL;
	struct espdev_esp esp;
	bool is_esp;

	/* As a driver, whose packets are allocated where they are received: there they go back. */
	skb->alloc_cpu = raw_smp_processor_id();
	is_esp = espdev_parse(skb->data, skb->len, &esp);
	if (is_esp && READ_ONCE(knobs->capture))
		espdev_capture(port, skb);
	if (is_esp && READ_ONCE(knobs->headlen))
		skb = espdev_nonlinear(port, skb);
	dev_sw_netstats_rx_add(port->dev, skb->len);
	skb->protocol = eth_type_trans(skb, port->dev);
	skb_record_rx_queue(skb, queue->index);

	if (!is_esp) {
		espdev_count(port, rx_plain, 1);
	} else {
		espdev_count(port, rx_esp, 1);
		espdev_decrypted(port, skb, &esp);
		switch (READ_ONCE(knobs->ip_summed)) {
		case CHECKSUM_UNNECESSARY:
			skb->ip_summed = CHECKSUM_UNNECESSARY;
			break;
		case CHECKSUM_COMPLETE:
			skb->csum = skb_checksum(skb, 0, skb->len, 0);
			skb->ip_summed = CHECKSUM_COMPLETE;
			break;
		}
		if (READ_ONCE(knobs->cloned))
			clone = skb_clone(skb, GFP_ATOMIC);
	}
	if (READ_ONCE(knobs->gro))
		napi_gro_receive(&queue->napi, skb);
	else
		netif_receive_skb(skb);
	consume_skb(clone);
}

/* ---- injection ---- */

/*
 * espdev_set_template - keep a frame, of ESP or any other; takes it over. Under inject_lock, and so
 * not while copies of another are made.
 */
void espdev_set_template(struct espdev_port *port, struct sk_buff *frame)
{
	struct espdev_esp esp;

	kfree_skb(port->template);
	port->template = frame;
	port->template_seq = 0;
	if (espdev_parse(frame->data, frame->len, &esp))
		port->template_seq = esp.esp + offsetof(struct ip_esp_hdr, seq_no);
}

/* espdev_template - what was captured or written last, or NULL. Under inject_lock. */
struct sk_buff *espdev_template(struct espdev_port *port)
{
	struct sk_buff *captured = xchg(&port->captured, NULL);

	if (captured)
		espdev_set_template(port, captured);
	return port->template;
}

static struct sk_buff *espdev_injected(struct espdev_queue *queue)
{
	struct espdev_port *port = queue->port;
	struct sk_buff *template = port->template;
	struct sk_buff *skb = napi_alloc_skb(&queue->napi, template->len);
	__be32 seq = htonl(queue->inject_seq);

	if (!skb)
		return NULL;
	skb_put_data(skb, template->data, template->len);
	if (port->template_seq)
		memcpy(skb->data + port->template_seq, &seq, sizeof(seq));
	queue->inject_seq += READ_ONCE(port->knobs.inject_step);
	return skb;
}

/* At most so many. The queue's share of the injection is over when inject_left comes to 0. */
static int espdev_inject_some(struct espdev_queue *queue, int budget)
{
	struct espdev_port *port = queue->port;
	bool sink = READ_ONCE(port->knobs.inject_sink);
	u32 left = READ_ONCE(queue->inject_left), burst = READ_ONCE(port->knobs.inject_burst);
	struct sk_buff *skb;
	int work = 0;

	if (!left)
		return 0;
	burst = clamp_t(u32, burst, 1, budget);
	if (queue->nbursts < ESPDEV_BURSTS)
		queue->bursts[queue->nbursts++] = ktime_get_ns();
	for (; work < burst && left; left--) {
		skb = espdev_injected(queue);
		/* Tried again in the next poll */
		if (!skb)
			break;
		work++;
		if (sink)
			consume_skb(skb);
		else
			espdev_receive(queue, skb);
	}
	espdev_count(port, injected, work);
	WRITE_ONCE(queue->inject_left, left);
	if (!left && atomic_dec_and_test(&port->injecting))
		wake_up(&port->injected);
	return work;
}

/*
 * espdev_inject - let each queue of the knob inject_queues deliver count copies of the template,
 * and wait until they are with the stack
 */
int espdev_inject(struct espdev_port *port, u32 count)
{
	u32 queues = READ_ONCE(port->knobs.inject_queues) & (BIT(port->nqueues) - 1);
	u32 seq = READ_ONCE(port->knobs.inject_seq);
	unsigned int i;
	u64 start;
	int err;

	mutex_lock(&port->inject_lock);
	err = -ENODATA;
	if (!espdev_template(port))
		goto out;
	err = -EINVAL;
	if (!count || !queues)
		goto out;
	err = -ENETDOWN;
	if (!netif_running(port->dev))
		goto out;

	start = ktime_get_ns();
	atomic_set(&port->injecting, hweight32(queues));
	for (i = 0; i < port->nqueues; i++) {
		if (!(queues & BIT(i)))
			continue;
		port->queues[i].nbursts = 0;
		port->queues[i].inject_seq = seq;
		seq += READ_ONCE(port->knobs.inject_stride);
		/* After the number, before the interrupt that makes the poll look */
		smp_store_release(&port->queues[i].inject_left, count);
		espdev_raise(&port->queues[i]);
	}
	err = 0;
	/* A device that goes down does not poll any more. */
	while (!wait_event_timeout(port->injected, !atomic_read(&port->injecting), HZ / 10)) {
		if (netif_running(port->dev))
			continue;
		for (i = 0; i < port->nqueues; i++)
			WRITE_ONCE(port->queues[i].inject_left, 0);
		err = -ENETDOWN;
		break;
	}
	port->inject_ns = ktime_get_ns() - start;
out:
	mutex_unlock(&port->inject_lock);
	return err;
}

/* ---- other NAPIs ---- */

/*
 * Take what this CPU is about to poll out of its list, as if its softirqs came late: a CPU that has
 * much to do gets to it only when the world has changed. Only the CPU itself adds to its list, with
 * interrupts disabled. A NAPI that is in no list stays scheduled, and nobody schedules it again.
 */
static void espdev_stall(struct espdev_port *port)
{
	u32 delay = READ_ONCE(port->knobs.stall);
	struct napi_struct *napi, *next;
	struct softnet_data *sd;
	unsigned long flags;

	if (!delay)
		return;
	spin_lock_irqsave(&port->stall_lock, flags);
	sd = this_cpu_ptr(&softnet_data);
	list_for_each_entry_safe(napi, next, &sd->poll_list, poll_list) {
		if (napi->poll == espdev_poll || napi == &sd->backlog)
			continue;
		list_move_tail(&napi->poll_list, &port->stalled);
		espdev_count(port, stalled, 1);
	}
	if (!list_empty(&port->stalled)) {
		WRITE_ONCE(port->knobs.stall, 0);
		mod_timer(&port->resume, jiffies + msecs_to_jiffies(delay));
	}
	spin_unlock_irqrestore(&port->stall_lock, flags);
}

/* They go on where the timer runs, which is another CPU if theirs has gone offline. */
void espdev_resume(struct timer_list *timer)
{
	struct espdev_port *port = timer_container_of(port, timer, resume);
	struct napi_struct *napi, *next;
	unsigned long flags;

	spin_lock_irqsave(&port->stall_lock, flags);
	list_for_each_entry_safe(napi, next, &port->stalled, poll_list) {
		list_del_init(&napi->poll_list);
		__napi_schedule(napi);
	}
	spin_unlock_irqrestore(&port->stall_lock, flags);
}

/* ---- NAPI ---- */

int espdev_poll(struct napi_struct *napi, int budget)
{
	struct espdev_queue *queue = container_of(napi, struct espdev_queue, napi);
	struct espdev_port *port = queue->port;
	u32 hold = READ_ONCE(port->knobs.hold);
	struct sk_buff *frame;
	int work = 0;

	if (!budget)
		return 0;
	espdev_count(port, polls, 1);
	work = espdev_inject_some(queue, budget);
	if (!hold || READ_ONCE(queue->flush) ||
	    skb_queue_len_lockless(&queue->frames) >= hold) {
		WRITE_ONCE(queue->flush, false);
		while (work < budget && (frame = skb_dequeue(&queue->frames))) {
			work++;
			espdev_receive(queue, frame);
		}
	}
	if (work)
		espdev_stall(port);
	if (work < budget) {
		napi_complete_done(napi, work);
		/* The next burst: after all else that waits on this CPU has had its turn */
		if (READ_ONCE(queue->inject_left))
			napi_schedule(napi);
	}
	return work;
}
