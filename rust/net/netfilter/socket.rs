// SPDX-License-Identifier: GPL-2.0

//! The socket that a packet is for, or that an ICMP error is about.
//!
//! What C's `nf_sk_lookup_slow_v4()` and `_v6()` do, with these differences: no reference is taken
//! on a UDP socket or a TCP listener, what nf_tables has parsed is not parsed again, and an ICMPv6
//! error in the reply direction of a source-NATed connection finds the original source, as one
//! of IPv4 does (C overwrites the variable that it tests for this).
//!
//! C header: [`include/net/netfilter/nf_socket.h`](srctree/include/net/netfilter/nf_socket.h)

use super::{
    ip::{Ipv4, Ipv6, Packet, Payload, Version},
    NetDevice, //
};
use crate::{
    conntrack::{CtInfo, Endpoint},
    netns::Net,
    percpu::{self, Counters},
    rcu,
    skb::SkBuff,
    sock::{Found, NotFound, OwnedSock, Sock}, //
};
use core::ptr;
use logic::{
    icmp::NoQuote,
    transport::{Ports, Protocol, Transport}, //
};
use nf_bindings as bindings;

/// What happens to a packet in a socket match; each is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The packet belongs to a socket already, `skb->sk`; nothing was looked up.
    SkbSock,
    /// Looked up: UDP over IPv4.
    UdpIpv4,
    /// Looked up: TCP over IPv4.
    TcpIpv4,
    /// Looked up: what an ICMP error quotes.
    IcmpIpv4,
    /// Looked up: UDP over IPv6.
    UdpIpv6,
    /// Looked up: TCP over IPv6.
    TcpIpv6,
    /// Looked up: what an ICMPv6 error quotes.
    IcmpIpv6,
    /// Found, and kept by RCU alone.
    FoundBorrowed,
    /// Found, with a reference.
    FoundOwned,
    /// No match: no input device, so nothing to look up by.
    NoInputDevice,
    /// No match: a fragment other than the first.
    LaterFragment,
    /// No match: a header is missing or cut short.
    Truncated,
    /// No match: neither TCP nor UDP, nor an error that quotes one.
    OtherProtocol,
    /// No match: an ICMP message that quotes nothing.
    NotAnError,
    /// No match: no such socket.
    NoSocket,
    /// No match: the socket is being destroyed.
    Dying,
    /// No match: the key asks for what a socket in TIME_WAIT or NEW_SYN_RECV does not have.
    NotFull,
    /// No match: the socket's cgroup is not as deep as the level asked for.
    NoCgroup,
}

impl percpu::Event for Event {
    const NAMES: &'static [&'static str] = &[
        "skb_sock",
        "lookup_udp_ipv4",
        "lookup_tcp_ipv4",
        "lookup_icmp_ipv4",
        "lookup_udp_ipv6",
        "lookup_tcp_ipv6",
        "lookup_icmp_ipv6",
        "found_borrowed",
        "found_owned",
        "miss_no_input_device",
        "miss_later_fragment",
        "miss_truncated",
        "miss_other_protocol",
        "miss_not_an_error",
        "miss_no_socket",
        "miss_dying",
        "miss_not_full",
        "miss_no_cgroup",
    ];

    #[inline]
    fn index(self) -> usize {
        self as usize
    }
}

impl From<NoQuote> for Event {
    fn from(why: NoQuote) -> Self {
        match why {
            NoQuote::NotAnError => Self::NotAnError,
            NoQuote::Truncated => Self::Truncated,
            NoQuote::Protocol => Self::OtherProtocol,
        }
    }
}

impl From<NotFound> for Event {
    fn from(why: NotFound) -> Self {
        match why {
            NotFound::NoSocket => Self::NoSocket,
            NotFound::Dying => Self::Dying,
        }
    }
}

/// The addresses, ports and device that a socket is looked up by.
pub struct Key<'a, V: Version> {
    net: &'a Net,
    saddr: &'a V::Addr,
    daddr: &'a V::Addr,
    ports: Ports,
    ifindex: i32,
}

/// The socket tables of an IP version. Each function wraps the one in C.
pub trait Lookup: Version {
    /// The event of a lookup for this protocol.
    fn event(protocol: Protocol) -> Event;
    /// The event of a lookup for a quoted packet.
    const ICMP_EVENT: Event;

    /// A UDP socket, no reference taken. Reuseport groups are resolved by the hash: a program gets
    /// to see no packet.
    fn udp(key: &Key<'_, Self>) -> *mut bindings::sock
    where
        Self: Sized;

    /// A TCP socket beyond the listening state, with a reference.
    fn established(key: &Key<'_, Self>) -> Option<OwnedSock>
    where
        Self: Sized;

    /// A TCP listener, no reference taken. A reuseport program may pull `skb`, whose payload
    /// begins at `data_offset`.
    ///
    /// # Safety
    ///
    /// `skb` must be NULL or a packet whose data nothing else borrows.
    unsafe fn listener(
        key: &Key<'_, Self>,
        skb: *mut bindings::sk_buff,
        data_offset: i32,
    ) -> *mut bindings::sock
    where
        Self: Sized;
}

impl Lookup for Ipv4 {
    const ICMP_EVENT: Event = Event::IcmpIpv4;

    #[inline(always)]
    fn event(protocol: Protocol) -> Event {
        match protocol {
            Protocol::Udp => Event::UdpIpv4,
            Protocol::Tcp => Event::TcpIpv4,
        }
    }

    #[inline(always)]
    fn udp(key: &Key<'_, Self>) -> *mut bindings::sock {
        // SAFETY: The namespace is valid; a NULL packet is allowed. RCU is held, since whoever
        // uses the result has to prove it.
        unsafe {
            bindings::__udp4_lib_lookup(
                key.net.as_raw(),
                u32::from_ne_bytes(*key.saddr),
                key.ports.source.raw(),
                u32::from_ne_bytes(*key.daddr),
                key.ports.dest.raw(),
                key.ifindex,
                0,
                ptr::null_mut(),
            )
        }
    }

    #[inline(always)]
    fn established(key: &Key<'_, Self>) -> Option<OwnedSock> {
        // SAFETY: The namespace is valid.
        let sk = unsafe {
            bindings::__inet_lookup_established(
                key.net.as_raw(),
                u32::from_ne_bytes(*key.saddr),
                key.ports.source.raw(),
                u32::from_ne_bytes(*key.daddr),
                key.ports.dest.to_host(),
                key.ifindex,
                0,
            )
        };
        // SAFETY: The function returns NULL or a socket with a reference for the caller.
        unsafe { OwnedSock::from_raw(sk) }
    }

    #[inline(always)]
    unsafe fn listener(
        key: &Key<'_, Self>,
        skb: *mut bindings::sk_buff,
        data_offset: i32,
    ) -> *mut bindings::sock {
        // SAFETY: The namespace is valid, the packet is as required.
        unsafe {
            bindings::__inet_lookup_listener(
                key.net.as_raw(),
                skb,
                data_offset,
                u32::from_ne_bytes(*key.saddr),
                key.ports.source.raw(),
                u32::from_ne_bytes(*key.daddr),
                key.ports.dest.to_host(),
                key.ifindex,
                0,
            )
        }
    }
}

impl Lookup for Ipv6 {
    const ICMP_EVENT: Event = Event::IcmpIpv6;

    #[inline(always)]
    fn event(protocol: Protocol) -> Event {
        match protocol {
            Protocol::Udp => Event::UdpIpv6,
            Protocol::Tcp => Event::TcpIpv6,
        }
    }

    #[inline(always)]
    fn udp(key: &Key<'_, Self>) -> *mut bindings::sock {
        // SAFETY: The namespace and the addresses are valid; a NULL packet is allowed.
        unsafe {
            bindings::__udp6_lib_lookup(
                key.net.as_raw(),
                ptr::from_ref(key.saddr).cast(),
                key.ports.source.raw(),
                ptr::from_ref(key.daddr).cast(),
                key.ports.dest.raw(),
                key.ifindex,
                0,
                ptr::null_mut(),
            )
        }
    }

    #[inline(always)]
    fn established(key: &Key<'_, Self>) -> Option<OwnedSock> {
        // SAFETY: The namespace and the addresses are valid.
        let sk = unsafe {
            bindings::__inet6_lookup_established(
                key.net.as_raw(),
                ptr::from_ref(key.saddr).cast(),
                key.ports.source.raw(),
                ptr::from_ref(key.daddr).cast(),
                key.ports.dest.to_host(),
                key.ifindex,
                0,
            )
        };
        // SAFETY: The function returns NULL or a socket with a reference for the caller.
        unsafe { OwnedSock::from_raw(sk) }
    }

    #[inline(always)]
    unsafe fn listener(
        key: &Key<'_, Self>,
        skb: *mut bindings::sk_buff,
        data_offset: i32,
    ) -> *mut bindings::sock {
        // SAFETY: The namespace and the addresses are valid, the packet is as required.
        unsafe {
            bindings::inet6_lookup_listener(
                key.net.as_raw(),
                skb,
                data_offset,
                ptr::from_ref(key.saddr).cast(),
                key.ports.source.raw(),
                ptr::from_ref(key.daddr).cast(),
                key.ports.dest.to_host(),
                key.ifindex,
                0,
            )
        }
    }
}

/// The packet and the offset of its payload, for a lookup that may run a program on it.
type Program<'a> = Option<(&'a mut SkBuff, u32)>;

/// Looks `key` up among UDP sockets. The result is borrowed.
#[inline(always)]
fn find_udp<'rcu, V: Lookup>(
    rcu: rcu::Section<'rcu>,
    key: &Key<'_, V>,
) -> Result<Found<'rcu>, NotFound> {
    // SAFETY: UDP sockets are freed after a grace period, and this one was found in the section.
    unsafe { Sock::borrow(rcu, V::udp(key)) }.map(Found::Borrowed)
}

/// Looks `key` up among TCP sockets: what is beyond listening is owned, a listener is borrowed.
#[inline(always)]
fn find_tcp<'rcu, V: Lookup>(
    rcu: rcu::Section<'rcu>,
    key: &Key<'_, V>,
    program: Program<'_>,
) -> Result<Found<'rcu>, NotFound> {
    if let Some(sock) = V::established(key) {
        return Ok(Found::Owned(sock));
    }
    let (skb, data_offset) = match program {
        Some((skb, data_offset)) => (skb.as_raw(), data_offset),
        None => (ptr::null_mut(), 0),
    };
    // SAFETY: A packet is borrowed mutably, so nothing else borrows its data.
    let sk = unsafe { V::listener(key, skb, data_offset as i32) };
    // SAFETY: TCP listeners are freed after a grace period, and this one was found in the section.
    unsafe { Sock::borrow(rcu, sk) }.map(Found::Borrowed)
}

/// The end to look up instead of the packet's destination, if the packet comes back on a
/// connection whose source was translated: its socket has the source from before.
#[inline(always)]
fn translated_source(skb: &SkBuff, reply: CtInfo) -> Option<&Endpoint> {
    match skb.conntrack() {
        (info, Some(conn)) if info == reply && conn.src_nat_done() => Some(conn.original_source()),
        _ => None,
    }
}

/// Finds the socket that `packet`, which came in through `indev`, is for; for an ICMP error, the
/// socket that sent what it quotes. What happened is counted in `C`.
#[inline(always)]
pub fn lookup<'rcu, V: Lookup, C: Counters<Event>>(
    rcu: rcu::Section<'rcu>,
    net: &Net,
    indev: &NetDevice,
    packet: &mut Packet<'_, V>,
    payload: Payload,
) -> Option<Found<'rcu>> {
    match find::<V, C>(rcu, net, indev, packet, payload) {
        Ok(found) => {
            C::count(match found {
                Found::Borrowed(_) => Event::FoundBorrowed,
                Found::Owned(_) => Event::FoundOwned,
            });
            Some(found)
        }
        Err(why) => {
            C::count(why);
            None
        }
    }
}

/// [`lookup()`], with the reason where nothing is found.
#[inline(always)]
fn find<'rcu, V: Lookup, C: Counters<Event>>(
    rcu: rcu::Section<'rcu>,
    net: &Net,
    indev: &NetDevice,
    packet: &mut Packet<'_, V>,
    payload: Payload,
) -> Result<Found<'rcu>, Event> {
    if payload.later_fragment {
        return Err(Event::LaterFragment);
    }
    // Each protocol by itself: told apart once.
    match Protocol::from_number(payload.protocol) {
        Some(Protocol::Udp) => {
            let (key, _) = key::<V, C>(net, indev, packet, Protocol::Udp, payload.offset)?;
            Ok(find_udp(rcu, &key)?)
        }
        Some(Protocol::Tcp) => {
            let (key, data_offset) =
                key::<V, C>(net, indev, packet, Protocol::Tcp, payload.offset)?;
            // A program may move the headers, so the addresses have to be copies.
            let (saddr, daddr) = (*key.saddr, *key.daddr);
            let key = Key::<V> {
                net,
                saddr: &saddr,
                daddr: &daddr,
                ports: key.ports,
                ifindex: key.ifindex,
            };
            Ok(find_tcp(rcu, &key, Some((packet.skb_mut(), data_offset)))?)
        }
        None if payload.protocol == V::ICMP => {
            find_quoted::<V, C>(rcu, net, indev, packet, payload.offset)
        }
        None => Err(Event::OtherProtocol),
    }
}

/// What to look the packet's socket up by, and where the payload behind its transport header, of
/// `protocol` and at `offset`, begins.
#[inline(always)]
fn key<'a, V: Lookup, C: Counters<Event>>(
    net: &'a Net,
    indev: &NetDevice,
    packet: &'a Packet<'_, V>,
    protocol: Protocol,
    offset: u32,
) -> Result<(Key<'a, V>, u32), Event> {
    let transport = Transport::parse(packet.skb(), protocol, offset).ok_or(Event::Truncated)?;
    C::count(V::event(protocol));

    let (saddr, daddr) = packet.addrs();
    let mut key = Key::<V> {
        net,
        saddr,
        daddr,
        ports: transport.ports,
        ifindex: indev.ifindex(),
    };
    if let Some(source) = translated_source(packet.skb(), CtInfo::ESTABLISHED_REPLY) {
        key.daddr = V::endpoint_addr(source);
        key.ports.dest = source.port();
    }
    Ok((key, transport.data_offset))
}

/// [`find()`] for the ICMP message at `offset`. The quoted packet was ours: its source is the
/// local end. No program gets to see an error instead of the packet it was written for.
#[inline(never)]
fn find_quoted<'rcu, V: Lookup, C: Counters<Event>>(
    rcu: rcu::Section<'rcu>,
    net: &Net,
    indev: &NetDevice,
    packet: &Packet<'_, V>,
    offset: u32,
) -> Result<Found<'rcu>, Event> {
    let quote = V::quote(packet.skb(), offset)?;
    C::count(V::ICMP_EVENT);

    let mut key = Key::<V> {
        net,
        saddr: &quote.dest,
        daddr: &quote.source,
        ports: Ports {
            source: quote.ports.dest,
            dest: quote.ports.source,
        },
        ifindex: indev.ifindex(),
    };
    if let Some(source) = translated_source(packet.skb(), CtInfo::RELATED_REPLY) {
        key.daddr = V::endpoint_addr(source);
        key.ports.dest = source.port();
    }

    Ok(match quote.protocol {
        Protocol::Udp => find_udp(rcu, &key)?,
        Protocol::Tcp => find_tcp(rcu, &key, None)?,
    })
}
