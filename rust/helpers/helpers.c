// SPDX-License-Identifier: GPL-2.0
#include "cgroup.c"
#include "net_namespace.c"
#include "netdevice.c"
#include "percpu.c"
#include "skbuff.c"
#include "xfrm.c"
