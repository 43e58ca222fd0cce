// SPDX-License-Identifier: GPL-2.0

//! The packet that a rule is evaluated for.

use crate::{
    netfilter::{
        ip::{self, Ipv4, Ipv6, Packet, Payload, Version},
        socket::Arrival,
        NetDevice, //
    },
    netns::Net,
    rcu,
    skb::SkBuff,
    sock::Sock, //
};
use core::marker::PhantomData;
use nf_bindings as bindings;

/// A packet at a hook, with what nf_tables knows of it: `struct nft_pktinfo`.
///
/// It lives for one evaluation, which is inside an RCU read section.
pub struct Pkt<'eval> {
    raw: *const bindings::nft_pktinfo,
    _skb: PhantomData<&'eval mut SkBuff>,
}

impl<'eval> Pkt<'eval> {
    /// Wraps a pointer from C.
    ///
    /// # Safety
    ///
    /// `raw` must be what nf_tables evaluates an expression of the IP families with, and
    /// `'eval` must not outlast that evaluation.
    #[inline]
    pub(super) unsafe fn from_raw(raw: *const bindings::nft_pktinfo) -> Self {
        Self {
            raw,
            _skb: PhantomData,
        }
    }

    #[inline(always)]
    fn info(&self) -> &'eval bindings::nft_pktinfo {
        // SAFETY: Valid by the requirement on `from_raw()`; nobody writes it meanwhile.
        unsafe { &*self.raw }
    }

    #[inline]
    fn state(&self) -> &'eval bindings::nf_hook_state {
        // SAFETY: nf_tables sets the state before it evaluates anything.
        unsafe { &*self.info().state }
    }

    /// The RCU read section in which hooks are called: `nf_hook()` opens it.
    #[inline]
    pub fn rcu(&self) -> rcu::Section<'eval> {
        // SAFETY: The evaluation, and so `'eval`, is inside the hook.
        unsafe { rcu::Section::assume() }
    }

    /// The namespace of the hook.
    #[inline]
    pub fn net(&self) -> &'eval Net {
        // SAFETY: The namespace outlives its hooks' evaluation.
        unsafe { Net::from_raw(self.state().net) }
    }

    /// The device that the packet came in through; none for a packet on its way out.
    #[inline]
    pub fn indev(&self) -> Option<&'eval NetDevice> {
        // SAFETY: NULL, or a device that outlives the hook; the wrapper is transparent.
        unsafe { self.state().in_.cast::<NetDevice>().as_ref() }
    }

    /// The socket that the packet belongs to, `skb->sk`. May be in another namespace, and may be
    /// no inet socket.
    #[inline]
    pub fn sock(&self) -> Option<&'eval Sock> {
        // SAFETY: nf_tables sets the packet before it evaluates anything.
        let sk = unsafe { (*self.info().skb).sk };
        // SAFETY: NULL, or a socket that the packet keeps (by a reference or by RCU); nothing
        // that can be reached through a `Pkt` takes it from the packet. The wrapper is transparent.
        unsafe { sk.cast::<Sock>().as_ref() }
    }

    /// The family of the hook, `nft_pf()`.
    #[inline]
    fn pf(&self) -> u32 {
        u32::from(self.state().pf)
    }

    /// Whether it is an IPv4 packet.
    #[inline]
    pub fn is_ipv4(&self) -> bool {
        self.pf() == bindings::NFPROTO_IPV4
    }

    /// Whether it is an IPv6 packet.
    #[inline]
    pub fn is_ipv6(&self) -> bool {
        self.pf() == bindings::NFPROTO_IPV6
    }

    /// The packet as one of version `V` that came in through a device, if it is one.
    #[inline(always)]
    pub fn arrived<V: Version>(self) -> Result<Arrived<'eval, V>, Self> {
        if self.pf() != u32::from(V::FAMILY) || self.indev().is_none() {
            return Err(self);
        }
        // INVARIANT: Both were just checked. A hook of this family sees packets of this version.
        Ok(Arrived {
            pkt: self,
            _version: PhantomData,
        })
    }
}

/// A packet of version `V` at a hook, that came in through a device.
///
/// # Invariants
///
/// It is one of version `V`, and there is a device.
pub struct Arrived<'eval, V> {
    pkt: Pkt<'eval>,
    _version: PhantomData<V>,
}

impl<V> Arrived<'_, V> {
    /// What nf_tables took for the protocol of the payload; `None` if it found none.
    #[inline(always)]
    pub fn protocol(&self) -> Option<u8> {
        let info = self.pkt.info();
        let found = u32::from(info.flags) & bindings::NFT_PKTINFO_L4PROTO != 0;
        found.then_some(info.tprot)
    }

    /// Whether it is a fragment other than the first.
    #[inline(always)]
    pub fn is_later_fragment(&self) -> bool {
        self.pkt.info().fragoff != 0
    }
}

impl Arrived<'_, Ipv4> {
    /// The protocol of the payload, which nf_tables always finds.
    #[inline(always)]
    pub fn protocol_v4(&self) -> u8 {
        self.pkt.info().tprot
    }
}

impl<'eval, V: Version> Arrival<'eval, V> for Arrived<'eval, V> {
    #[inline(always)]
    fn rcu(&self) -> rcu::Section<'eval> {
        self.pkt.rcu()
    }

    #[inline(always)]
    fn net(&self) -> &'eval Net {
        self.pkt.net()
    }

    #[inline(always)]
    fn indev(&self) -> &'eval NetDevice {
        // SAFETY: By the type's invariants there is a device.
        unsafe { self.pkt.indev().unwrap_unchecked() }
    }

    #[inline(always)]
    fn packet(&mut self) -> Packet<'_, V> {
        // SAFETY: The packet is valid during the evaluation, and `&mut self` is the only way to it.
        let skb = unsafe { SkBuff::from_raw_mut(self.pkt.info().skb) };
        // SAFETY: By the type's invariants it is of this version.
        unsafe { Packet::new(skb) }
    }

    #[inline(always)]
    fn skb(&self) -> &SkBuff {
        // SAFETY: The packet is valid during the evaluation; the wrapper is transparent.
        unsafe { &*self.pkt.info().skb.cast() }
    }

    #[inline(always)]
    fn addrs(&self) -> (&V::Addr, &V::Addr) {
        // SAFETY: By the type's invariants it has a header of this version.
        unsafe { ip::addrs::<V>(self.skb()) }
    }

    #[inline(always)]
    fn payload_offset(&self) -> u32 {
        u32::from(self.pkt.info().thoff)
    }
}

/// [`Arrived`], with its payload where nf_tables did not look.
pub struct Walked<'eval, V> {
    arrived: Arrived<'eval, V>,
    offset: u32,
}

impl<'eval> Arrived<'eval, Ipv6> {
    /// Walks the extension headers. nf_tables' own walk stops at an authentication header and
    /// gives up on offsets above 16 bits, where a socket lookup goes on. `None` if there is
    /// nothing behind them.
    #[cold]
    #[inline(never)]
    pub fn walk(mut self) -> Option<(Walked<'eval, Ipv6>, Payload)> {
        let payload = self.packet().find_payload()?;
        let walked = Walked {
            arrived: self,
            offset: payload.offset,
        };
        Some((walked, payload))
    }
}

impl<'eval, V: Version> Arrival<'eval, V> for Walked<'eval, V> {
    fn rcu(&self) -> rcu::Section<'eval> {
        self.arrived.rcu()
    }

    fn net(&self) -> &'eval Net {
        self.arrived.net()
    }

    fn indev(&self) -> &'eval NetDevice {
        self.arrived.indev()
    }

    fn packet(&mut self) -> Packet<'_, V> {
        self.arrived.packet()
    }

    fn skb(&self) -> &SkBuff {
        self.arrived.skb()
    }

    fn addrs(&self) -> (&V::Addr, &V::Addr) {
        self.arrived.addrs()
    }

    fn payload_offset(&self) -> u32 {
        self.offset
    }
}
