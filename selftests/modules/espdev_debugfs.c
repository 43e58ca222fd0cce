// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/debug/nfrust_espdev/<port>/: one file for each knob, and
 *
 *	counters	what happened, one "name value" a line
 *	flush		write anything: deliver what is held back
 *	frame		the template of "inject", as bytes from the MAC header; can be written
 *	inject		write N: deliver N copies of the template, with sequence numbers of their own
 *	inject_ns	how long the last of these took
 */
#include <linux/debugfs.h>
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include "espdev.h"

#define ESPDEV_KNOBS(X)								\
	X(drop_every) X(dup_every) X(reorder_every) X(reorder_by) X(spread)	\
	X(queue) X(hold) X(status) X(status_every) X(miss_every)		\
	X(nosp_every) X(ip_summed) X(headlen) X(cloned) X(gro) X(capture)	\
	X(inject_seq) X(inject_step) X(inject_queues) X(inject_burst) X(inject_sink)

static int espdev_counters_show(struct seq_file *file, void *unused)
{
	struct espdev_port *port = file->private;

#define ESPDEV_SHOW(name) \
	seq_printf(file, #name " %lld\n", atomic64_read(&port->counters.name));
	ESPDEV_COUNTERS(ESPDEV_SHOW)
#undef ESPDEV_SHOW
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(espdev_counters);

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
	int err;

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
	err = espdev_set_template(port, frame);
	mutex_unlock(&port->inject_lock);
	return err ?: count;
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

#define ESPDEV_FILE(name) debugfs_create_u32(#name, 0600, dir, &port->knobs.name);
	ESPDEV_KNOBS(ESPDEV_FILE)
#undef ESPDEV_FILE
	debugfs_create_file("counters", 0400, dir, port, &espdev_counters_fops);
	debugfs_create_file("frame", 0600, dir, port, &espdev_frame_fops);
	debugfs_create_file_unsafe("inject", 0200, dir, port, &espdev_inject_fops);
	debugfs_create_file_unsafe("flush", 0200, dir, port, &espdev_flush_fops);
	debugfs_create_u64("inject_ns", 0400, dir, &port->inject_ns);
}
