// SPDX-License-Identifier: GPL-2.0

//! Packets of one IP version.

use crate::{
    conntrack::Endpoint,
    skb::SkBuff,
    sock::FullSock, //
};
use core::marker::PhantomData;
use logic::{
    header::Headers,
    icmp::{self, NoQuote, Quote},
    ipv6, //
};
use nf_bindings as bindings;

/// An IP version. [`Ipv4`] and [`Ipv6`] are the two.
pub trait Version: sealed::Sealed + 'static {
    /// An address, as its bytes stand in the packet.
    type Addr: Copy + PartialEq;

    /// The protocol number of its ICMP.
    const ICMP: u8;
    /// Where the source address stands in the header, and behind it the destination's.
    #[doc(hidden)]
    const SADDR_OFFSET: usize;

    /// The family of hooks, `NFPROTO_*`.
    #[doc(hidden)]
    const FAMILY: u8;
    /// The address family, `AF_*`.
    #[doc(hidden)]
    const ADDRESS_FAMILY: u32;

    /// Whether the packet left a transformation: it is not to be looked up for one again.
    fn is_xfrm_transformed(packet: &Packet<'_, Self>) -> bool
    where
        Self: Sized;

    /// Whether the ICMP message at `offset` is an error, and so quotes a packet.
    fn is_error<H: Headers>(packet: &H, offset: u32) -> Result<(), NoQuote>;

    /// What the ICMP error at `offset` quotes.
    fn quote<H: Headers>(packet: &H, offset: u32) -> Result<Quote<Self::Addr>, NoQuote>;

    /// Whether the socket is bound to no address of this version.
    fn is_bound_to_any(sock: &FullSock) -> bool;

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
    const FAMILY: u8 = bindings::NFPROTO_IPV4 as u8;
    const ADDRESS_FAMILY: u32 = bindings::AF_INET;

    #[inline]
    fn is_xfrm_transformed(packet: &Packet<'_, Self>) -> bool {
        let cb = packet.skb().control_block::<bindings::inet_skb_parm>();
        // SAFETY: In an IPv4 packet at a hook, this is what the control block holds.
        let flags = unsafe { (*cb).flags };
        flags & bindings::RUST_CONST_HELPER_IPSKB_XFRM_TRANSFORMED != 0
    }

    #[inline(always)]
    fn is_error<H: Headers>(packet: &H, offset: u32) -> Result<(), NoQuote> {
        icmp::check_v4(packet, offset)
    }

    #[inline(always)]
    fn quote<H: Headers>(packet: &H, offset: u32) -> Result<Quote<[u8; 4]>, NoQuote> {
        icmp::quote_behind_v4(packet, offset)
    }

    #[inline(always)]
    fn is_bound_to_any(sock: &FullSock) -> bool {
        sock.rcv_saddr_v4() == 0
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
    const FAMILY: u8 = bindings::NFPROTO_IPV6 as u8;
    const ADDRESS_FAMILY: u32 = bindings::AF_INET6;

    #[inline]
    fn is_xfrm_transformed(packet: &Packet<'_, Self>) -> bool {
        let cb = packet.skb().control_block::<bindings::inet6_skb_parm>();
        // SAFETY: In an IPv6 packet at a hook, this is what the control block holds.
        let flags = unsafe { (*cb).flags };
        flags & bindings::RUST_CONST_HELPER_IP6SKB_XFRM_TRANSFORMED != 0
    }

    #[inline(always)]
    fn is_error<H: Headers>(packet: &H, offset: u32) -> Result<(), NoQuote> {
        icmp::check_v6(packet, offset)
    }

    #[inline(always)]
    fn quote<H: Headers>(packet: &H, offset: u32) -> Result<Quote<[u8; 16]>, NoQuote> {
        icmp::quote_behind_v6(packet, offset)
    }

    #[inline(always)]
    fn is_bound_to_any(sock: &FullSock) -> bool {
        sock.rcv_saddr_v6() == [0; 4]
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

    /// The packet, without what is known of it.
    #[inline]
    pub fn into_skb(self) -> &'a mut SkBuff {
        self.skb
    }

    /// The same packet again, for something that takes it whole.
    #[inline]
    pub fn reborrow(&mut self) -> Packet<'_, V> {
        Packet {
            skb: self.skb,
            _version: PhantomData,
        }
    }

    /// The packet, for what may move its data.
    #[inline]
    pub fn skb_mut(&mut self) -> &mut SkBuff {
        self.skb
    }

    /// The source and the destination address.
    #[inline(always)]
    pub fn addrs(&self) -> (&V::Addr, &V::Addr) {
        // SAFETY: By the type's invariants there is such a header.
        unsafe { addrs::<V>(self.skb) }
    }
}

/// The source and the destination address in the network header.
///
/// # Safety
///
/// The packet must have a `V` header there, in the linear part.
#[inline(always)]
pub(crate) unsafe fn addrs<V: Version>(skb: &SkBuff) -> (&V::Addr, &V::Addr) {
    let source = skb
        .network_header()
        .wrapping_add(V::SADDR_OFFSET)
        .cast::<V::Addr>();
    // SAFETY: By the requirement on this function the header is there, and stays while the packet
    // is borrowed; an address is an array of bytes, which has no alignment to keep.
    let addrs: &[V::Addr; 2] = unsafe { &*source.cast() };
    (&addrs[0], &addrs[1])
}

impl Packet<'_, Ipv4> {
    /// The protocol field of the header.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.header()[9]
    }

    /// The fixed part of the header.
    #[inline]
    fn header(&self) -> &[u8; 20] {
        // SAFETY: By the type's invariants the header is there.
        unsafe { &*self.skb.network_header().cast() }
    }

    /// The protocol, where the payload begins, and the fragment offset in units of 8 bytes, from
    /// the header alone.
    #[inline]
    pub(super) fn payload(&self) -> Option<(u8, u32, u16)> {
        let header = self.header();
        let fragment_offset = u16::from_be_bytes([header[6], header[7]]) & 0x1fff;
        Some((header[9], u32::from(header[0] & 0x0f) * 4, fragment_offset))
    }
}

impl Packet<'_, Ipv6> {
    /// The next-header field of the header: a protocol, or an extension header.
    #[inline]
    pub fn next_header(&self) -> u8 {
        // SAFETY: By the type's invariants the header is there.
        let header: &[u8; 40] = unsafe { &*self.skb.network_header().cast() };
        header[6]
    }

    /// Walks the extension headers: `ipv6_find_hdr()` for the payload. `None` if the walk fails.
    #[cold]
    #[inline(never)]
    pub fn find_payload(&self) -> Option<Payload> {
        let (protocol, offset, fragment_offset) = self.find_header(core::ptr::null_mut())?;
        Some(Payload {
            protocol,
            offset,
            later_fragment: fragment_offset != 0,
        })
    }

    /// The same, but an authentication header counts as the payload. The protocol, where it
    /// begins, and the fragment offset in bytes.
    #[inline]
    pub(super) fn payload_before_auth(&self) -> Option<(u8, u32, u16)> {
        let mut flags = bindings::IP6_FH_F_AUTH as i32;
        self.find_header(&mut flags)
    }

    #[inline]
    fn find_header(&self, flags: *mut i32) -> Option<(u8, u32, u16)> {
        let mut offset = 0;
        let mut fragment_offset = 0;
        // SAFETY: The packet is valid and has an IPv6 header; the flags may be NULL.
        let protocol = unsafe {
            bindings::ipv6_find_hdr(
                self.skb.as_raw(),
                &mut offset,
                -1,
                &mut fragment_offset,
                flags,
            )
        };
        Some((u8::try_from(protocol).ok()?, offset, fragment_offset))
    }
}
