// SPDX-License-Identifier: GPL-2.0
#include "cgroup.c"
#include "percpu.c"
