// SPDX-License-Identifier: GPL-2.0

//! The packet that a rule is evaluated for.

use crate::{
    netfilter::{
        ip::{Ipv4, Ipv6, Packet, Payload, Version},
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

    #[inline]
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

    /// The packet, if it is one of IPv4, and what follows its header.
    #[inline(always)]
    pub fn ipv4(self) -> Result<(Packet<'eval, Ipv4>, Payload), Self> {
        if !self.is_ipv4() {
            return Err(self);
        }
        let info = self.info();
        let payload = Payload {
            protocol: info.tprot,
            offset: u32::from(info.thoff),
            later_fragment: info.fragoff != 0,
        };
        // SAFETY: A hook of this family sees IPv4 packets.
        Ok((unsafe { self.packet() }, payload))
    }

    /// The packet, if it is one of IPv6, and what nf_tables found behind its extension headers.
    ///
    /// Its walk stops at an authentication header and gives up on offsets above 16 bits, where a
    /// socket lookup goes on; [`Packet::find_payload()`] walks again.
    #[inline(always)]
    pub fn ipv6(self) -> Result<(Packet<'eval, Ipv6>, Option<Payload>), Self> {
        if !self.is_ipv6() {
            return Err(self);
        }
        let info = self.info();
        let parsed = u32::from(info.flags) & bindings::NFT_PKTINFO_L4PROTO != 0;
        let payload = (parsed && info.tprot != logic::ipv6::NEXTHDR_AUTH).then_some(Payload {
            protocol: info.tprot,
            offset: u32::from(info.thoff),
            later_fragment: info.fragoff != 0,
        });
        // SAFETY: A hook of this family sees IPv6 packets.
        Ok((unsafe { self.packet() }, payload))
    }

    /// # Safety
    ///
    /// The packet must be of version `V`.
    #[inline]
    unsafe fn packet<V: Version>(self) -> Packet<'eval, V> {
        // SAFETY: The packet is valid during the evaluation, and `self`, of which there is one,
        // was the only way to it.
        let skb = unsafe { SkBuff::from_raw_mut(self.info().skb) };
        // SAFETY: By the requirement on this function.
        unsafe { Packet::new(skb) }
    }
}
