// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/debug/nfrust_espdev/<port>/: one file for each knob, and
 *
 *	counters	what happened, one "name value" a line
 *	flush		write anything: deliver what is held back, let go on what is stalled
 *	locks		of each receive state: SPI, and the address of its lock
 *	frame		the template of "inject", as bytes from the MAC header; can be written
 *	inject		write N: deliver N copies of the template, each with its own number
 *	inject_ns	how long the last of these took
 *	bursts		when its bursts began, a line a queue: the first ESPDEV_BURSTS of them
 */
#include <linux/debugfs.h>
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include "espdev.h"

struct espdev_entry {
	const char *name;
	size_t offset;
};

static const struct espdev_entry espdev_knob_entries[] = {
	{ "drop_every", offsetof(struct espdev_knobs, drop_every) },
	{ "dup_every", offsetof(struct espdev_knobs, dup_every) },
	{ "reorder_every", offsetof(struct espdev_knobs, reorder_every) },
	{ "reorder_by", offsetof(struct espdev_knobs, reorder_by) },
	{ "spread", offsetof(struct espdev_knobs, spread) },
	{ "queue", offsetof(struct espdev_knobs, queue) },
	{ "hold", offsetof(struct espdev_knobs, hold) },
	{ "stall", offsetof(struct espdev_knobs, stall) },
	{ "status", offsetof(struct espdev_knobs, status) },
	{ "status_every", offsetof(struct espdev_knobs, status_every) },
	{ "miss_every", offsetof(struct espdev_knobs, miss_every) },
	{ "nosp_every", offsetof(struct espdev_knobs, nosp_every) },
	{ "ip_summed", offsetof(struct espdev_knobs, ip_summed) },
	{ "headlen", offsetof(struct espdev_knobs, headlen) },
	{ "cloned", offsetof(struct espdev_knobs, cloned) },
	{ "gro", offsetof(struct espdev_knobs, gro) },
	{ "capture", offsetof(struct espdev_knobs, capture) },
	{ "inject_seq", offsetof(struct espdev_knobs, inject_seq) },
	{ "inject_step", offsetof(struct espdev_knobs, inject_step) },
	{ "inject_stride", offsetof(struct espdev_knobs, inject_stride) },
	{ "inject_queues", offsetof(struct espdev_knobs, inject_queues) },
	{ "inject_burst", offsetof(struct espdev_knobs, inject_burst) },
	{ "inject_sink", offsetof(struct espdev_knobs, inject_sink) },
};

static const struct espdev_entry espdev_counter_entries[] = {
	{ "tx_plain", offsetof(struct espdev_counters, tx_plain) },
	{ "tx_esp", offsetof(struct espdev_counters, tx_esp) },
	{ "tx_gso", offsetof(struct espdev_counters, tx_gso) },
	{ "tx_segments", offsetof(struct espdev_counters, tx_segments) },
	{ "tx_bad", offsetof(struct espdev_counters, tx_bad) },
	{ "rx_plain", offsetof(struct espdev_counters, rx_plain) },
	{ "rx_esp", offsetof(struct espdev_counters, rx_esp) },
	{ "rx_done", offsetof(struct espdev_counters, rx_done) },
	{ "rx_miss", offsetof(struct espdev_counters, rx_miss) },
	{ "rx_nosp", offsetof(struct espdev_counters, rx_nosp) },
	{ "rx_cipher", offsetof(struct espdev_counters, rx_cipher) },
	{ "dropped", offsetof(struct espdev_counters, dropped) },
	{ "duplicated", offsetof(struct espdev_counters, duplicated) },
	{ "reordered", offsetof(struct espdev_counters, reordered) },
	{ "overrun", offsetof(struct espdev_counters, overrun) },
	{ "stalled", offsetof(struct espdev_counters, stalled) },
	{ "polls", offsetof(struct espdev_counters, polls) },
	{ "injected", offsetof(struct espdev_counters, injected) },
	{ "esn_advances", offsetof(struct espdev_counters, esn_advances) },
	{ "states", offsetof(struct espdev_counters, states) },
};

static int espdev_counters_show(struct seq_file *file, void *unused)
{
	struct espdev_port *port = file->private;
	unsigned int i, cpu;
	s64 sum;

	for (i = 0; i < ARRAY_SIZE(espdev_counter_entries); i++) {
		const struct espdev_entry *entry = &espdev_counter_entries[i];

		sum = 0;
		for_each_possible_cpu(cpu)
			sum += READ_ONCE(*(u64 *)((void *)per_cpu_ptr(port->counters, cpu) +
						  entry->offset));
		seq_printf(file, "%s %lld\n", entry->name, sum);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(espdev_counters);

static int espdev_locks_show(struct seq_file *file, void *unused)
{
	struct espdev_port *port = file->private;
	struct espdev_sa *sa;
	unsigned int i;

	rcu_read_lock();
	for (i = 0; i < ARRAY_SIZE(port->sa); i++)
		hlist_for_each_entry_rcu(sa, &port->sa[i], node)
			seq_printf(file, "%x %lx\n", ntohl(sa->x->id.spi),
				   (unsigned long)&sa->x->lock);
	rcu_read_unlock();
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(espdev_locks);

static int espdev_bursts_show(struct seq_file *file, void *unused)
{
	struct espdev_port *port = file->private;
	unsigned int i, burst;

	mutex_lock(&port->inject_lock);
	for (i = 0; i < port->nqueues; i++) {
		struct espdev_queue *queue = &port->queues[i];

		seq_printf(file, "%u", i);
		for (burst = 0; burst < queue->nbursts; burst++)
			seq_printf(file, " %llu", queue->bursts[burst]);
		seq_putc(file, '\n');
	}
	mutex_unlock(&port->inject_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(espdev_bursts);

static ssize_t espdev_frame_read(struct file *file, char __user *buffer, size_t count, loff_t *at)
{
	struct espdev_port *port = file->private_data;
	struct sk_buff *template;
	ssize_t result = 0;

	mutex_lock(&port->inject_lock);
	template = espdev_template(port);
	if (template)
		result = simple_read_from_buffer(buffer, count, at, template->data, template->len);
	mutex_unlock(&port->inject_lock);
	return result;
}

static ssize_t espdev_frame_write(struct file *file, const char __user *buffer, size_t count,
				  loff_t *at)
{
	struct espdev_port *port = file->private_data;
	struct sk_buff *frame;

	if (*at || count < ETH_HLEN || count > ETH_MAX_MTU)
		return -EINVAL;
	frame = alloc_skb(count, GFP_KERNEL);
	if (!frame)
		return -ENOMEM;
	if (copy_from_user(skb_put(frame, count), buffer, count)) {
		kfree_skb(frame);
		return -EFAULT;
	}
	mutex_lock(&port->inject_lock);
	espdev_template(port);
	espdev_set_template(port, frame);
	mutex_unlock(&port->inject_lock);
	return count;
}

static const struct file_operations espdev_frame_fops = {
	.owner	= THIS_MODULE,
	.open	= simple_open,
	.read	= espdev_frame_read,
	.write	= espdev_frame_write,
};

static int espdev_inject_set(void *port, u64 count)
{
	return count > U32_MAX ? -ERANGE : espdev_inject(port, count);
}
DEFINE_DEBUGFS_ATTRIBUTE(espdev_inject_fops, NULL, espdev_inject_set, "%llu\n");

static int espdev_flush_set(void *port, u64 unused)
{
	espdev_flush(port);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(espdev_flush_fops, NULL, espdev_flush_set, "%llu\n");

void espdev_debugfs_add(struct espdev_port *port, struct dentry *parent, const char *name)
{
	struct dentry *dir = debugfs_create_dir(name, parent);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(espdev_knob_entries); i++) {
		const struct espdev_entry *entry = &espdev_knob_entries[i];

		debugfs_create_u32(entry->name, 0600, dir, (void *)&port->knobs + entry->offset);
	}
	debugfs_create_file("counters", 0400, dir, port, &espdev_counters_fops);
	debugfs_create_file("locks", 0400, dir, port, &espdev_locks_fops);
	debugfs_create_file("bursts", 0400, dir, port, &espdev_bursts_fops);
	debugfs_create_file("frame", 0600, dir, port, &espdev_frame_fops);
	debugfs_create_file_unsafe("inject", 0200, dir, port, &espdev_inject_fops);
	debugfs_create_file_unsafe("flush", 0200, dir, port, &espdev_flush_fops);
	debugfs_create_u64("inject_ns", 0400, dir, &port->inject_ns);
}
