// SPDX-License-Identifier: GPL-2.0

//! IPsec policies.
//!
//! C header: [`include/net/xfrm.h`](srctree/include/net/xfrm.h)

use crate::{
    dst::OwnedDst,
    errno,
    netfilter::ip::{Packet, Version},
    netns::Net, //
};
use core::{
    mem::MaybeUninit,
    ptr, //
};
use kernel::prelude::*;
use logic::nat::OutPolicies;
use nf_bindings as bindings;

/// What of the namespace's policies decides whether an outgoing packet has to be looked up. Each
/// is read once, without a lock, as C does.
#[inline(always)]
pub fn out_policies(net: &Net) -> OutPolicies {
    const OUT: usize = bindings::XFRM_POLICY_OUT as usize;
    const SOCKET_OUT: usize = bindings::XFRM_POLICY_MAX as usize + OUT;

    // SAFETY: The namespace is valid.
    let xfrm = unsafe { &raw const (*net.as_raw()).xfrm };
    // SAFETY: As above.
    let counts = unsafe { &raw const (*xfrm).policy_count }.cast::<u32>();
    // SAFETY: As above.
    let defaults = unsafe { &raw const (*xfrm).policy_default }.cast::<u8>();
    // SAFETY: There are counts for all directions, of policies and of policies of sockets.
    let global = unsafe { counts.wrapping_add(OUT).read_volatile() };
    // SAFETY: As above.
    let per_socket = unsafe { counts.wrapping_add(SOCKET_OUT).read_volatile() };
    // SAFETY: There are defaults for all directions.
    let default = unsafe { defaults.wrapping_add(OUT).read_volatile() };

    OutPolicies {
        global,
        per_socket,
        default_accepts: u32::from(default) == bindings::XFRM_USERPOLICY_ACCEPT,
    }
}

/// Looks a packet of version `V`, which has a route, up among the policies of `net`, and routes it
/// as the one that matches says: `nf_xfrm_me_harder()`.
///
/// Fails with `EHOSTUNREACH` where the route is being destroyed, with `EPERM` where policy forbids
/// the packet, with `ENOMEM`, or with what the lookup of a bundle fails with; the packet is then to
/// be dropped.
#[inline(never)]
pub fn lookup_again<V: Version>(net: &Net, packet: Packet<'_, V>) -> Result {
    let mut flow = MaybeUninit::<bindings::flowi>::uninit();
    let skb = packet.into_skb();
    // SAFETY: The packet is valid, of this family, and there is room for a flow.
    errno::check(unsafe {
        bindings::__xfrm_decode_session(
            net.as_raw(),
            skb.as_raw(),
            flow.as_mut_ptr(),
            V::ADDRESS_FAMILY,
            0,
        )
    })?;

    let dst = skb.dst().ok_or(EHOSTUNREACH)?.plain();
    let dst = dst.hold_safe().ok_or(EHOSTUNREACH)?;
    let sock = skb.sock().filter(|sock| sock.is_in(net));

    // SAFETY: All are valid, and the flow was filled above. The lookup takes the reference over.
    let dst = errno::check_ptr(unsafe {
        bindings::xfrm_lookup(
            net.as_raw(),
            dst.into_raw(),
            flow.as_ptr(),
            sock.map_or(ptr::null(), |sock| ptr::from_ref(sock).cast()),
            0,
        )
    })?;
    // SAFETY: A lookup that succeeds returns a route with a reference.
    let dst = unsafe { OwnedDst::from_raw(dst) };
    // The new device's header may need more room.
    let need = dst.hard_header_len();
    skb.set_dst(dst);
    let have = skb.headroom();
    if have < need {
        skb.expand_head(need - have)?;
    }
    Ok(())
}
