// SPDX-License-Identifier: GPL-2.0

//! What a state's mode added to a packet, and removes: a header around it, or nothing but the room
//! that ESP takes behind the header.
//!
//! The packet begins where ESP's payload does. Its network header is the one that ESP was behind,
//! its transport header is right before the payload where a header has to be moved to (transport,
//! BEET), or the payload itself (tunnel): what ESP leaves.

use super::{
    family::Esp,
    state::{Mode, State}, //
};
use crate::{
    netfilter::ip::{Ipv4, Ipv6, Version},
    skb::SkBuff, //
};
use kernel::prelude::*;
use logic::{
    byteorder::Be32,
    checksum,
    dsfield, //
};
use nf_bindings as bindings;

/// What became of a packet.
pub(crate) enum Removed {
    /// It is there, without what the mode added.
    Left,
    /// The mode took it.
    Kept,
}

/// Removes what the mode added: C's `xfrm_inner_mode_input()`. The packet's control block says what
/// the next header is.
///
/// Fails where the packet is not what the mode makes, or for want of memory.
#[inline]
pub(crate) fn remove<V: Esp>(x: &State, skb: &mut SkBuff, seq: Be32) -> Result<Removed> {
    match x.mode() {
        Mode::Transport => transport::<V>(skb)?,
        Mode::Tunnel => match u32::from(next_header(skb)) {
            bindings::IPPROTO_IPIP => tunnel_v4::<V>(x, skb)?,
            bindings::IPPROTO_IPV6 => tunnel_v6::<V>(x, skb)?,
            _ => return Err(EINVAL),
        },
        Mode::Beet => beet::<V>(x, skb)?,
        Mode::Other => return other(x, skb, seq),
    }
    Ok(Removed::Left)
}

/// What the payload is, as its control block says.
#[inline]
fn next_header(skb: &SkBuff) -> u8 {
    let cb = skb.control_block::<bindings::xfrm_mode_skb_cb>();
    // SAFETY: This is what the control block holds.
    unsafe { (*cb).protocol }
}

/// Functions of the mode's own module.
#[cold]
fn other(x: &State, skb: &mut SkBuff, seq: Be32) -> Result<Removed> {
    // SAFETY: The state is valid; its mode is never changed.
    let callbacks = unsafe { (*x.as_raw()).mode_cbs };
    if callbacks.is_null() {
        return Err(EOPNOTSUPP);
    }
    // SAFETY: The state keeps the mode's module.
    let Some(input) = (unsafe { (*callbacks).input }) else {
        return Err(EOPNOTSUPP);
    };
    let next = next_header(skb);
    // SAFETY: The state is valid.
    let seq_hi = unsafe { bindings::xfrm_replay_seqhi(x.as_raw(), seq.raw()) };
    let cb = skb.control_block_mut::<bindings::xfrm_skb_cb>();
    // SAFETY: C expects the number in the control block, and what the payload is over its end.
    let numbers = unsafe { &mut (*cb).seq.input };
    // SAFETY: As above.
    let numbers = unsafe { numbers.as_mut() };
    numbers.low = seq.raw();
    numbers.hi = seq_hi.to_be();
    let cb = skb.control_block_mut::<bindings::xfrm_mode_skb_cb>();
    // SAFETY: As above.
    unsafe { (*cb).protocol = next };
    // SAFETY: The packet is one of this state; the function takes it where it is in progress.
    match unsafe { input(x.as_raw(), skb.as_raw()) } {
        0 => Ok(Removed::Left),
        err if err == EINPROGRESS.to_errno() => Ok(Removed::Kept),
        err => Err(Error::from_errno(err)),
    }
}

/// Moves the header over to the payload.
#[inline]
fn transport<V: Esp>(skb: &mut SkBuff) -> Result {
    let (to, from) = (skb.transport_place(), skb.network_place());
    let header_len = skb.data_place().wrapping_sub(to);
    if to != from {
        if !skb.move_bytes(from, to, header_len) {
            return Err(EINVAL);
        }
        // The whole of it: with a VLAN's tag in front, more than the link layer's header.
        let mac_len = skb.mac_place().map_or(0, |mac| from.wrapping_sub(mac));
        // Nothing to note where no device worked for the packet.
        let _ = skb.set_orig_mac_len(mac_len);
        skb.set_network_place(to);
    }
    let len = skb.len().wrapping_add(u32::from(header_len));
    V::set_length(skb, len)?;
    let payload = skb.data_place();
    skb.set_transport_place(payload);
    Ok(())
}

/// The byte of the outer header that says how the packet was treated.
#[inline]
fn outer_dsfield<V: Esp>(skb: &mut SkBuff) -> Result<u8> {
    let place = skb.network_place();
    let &mut word = skb.bytes_at_mut(place).ok_or(EINVAL)?;
    Ok(V::dsfield(word))
}

/// Ends a tunnel: what arrived is a packet of another protocol, perhaps, behind the same header of
/// the link layer.
#[inline]
fn end_tunnel(skb: &mut SkBuff) {
    let header = skb.data_place();
    skb.set_network_place(header);
    skb.rebuild_mac_header();
    if skb.mac_len() != 0 {
        skb.write_mac_protocol();
    }
}

#[inline]
fn tunnel_v4<V: Esp>(x: &State, skb: &mut SkBuff) -> Result {
    skb.set_protocol(Ipv4::ETHERTYPE);
    if !skb.may_pull(Ipv4::HEADER_LEN) {
        return Err(EINVAL);
    }
    skb.unclone()?;
    let outer = outer_dsfield::<V>(skb)?;
    let flags = x.flags();
    let place = skb.transport_place();
    let header = skb.bytes_at_mut(place).ok_or(EINVAL)?;
    if flags & bindings::XFRM_STATE_DECAP_DSCP as u8 != 0 {
        dsfield::copy_dscp_v4(header, outer);
    }
    if flags & bindings::XFRM_STATE_NOECN as u8 == 0 && dsfield::is_ce(outer) {
        dsfield::set_ce_v4(header);
    }
    end_tunnel(skb);
    Ok(())
}

#[inline]
fn tunnel_v6<V: Esp>(x: &State, skb: &mut SkBuff) -> Result {
    skb.set_protocol(Ipv6::ETHERTYPE);
    if !skb.may_pull(Ipv6::HEADER_LEN) {
        return Err(EINVAL);
    }
    skb.unclone()?;
    let outer = outer_dsfield::<V>(skb)?;
    let flags = x.flags();
    let place = skb.transport_place();
    let word = skb.bytes_at_mut(place).ok_or(EINVAL)?;
    if flags & bindings::XFRM_STATE_DECAP_DSCP as u8 != 0 {
        *word = dsfield::copy_dscp_v6(*word, outer);
    }
    if flags & bindings::XFRM_STATE_NOECN as u8 == 0 && dsfield::is_ce(outer) {
        let from = *word;
        let to = dsfield::set_ce_v6(from);
        *word = to;
        skb.adapt_checksum(from, to);
    }
    end_tunnel(skb);
    Ok(())
}

/// What of an outer header a BEET state takes over to the inner one.
struct Outer {
    /// IPv4's; 0 behind IPv6.
    id: [u8; 2],
    /// IPv4's; behind IPv6 not to be fragmented.
    frag_off: [u8; 2],
    dsfield: u8,
    ttl: u8,
    flow_label: [u8; 3],
}

/// `IP_DF`.
const DONT_FRAGMENT: [u8; 2] = [0x40, 0];

/// Reads it: C's `xfrm4_extract_header()`, `xfrm6_extract_header()`.
fn outer<V: Esp>(skb: &mut SkBuff) -> Result<Outer> {
    let place = skb.network_place();
    let &mut header = skb.bytes_at_mut::<20>(place).ok_or(EINVAL)?;
    let [word @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = header;
    if V::ADDRESS_FAMILY == Ipv4::ADDRESS_FAMILY {
        return Ok(Outer {
            id: [header[4], header[5]],
            frag_off: [header[6], header[7]],
            dsfield: header[1],
            ttl: header[8],
            flow_label: [0; 3],
        });
    }
    Ok(Outer {
        id: [0; 2],
        frag_off: DONT_FRAGMENT,
        dsfield: dsfield::of_v6(word),
        ttl: header[7],
        flow_label: [word[1], word[2], word[3]],
    })
}

/// Makes a header up, of the version that the state's selector has.
#[inline(never)]
fn beet<V: Esp>(x: &State, skb: &mut SkBuff) -> Result {
    let outer = outer::<V>(skb)?;
    let selector = x.selector();
    match u32::from(selector.family) {
        Ipv4::ADDRESS_FAMILY => beet_v4(skb, &outer, &selector),
        Ipv6::ADDRESS_FAMILY => beet_v6(skb, &outer, &selector),
        _ => Err(EOPNOTSUPP),
    }
}

fn beet_v4(skb: &mut SkBuff, outer: &Outer, selector: &bindings::xfrm_selector) -> Result {
    const PSEUDO_LEN: u32 = 4;
    /// As much as options with their pseudo header and its padding can be, bytes.
    const PSEUDO_MAX_LEN: u8 = 8;

    skb.set_protocol(Ipv4::ETHERTYPE);
    let mut protocol = next_header(skb);
    let mut options_len = 0;
    if u32::from(protocol) == bindings::IPPROTO_BEETPH {
        // Options of the inner header stand behind a header of their own.
        if !skb.may_pull(PSEUDO_LEN) {
            return Err(EINVAL);
        }
        let place = skb.data_place();
        let &mut [next, len, padding, _] = skb.bytes_at_mut(place).ok_or(EINVAL)?;
        let pseudo_len = PSEUDO_LEN.wrapping_add(padding.into());
        let total = u32::from(len) * 8 + u32::from(PSEUDO_MAX_LEN);
        let options = total.checked_sub(pseudo_len).ok_or(EINVAL)?;
        if options & 3 != 0 || options > 250 {
            return Err(EINVAL);
        }
        options_len = options;
        protocol = next;
        let cb = skb.control_block_mut::<bindings::xfrm_mode_skb_cb>();
        // SAFETY: This is what the control block holds.
        unsafe { (*cb).protocol = next };
        if !skb.pull(pseudo_len) {
            return Err(EINVAL);
        }
    }
    skb.unclone()?;
    if !skb.push(Ipv4::HEADER_LEN) {
        return Err(EINVAL);
    }
    let place = skb.data_place();
    skb.set_network_place(place);
    skb.rebuild_mac_header();

    // In words, in a field of four bits, as C has it.
    let ihl = (5 + (options_len >> 2)) as u8 & 0x0f;
    let len = skb.len() as u16;
    let header = skb.bytes_at_mut::<20>(place).ok_or(EINVAL)?;
    *header = [0; 20];
    header[0] = 0x40 | ihl;
    header[1] = outer.dsfield;
    header[2..4].copy_from_slice(&len.to_be_bytes());
    header[4..6].copy_from_slice(&outer.id);
    header[6..8].copy_from_slice(&outer.frag_off);
    header[8] = outer.ttl;
    header[9] = protocol;
    // SAFETY: The selector is one of IPv4.
    let saddr = unsafe { selector.saddr.a4 };
    // SAFETY: As above.
    let daddr = unsafe { selector.daddr.a4 };
    header[12..16].copy_from_slice(&saddr.to_ne_bytes());
    header[16..20].copy_from_slice(&daddr.to_ne_bytes());
    let len = usize::from(ihl) * 4;
    let check = skb.bytes_at(place, len).map(checksum::of_header);
    let header = skb.bytes_at_mut::<20>(place).ok_or(EINVAL)?;
    header[10..12].copy_from_slice(&check.ok_or(EINVAL)?);
    Ok(())
}

fn beet_v6(skb: &mut SkBuff, outer: &Outer, selector: &bindings::xfrm_selector) -> Result {
    skb.set_protocol(Ipv6::ETHERTYPE);
    let protocol = next_header(skb);
    let mac_len = u32::from(skb.mac_len());
    skb.make_headroom(Ipv6::HEADER_LEN.wrapping_add(mac_len))?;
    let len = skb.len() as u16;
    if !skb.push(Ipv6::HEADER_LEN) {
        return Err(EINVAL);
    }
    let place = skb.data_place();
    skb.set_network_place(place);
    skb.rebuild_mac_header();

    let header = skb.bytes_at_mut::<40>(place).ok_or(EINVAL)?;
    header[..4].copy_from_slice(&dsfield::with_v6(
        [
            0x60,
            outer.flow_label[0] & 0x0f,
            outer.flow_label[1],
            outer.flow_label[2],
        ],
        outer.dsfield,
    ));
    header[4..6].copy_from_slice(&len.to_be_bytes());
    header[6] = protocol;
    header[7] = outer.ttl;
    // SAFETY: The selector is one of IPv6.
    let saddr = unsafe { selector.saddr.a6 };
    // SAFETY: As above.
    let daddr = unsafe { selector.daddr.a6 };
    let words = Iterator::chain(saddr.iter(), &daddr);
    for (to, from) in header[8..40].chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&from.to_ne_bytes());
    }
    Ok(())
}
