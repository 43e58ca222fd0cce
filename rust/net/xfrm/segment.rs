// SPDX-License-Identifier: GPL-2.0

//! Packets with ESP's header in front that are cut into segments: what stands before the payload is
//! stepped over, and the payload's own protocol does the cutting.

use super::{
    family::Esp,
    offload::Segments,
    output::{self, Outgoing, Output}, //
};
use crate::{
    errno,
    gso::{Features, GsoType},
    netfilter::ip::{Ipv4, Ipv6},
    skb::SkBuff, //
};
use kernel::prelude::*;
use logic::header::{Headers, Scratch};
use nf_bindings as bindings;

/// What differs between segments in IPv4 and in IPv6.
pub trait Segment: Output {
    /// Whether this is IPv6.
    const IS_V6: bool;
    /// TCP over this version.
    const TCP: GsoType;
    /// In this version.
    const INSIDE: GsoType;
    /// The number of the other version as a payload.
    const OTHER_IP: u8;

    /// The functions for a protocol: `inet_offloads[]`.
    #[doc(hidden)]
    fn offloads() -> *const [*const bindings::net_offload; 256];
}

impl Segment for Ipv4 {
    const IS_V6: bool = false;
    const TCP: GsoType = GsoType::TCP_V4;
    const INSIDE: GsoType = GsoType::IN_V4;
    const OTHER_IP: u8 = bindings::IPPROTO_IPV6 as u8;

    #[inline(always)]
    fn offloads() -> *const [*const bindings::net_offload; 256] {
        // Only the address is taken.
        (&raw const bindings::inet_offloads).cast()
    }
}

impl Segment for Ipv6 {
    const IS_V6: bool = true;
    const TCP: GsoType = GsoType::TCP_V6;
    const INSIDE: GsoType = GsoType::IN_V6;
    const OTHER_IP: u8 = bindings::IPPROTO_IPIP as u8;

    #[inline(always)]
    fn offloads() -> *const [*const bindings::net_offload; 256] {
        // Only the address is taken.
        (&raw const bindings::inet6_offloads).cast()
    }
}

/// How much of [`BeetHeader`] a BEET state has counted in front, bytes: `IPV4_BEET_PHMAXLEN`.
pub const BEET_HEADER_LEN: u32 = bindings::IPV4_BEET_PHMAXLEN;
/// [`BeetHeader`]'s number, `IPPROTO_BEETPH`.
pub const BEET_HEADER: u8 = bindings::IPPROTO_BEETPH as u8;
/// TCP's.
pub const TCP: u8 = bindings::IPPROTO_TCP as u8;

/// The header that precedes what a BEET state carries, where IPv4's header had options.
#[derive(Clone, Copy, Debug)]
pub struct BeetHeader {
    /// What follows, `IPPROTO_*`.
    pub next: u8,
    /// Its length beyond the first 8 bytes, bytes.
    pub len: u32,
}

impl<V: Segment> Outgoing<'_, V> {
    /// Steps over ESP's header, the initialization vector, and the room for UDP's header where the
    /// state puts one in front. `EINVAL` where the SPI is not the state's, or the packet ends
    /// before.
    #[inline]
    pub fn pull_esp(&mut self) -> Result {
        const HEADER_LEN: u32 = 8;
        const UDP_LEN: u32 = 8;

        let place = self.skb.transport_place();
        let &mut spi = self.skb.bytes_at_mut::<4>(place).ok_or(EINVAL)?;
        if u32::from_ne_bytes(spi) != self.state().spi().raw() {
            return Err(EINVAL);
        }
        let mut len = HEADER_LEN.wrapping_add(self.state().iv_len());
        if self.state().is_in_udp() {
            len = len.wrapping_add(UDP_LEN);
        }
        if !self.skb.pull(len) {
            return Err(EINVAL);
        }
        self.skb.want_outer_checksum();
        Ok(())
    }

    /// Moves where the transport header is, `by` bytes.
    #[inline]
    pub fn move_transport(&mut self, by: i32) {
        let place = self.skb.transport_place().wrapping_add(by as u16);
        self.skb.set_transport_place(place);
    }

    /// Moves it over what the state puts in front.
    #[inline]
    pub fn step_over_state(&mut self) {
        self.move_transport(self.state().header_len());
    }

    /// The header that the data begins with, if that is [`BeetHeader`].
    #[inline]
    pub fn beet_header(&self) -> Option<BeetHeader> {
        let skb: &SkBuff = self.skb;
        let mut scratch = Scratch::new();
        let &[next, len, _, _] = skb.header(0, &mut scratch)?;
        Some(BeetHeader {
            next,
            len: u32::from(len) * 8,
        })
    }

    /// Moves the transport header over IPv6's extension headers, which the data begins with, the
    /// first of them `next`; what follows, `IPPROTO_*`. `EINVAL` where they have no end.
    #[inline]
    pub fn step_over_extensions(&mut self, next: u8) -> Result<u8> {
        let mut next = next;
        let len = output::skip_extensions(self.skb, 0, &mut next).ok_or(EINVAL)?;
        self.move_transport(len as i32);
        Ok(next)
    }

    /// Adds to what the segments are.
    #[inline]
    pub fn add_gso_type(&mut self, kind: GsoType) {
        self.skb.add_gso_type(kind);
    }

    /// Lets the data begin at the transport header. `EINVAL` where the packet ends before.
    #[inline]
    pub fn begin_at_transport(&mut self) -> Result {
        let place = self.skb.transport_place();
        if self.skb.begin_at(place) {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }

    /// Cuts by the functions of `protocol` over this version. `EINVAL` where it has none, or where
    /// the transport header is not where the data begins; else what they fail with.
    #[inline]
    pub fn cut(self, protocol: u8, features: Features) -> Result<Segments> {
        if self.skb.transport_place() != self.skb.data_place() {
            return Err(EINVAL);
        }
        let offloads = V::offloads();
        let slot = offloads
            .cast::<*const bindings::net_offload>()
            .wrapping_add(protocol.into());
        // SAFETY: There is a place for each protocol. It is written while this may be read, as a
        // whole.
        let ops = unsafe { slot.read_volatile() };
        if ops.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: GSO is inside an RCU read section, which keeps what was found.
        let Some(cut) = (unsafe { (*ops).callbacks.gso_segment }) else {
            return Err(EINVAL);
        };
        // SAFETY: The packet is ours, and the header of that protocol is to be where its data
        // begins; the function checks what it reads.
        segments(unsafe { cut(self.skb.as_raw(), features.raw()) })
    }

    /// Cuts the packet that a tunnel carries: `skb_eth_gso_segment()`.
    #[inline]
    pub fn cut_inner(mut self, features: Features) -> Result<Segments> {
        let protocol = self.protocol();
        let other = match V::IS_V6 {
            true => <Ipv4 as Esp>::ETHERTYPE,
            false => <Ipv6 as Esp>::ETHERTYPE,
        };
        // What is neither counts as this version.
        let ethertype = match self.state().inner_family(protocol) == Self::OTHER_FAMILY {
            true => other,
            false => V::ETHERTYPE,
        };
        // SAFETY: The packet is ours; the function checks what it reads.
        segments(unsafe {
            bindings::skb_eth_gso_segment(self.skb.as_raw(), features.raw(), ethertype.to_be())
        })
    }

    /// The other version's family.
    const OTHER_FAMILY: u32 = match V::IS_V6 {
        true => bindings::AF_INET,
        false => bindings::AF_INET6,
    };
}

/// What C's functions for segmentation return.
#[inline]
fn segments(raw: *mut bindings::sk_buff) -> Result<Segments> {
    if raw.is_null() {
        // A device does the rest.
        // SAFETY: NULL is a list of none.
        return Ok(unsafe { Segments::from_raw(raw) });
    }
    let raw = errno::check_ptr(raw)?;
    // SAFETY: It is a list of packets that nobody else has.
    Ok(unsafe { Segments::from_raw(raw.as_ptr()) })
}
