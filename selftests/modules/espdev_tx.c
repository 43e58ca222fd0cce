// SPDX-License-Identifier: GPL-2.0
/*
 * From what the stack sends to frames on the cable: the part of ESP that is hardware's.
 *
 * The stack's xmit leaves a packet with headers, payload, and (unless hardware is to segment it) a
 * trailer with room for the ICV. Hardware has to add the IV, inner checksums that are left to it,
 * and the ICV; and of a packet to be segmented it makes all of each segment.
 */
#include <crypto/aead.h>
#include <linux/etherdevice.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <net/checksum.h>
#include <net/esp.h>
#include <net/ip.h>
#include <net/xfrm.h>

#include "espdev.h"

/* An empty frame for the other port, with nothing in it that this host's stack knows */
static struct sk_buff *espdev_frame(struct espdev_port *port, unsigned int len)
{
	struct sk_buff *frame = netdev_alloc_skb_ip_align(port->peer->dev, len);

	if (frame)
		__skb_put(frame, len);
	return frame;
}

static struct sk_buff *espdev_copy(struct espdev_port *port, struct sk_buff *skb)
{
	struct sk_buff *frame = espdev_frame(port, skb->len);

	if (frame && skb_copy_bits(skb, 0, frame->data, skb->len)) {
		kfree_skb(frame);
		frame = NULL;
	}
	return frame;
}

/* IV: the 64-bit sequence number, as NICs do for AES-GCM; or its low bytes, or zeroes before it. */
static void espdev_iv(u8 *iv, unsigned int len, u64 number)
{
	__be64 value = cpu_to_be64(number);
	unsigned int used = min_t(unsigned int, len, sizeof(value));

	memset(iv, 0, len);
	memcpy(iv + len - used, (u8 *)&value + sizeof(value) - used, used);
}

/* The checksum over what begins at start, whose field holds the pseudo header's */
static void espdev_checksum(u8 *frame, unsigned int start, unsigned int field, unsigned int end)
{
	__sum16 sum = csum_fold(csum_partial(frame + start, end - start, 0));

	/* Only UDP has a reserved value; for TCP both mean the same. */
	if (!sum)
		sum = CSUM_MANGLED_0;
	memcpy(frame + start + field, &sum, sizeof(sum));
}

/* How long the trailer is with padding and ICV, by its own length byte; 0 if it cannot be */
static unsigned int espdev_trailer(struct sk_buff *skb, unsigned int esp, unsigned int authsize)
{
	unsigned int trailer;
	u8 padlen;

	if (skb->len < esp + authsize + 2 ||
	    skb_copy_bits(skb, skb->len - authsize - 2, &padlen, 1))
		return 0;
	trailer = padlen + 2 + authsize;
	return skb->len < esp + trailer ? 0 : trailer;
}

static int espdev_whole(struct espdev_port *port, struct sk_buff *skb, struct xfrm_state *x,
			const struct espdev_esp *esp, struct sk_buff_head *out)
{
	const struct xfrm_offload *xo = xfrm_offload(skb);
	unsigned int authsize = crypto_aead_authsize(x->data);
	unsigned int payload = esp->esp + sizeof(struct ip_esp_hdr) + crypto_aead_ivsize(x->data);
	unsigned int trailer = espdev_trailer(skb, payload, authsize);
	struct ip_esp_hdr *esph;
	struct sk_buff *frame;

	if (!trailer)
		return -EINVAL;
	frame = espdev_copy(port, skb);
	if (!frame)
		return -ENOMEM;
	esph = (void *)(frame->data + esp->esp);
	espdev_iv((u8 *)(esph + 1), crypto_aead_ivsize(x->data),
		  (u64)xo->seq.hi << 32 | ntohl(esph->seq_no));
	if (skb->ip_summed == CHECKSUM_PARTIAL)
		espdev_checksum(frame->data, skb_checksum_start_offset(skb), skb->csum_offset,
				frame->len - trailer);
	memset(skb_tail_pointer(frame) - authsize, ESPDEV_ICV, authsize);
	__skb_queue_tail(out, frame);
	return 0;
}

/* Lengths, identification and checksum of an IP header of the n-th segment */
static void espdev_ip(u8 *at, u8 *end, unsigned int n)
{
	if (*at >> 4 == 4) {
		struct iphdr *iph = (void *)at;

		iph->tot_len = htons(end - at);
		iph->id = htons(ntohs(iph->id) + n);
		ip_send_check(iph);
	} else {
		struct ipv6hdr *ip6h = (void *)at;

		ip6h->payload_len = htons(end - at - sizeof(*ip6h));
	}
}

/* What the segments of one packet have in common */
struct espdev_gso {
	struct xfrm_state *x;
	const struct espdev_esp *esp;
	u64 seq;		/* the first one's */
	unsigned int inner;	/* offset of what ESP holds */
	unsigned int l4;
	unsigned int headers;	/* length of all headers */
	unsigned int end;	/* of the payload */
	bool tcp;
};

static void espdev_l4_header(struct espdev_gso *gso, u8 *l4, unsigned int n, unsigned int done,
			     unsigned int chunk)
{
	unsigned int whole = gso->end - gso->l4;
	unsigned int len = gso->headers - gso->l4 + chunk;
	__sum16 *check;

	if (gso->tcp) {
		struct tcphdr *th = (void *)l4;

		th->seq = htonl(ntohl(th->seq) + done);
		if (n)
			th->cwr = 0;
		if (gso->headers + done + chunk < gso->end) {
			th->fin = 0;
			th->psh = 0;
		}
		check = &th->check;
	} else {
		struct udphdr *uh = (void *)l4;

		uh->len = htons(len);
		check = &uh->check;
	}
	/* The pseudo header's sum is there, for the whole length. */
	*check = (__force __sum16)csum16_add(csum16_sub((__force __be16)*check, htons(whole)),
					     htons(len));
}

static struct sk_buff *espdev_segment(struct espdev_port *port, struct sk_buff *skb,
				      struct espdev_gso *gso, unsigned int n, unsigned int done,
				      unsigned int chunk)
{
	unsigned int authsize = crypto_aead_authsize(gso->x->data);
	unsigned int blksize = ALIGN(crypto_aead_blocksize(gso->x->data), 4);
	unsigned int end = gso->headers + chunk;
	unsigned int plain = end - gso->inner;
	unsigned int trailer = ALIGN(plain + 2, blksize) - plain + authsize;
	struct sk_buff *frame = espdev_frame(port, end + trailer);
	struct ip_esp_hdr *esph;
	u8 *data;

	if (!frame)
		return NULL;
	data = frame->data;
	if (skb_copy_bits(skb, 0, data, gso->headers) ||
	    skb_copy_bits(skb, gso->headers + done, data + gso->headers, chunk)) {
		kfree_skb(frame);
		return NULL;
	}
	espdev_l4_header(gso, data + gso->l4, n, done, chunk);
	espdev_checksum(data, gso->l4, skb->csum_offset, end);
	if (gso->l4 > gso->inner && (data[gso->inner] >> 4 == 4 || data[gso->inner] >> 4 == 6))
		espdev_ip(data + gso->inner, data + end, n);

	esph = (void *)(data + gso->esp->esp);
	esph->seq_no = htonl((u32)(gso->seq + n));
	espdev_iv((u8 *)(esph + 1), crypto_aead_ivsize(gso->x->data), gso->seq + n);
	esp_output_fill_trailer(data + end, 0, trailer - authsize, xfrm_offload(skb)->proto);
	memset(data + end + trailer - authsize, ESPDEV_ICV, authsize);

	if (gso->esp->encap) {
		struct udphdr *uh = (void *)(data + gso->esp->esp - sizeof(*uh));

		uh->len = htons(frame->len - (gso->esp->esp - sizeof(*uh)));
	}
	espdev_ip(data + gso->esp->network, data + frame->len, n);
	return frame;
}

static int espdev_segments(struct espdev_port *port, struct sk_buff *skb, struct xfrm_state *x,
			   const struct espdev_esp *esp, struct sk_buff_head *out)
{
	const struct xfrm_offload *xo = xfrm_offload(skb);
	struct espdev_gso gso = { .x = x, .esp = esp, .end = skb->len };
	unsigned int size = skb_shinfo(skb)->gso_size, done = 0, n = 0;
	struct ip_esp_hdr esph;
	struct sk_buff *frame;

	if (skb->ip_summed != CHECKSUM_PARTIAL || !size ||
	    skb_copy_bits(skb, esp->esp, &esph, sizeof(esph)))
		return -EINVAL;
	gso.inner = esp->esp + sizeof(esph) + crypto_aead_ivsize(x->data);
	gso.l4 = skb_checksum_start_offset(skb);
	gso.tcp = skb->csum_offset == offsetof(struct tcphdr, check);
	gso.seq = (u64)xo->seq.hi << 32 | ntohl(esph.seq_no);
	/* In UDP the stack has put a trailer at the end of it all. */
	if (esp->encap)
		gso.end -= espdev_trailer(skb, gso.inner, crypto_aead_authsize(x->data));
	if (gso.tcp) {
		struct tcphdr th;

		if (skb_copy_bits(skb, gso.l4, &th, sizeof(th)))
			return -EINVAL;
		gso.headers = gso.l4 + th.doff * 4;
	} else {
		gso.headers = gso.l4 + sizeof(struct udphdr);
	}
	if (gso.headers >= gso.end || gso.l4 < gso.inner)
		return -EINVAL;

	for (; gso.headers + done < gso.end; done += size, n++) {
		frame = espdev_segment(port, skb, &gso, n, done,
				       min(size, gso.end - gso.headers - done));
		if (!frame)
			return -ENOMEM;
		__skb_queue_tail(out, frame);
	}
	return 0;
}

/*
 * espdev_frames - what goes out on the cable for skb. On failure it is dropped, and counted as bad.
 * Payload comes as the stack left it, in clear.
 */
int espdev_frames(struct espdev_port *port, struct sk_buff *skb, struct sk_buff_head *out)
{
	struct xfrm_offload *xo = xfrm_offload(skb);
	struct espdev_esp esp;
	struct xfrm_state *x;
	struct sk_buff *frame;
	int err;

	if (!xo || !(xo->flags & XFRM_XMIT)) {
		frame = espdev_copy(port, skb);
		if (!frame)
			return -ENOMEM;
		espdev_count(port, tx_plain, 1);
		__skb_queue_tail(out, frame);
		return 0;
	}

	x = xfrm_input_state(skb);
	err = -EINVAL;
	if (skb_sec_path(skb)->len != 1 || !x->xso.offload_handle || x->xso.dev != port->dev)
		goto bad;
	/* All headers are in the linear part; what a NIC parses is there. */
	if (!espdev_parse(skb->data, skb_headlen(skb), &esp) || esp.spi != x->id.spi)
		goto bad;

	if (skb_is_gso(skb)) {
		err = espdev_segments(port, skb, x, &esp, out);
		espdev_count(port, tx_gso, 1);
		espdev_count(port, tx_segments, skb_queue_len(out));
	} else {
		err = espdev_whole(port, skb, x, &esp, out);
		espdev_count(port, tx_esp, 1);
	}
	if (!err)
		return 0;
bad:
	espdev_count(port, tx_bad, 1);
	return err;
}
