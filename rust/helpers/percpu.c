// SPDX-License-Identifier: GPL-2.0

#include <linux/cpumask.h>
#include <linux/percpu.h>
#include "helpers.h"

/* for_each_possible_cpu() and per_cpu_ptr() are macros over each other; one shim serves both. */
u64 nfrust_helper_percpu_sum(const u64 __percpu *counter)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(counter, cpu));
	return sum;
}
