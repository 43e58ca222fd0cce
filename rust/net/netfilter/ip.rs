// SPDX-License-Identifier: GPL-2.0

//! Packets of one IP version.

use crate::{
    conntrack::Endpoint,
    skb::SkBuff, //
};
use core::marker::PhantomData;
use logic::{
    icmp::{self, NoQuote, Quote},
    ipv6, //
};
use nf_bindings as bindings;

/// An IP version. [`Ipv4`] and [`Ipv6`] are the two.
pub trait Version: sealed::Sealed + 'static {
    /// An address, as its bytes stand in the packet.
    type Addr: Copy;

    /// The protocol number of its ICMP.
    const ICMP: u8;
    /// Where the source address stands in the header, and behind it the destination's.
    #[doc(hidden)]
    const SADDR_OFFSET: usize;

    /// What the ICMP error at `offset` quotes.
    fn quote(skb: &SkBuff, offset: u32) -> Result<Quote<Self::Addr>, NoQuote>;

    /// The address of one end of a connection of this version.
    fn endpoint_addr(endpoint: &Endpoint) -> &Self::Addr;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Ipv4 {}
    impl Sealed for super::Ipv6 {}
}

/// IP version 4.
pub enum Ipv4 {}
/// IP version 6.
pub enum Ipv6 {}

impl Version for Ipv4 {
    type Addr = [u8; 4];

    const ICMP: u8 = bindings::IPPROTO_ICMP as u8;
    const SADDR_OFFSET: usize = core::mem::offset_of!(bindings::iphdr, __bindgen_anon_1);

    #[inline(never)]
    fn quote(skb: &SkBuff, offset: u32) -> Result<Quote<[u8; 4]>, NoQuote> {
        icmp::quote_v4(skb, offset)
    }

    #[inline]
    fn endpoint_addr(endpoint: &Endpoint) -> &[u8; 4] {
        endpoint.addr_v4()
    }
}

impl Version for Ipv6 {
    type Addr = [u8; 16];

    const ICMP: u8 = bindings::IPPROTO_ICMPV6 as u8;
    const SADDR_OFFSET: usize = core::mem::offset_of!(bindings::ipv6hdr, __bindgen_anon_1);

    #[inline(never)]
    fn quote(skb: &SkBuff, offset: u32) -> Result<Quote<[u8; 16]>, NoQuote> {
        icmp::quote_v6(skb, offset)
    }

    #[inline]
    fn endpoint_addr(endpoint: &Endpoint) -> &[u8; 16] {
        endpoint.addr_v6()
    }
}

const _: () = assert!(ipv6::MAX_EXTENSION_HEADERS == bindings::IP6_MAX_EXT_HDRS_CNT as usize);

/// What follows a packet's IP header, and its extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The protocol, `IPPROTO_*`.
    pub protocol: u8,
    /// Where it begins, in bytes from `skb->data`.
    pub offset: u32,
    /// Whether the packet is a fragment other than the first: then no header is at `offset`.
    pub later_fragment: bool,
}

/// A packet of version `V` that a hook was given.
///
/// # Invariants
///
/// A `V` header is at the network header, in the linear part.
pub struct Packet<'a, V: Version> {
    skb: &'a mut SkBuff,
    _version: PhantomData<V>,
}

impl<'a, V: Version> Packet<'a, V> {
    /// Says that a packet is of this version.
    ///
    /// # Safety
    ///
    /// The packet must have a `V` header at its network header, all of it in the linear part. The
    /// IP layers see to this before they call netfilter's hooks.
    #[inline]
    pub(crate) unsafe fn new(skb: &'a mut SkBuff) -> Self {
        // INVARIANT: By the requirement on this function.
        Self {
            skb,
            _version: PhantomData,
        }
    }

    /// The packet, to be looked at.
    #[inline]
    pub fn skb(&self) -> &SkBuff {
        self.skb
    }

    /// The packet, for what may move its data.
    #[inline]
    pub fn skb_mut(&mut self) -> &mut SkBuff {
        self.skb
    }

    /// The source and the destination address.
    #[inline]
    pub fn addrs(&self) -> (&V::Addr, &V::Addr) {
        let source = self
            .skb
            .network_header()
            .wrapping_add(V::SADDR_OFFSET)
            .cast::<V::Addr>();
        // SAFETY: By the type's invariants the header is there and stays while the packet is
        // borrowed; an address is an array of bytes, which has no alignment to keep.
        unsafe { (&*source, &*source.add(1)) }
    }
}

impl Packet<'_, Ipv6> {
    /// Walks the extension headers: `ipv6_find_hdr()` for the payload. `None` if the walk fails.
    #[cold]
    #[inline(never)]
    pub fn find_payload(&self) -> Option<Payload> {
        let mut offset = 0u32;
        let mut fragment_offset = 0u16;
        // SAFETY: The packet is valid and has an IPv6 header.
        let protocol = unsafe {
            bindings::ipv6_find_hdr(
                self.skb.as_raw(),
                &mut offset,
                -1,
                &mut fragment_offset,
                core::ptr::null_mut(),
            )
        };
        Some(Payload {
            protocol: u8::try_from(protocol).ok()?,
            offset,
            later_fragment: fragment_offset != 0,
        })
    }
}
