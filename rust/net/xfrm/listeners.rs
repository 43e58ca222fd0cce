// SPDX-License-Identifier: GPL-2.0

//! Who listens to what happens to states.
//!
//! C header: [`include/net/xfrm.h`](srctree/include/net/xfrm.h)

use crate::netns::Net;
use core::ptr::addr_of;
use nf_bindings as bindings;

/// Whether anybody wants to know which sequence numbers were received: `xfrm_aevent_is_on()`.
///
/// Inside an RCU read section, where all packets are received.
#[inline]
pub fn to_aevents(net: &Net) -> bool {
    // SAFETY: The namespace is valid; only an address is taken.
    let sock = unsafe { addr_of!((*net.as_raw()).xfrm.nlsk) };
    // SAFETY: C reads this without a lock, too.
    let sock = unsafe { sock.read_volatile() }.cast::<bindings::sock>();
    if sock.is_null() {
        return false;
    }
    // SAFETY: The socket stays until the RCU read section ends.
    let listeners =
        unsafe { bindings::netlink_has_listeners(sock, bindings::xfrm_nlgroups_XFRMNLGRP_AEVENTS) };
    listeners != 0
}
