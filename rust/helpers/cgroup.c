// SPDX-License-Identifier: GPL-2.0

#include <linux/cgroup.h>
#include "helpers.h"

void nfrust_helper_cgroup_put(struct cgroup *cgrp)
{
	cgroup_put(cgrp);
}
