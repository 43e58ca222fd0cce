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
    ip::{Ipv4, Ipv6, Packet, Version},
    NetDevice, //
};
use crate::{
    conntrack::{CtInfo, Endpoint},
    count,
    netns::Net,
    percpu::{self, Counters},
    rcu,
    skb::{Linear, SkBuff},
    sock::{Candidate, FullSock, NotFound, OwnedSock, Sock}, //
};
use core::ptr;
use logic::{
    icmp::{NoQuote, Quote},
    transport::{Ports, Protocol, Transport, IPPROTO_TCP, IPPROTO_UDP}, //
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

/// The addresses, ports and device that a socket is looked up by.
pub struct Key<'a, V: Version> {
    net: &'a Net,
    saddr: &'a V::Addr,
    daddr: &'a V::Addr,
    ports: Ports,
    ifindex: i32,
}

impl<'a, V: Version> Key<'a, V> {
    /// By source and destination address and port.
    #[inline(always)]
    fn new<'p>(
        arrival: &impl Arrival<'p, V>,
        addrs: (&'a V::Addr, &'a V::Addr),
        ports: Ports,
    ) -> Self
    where
        'p: 'a,
    {
        Self {
            net: arrival.net(),
            saddr: addrs.0,
            daddr: addrs.1,
            ports,
            ifindex: arrival.indev().ifindex(),
        }
    }

    /// By source address and port, and an end of a connection instead of the destination.
    #[inline(always)]
    fn translated<'p>(
        arrival: &impl Arrival<'p, V>,
        saddr: &'a V::Addr,
        ports: Ports,
        dest: &'a Endpoint,
    ) -> Self
    where
        'p: 'a,
    {
        Self::new(
            arrival,
            (saddr, V::endpoint_addr(dest)),
            Ports {
                source: ports.source,
                dest: dest.port(),
            },
        )
    }
}

/// The socket tables of an IP version. Each function wraps the one in C.
pub trait Lookup: Version {
    /// Counts a UDP lookup.
    fn count_udp<C: Counters<Event>>();
    /// Counts a TCP lookup.
    fn count_tcp<C: Counters<Event>>();
    /// Counts a lookup of what an ICMP error quotes.
    fn count_icmp<C: Counters<Event>>();

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
    #[inline(always)]
    fn count_udp<C: Counters<Event>>() {
        count!(C, Event::UdpIpv4);
    }

    #[inline(always)]
    fn count_tcp<C: Counters<Event>>() {
        count!(C, Event::TcpIpv4);
    }

    #[inline(always)]
    fn count_icmp<C: Counters<Event>>() {
        count!(C, Event::IcmpIpv4);
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
    #[inline(always)]
    fn count_udp<C: Counters<Event>>() {
        count!(C, Event::UdpIpv6);
    }

    #[inline(always)]
    fn count_tcp<C: Counters<Event>>() {
        count!(C, Event::TcpIpv6);
    }

    #[inline(always)]
    fn count_icmp<C: Counters<Event>>() {
        count!(C, Event::IcmpIpv6);
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

/// What is to be done with a socket that a lookup finds.
///
/// A visitor, and not a value that is returned: each way in which a socket is found then ends by
/// itself, and knows how the socket is kept and whether it is full.
pub trait Visitor {
    /// What it comes to.
    type Output;

    /// Looks at the socket of a packet of version `V`.
    fn found<V: Version>(self, sock: Candidate<'_>) -> Self::Output;

    /// There is no socket.
    fn missing(self) -> Self::Output;
}

/// A packet of version `V` that came in, where, and what it carries.
///
/// A lookup asks for a thing where it needs it, instead of being given all: what one instruction
/// reads again is not worth a register that has to be kept across calls.
pub trait Arrival<'a, V: Version> {
    /// The RCU read section in which it all happens.
    fn rcu(&self) -> rcu::Section<'a>;

    /// The namespace.
    fn net(&self) -> &'a Net;

    /// The device that it came in through.
    fn indev(&self) -> &'a NetDevice;

    /// The packet.
    fn packet(&mut self) -> Packet<'_, V>;

    /// The packet, to be looked at.
    fn skb(&self) -> &SkBuff;

    /// The source and the destination address.
    fn addrs(&self) -> (&V::Addr, &V::Addr);

    /// Where its payload begins, in bytes from `skb->data`.
    fn payload_offset(&self) -> u32;
}

/// Finds the socket that a packet is for (for an ICMP error, the socket that sent what it quotes)
/// and shows it to `visitor`. `protocol` is that of the payload; `later_fragment`: it is a fragment
/// other than the first. What happened is counted in `C`.
#[inline(always)]
pub fn visit<'a, V: Lookup, C: Counters<Event>, W: Visitor>(
    arrival: impl Arrival<'a, V>,
    protocol: u8,
    later_fragment: bool,
    visitor: W,
) -> W::Output {
    if later_fragment {
        count!(C, Event::LaterFragment);
        return visitor.missing();
    }
    match protocol {
        IPPROTO_UDP => visit_udp::<V, C, W>(visitor, arrival),
        IPPROTO_TCP => visit_tcp::<V, C, W>(visitor, arrival),
        _ if protocol == V::ICMP => visit_icmp::<V, C, W>(visitor, arrival),
        _ => {
            count!(C, Event::OtherProtocol);
            visitor.missing()
        }
    }
}

/// What the transport header says, if it is in the linear part.
#[inline(always)]
fn parse_linear<'a, V: Version>(
    arrival: &impl Arrival<'a, V>,
    protocol: Protocol,
) -> Option<Transport> {
    Transport::parse(&Linear(arrival.skb()), protocol, arrival.payload_offset())
}

/// [`visit()`] for UDP. By itself, as all ways to a socket are: what one has to keep across its
/// calls is not for the others to pay.
#[inline(never)]
fn visit_udp<'a, V: Lookup, C: Counters<Event>, W: Visitor>(
    visitor: W,
    arrival: impl Arrival<'a, V>,
) -> W::Output {
    match parse_linear(&arrival, Protocol::Udp) {
        Some(transport) => visit_udp_at::<V, C, W>(arrival, transport, visitor),
        None => visit_scattered::<V, C, W>(visitor, arrival, Protocol::Udp),
    }
}

/// [`visit_udp()`], with what the header says.
#[inline(always)]
fn visit_udp_at<'a, V: Lookup, C: Counters<Event>, W: Visitor>(
    arrival: impl Arrival<'a, V>,
    transport: Transport,
    visitor: W,
) -> W::Output {
    V::count_udp::<C>();
    let (saddr, daddr) = arrival.addrs();
    match translated_source(arrival.skb(), CtInfo::ESTABLISHED_REPLY) {
        None => {
            let key = Key::new(&arrival, (saddr, daddr), transport.ports);
            found_udp::<V, C, W>(arrival.rcu(), &key, visitor)
        }
        Some(source) => {
            let key = Key::translated(&arrival, saddr, transport.ports, source);
            found_udp::<V, C, W>(arrival.rcu(), &key, visitor)
        }
    }
}

/// [`visit()`] for TCP.
#[inline(never)]
fn visit_tcp<'a, V: Lookup, C: Counters<Event>, W: Visitor>(
    visitor: W,
    arrival: impl Arrival<'a, V>,
) -> W::Output {
    match parse_linear(&arrival, Protocol::Tcp) {
        Some(transport) => visit_tcp_at::<V, C, W>(arrival, transport, visitor),
        None => visit_scattered::<V, C, W>(visitor, arrival, Protocol::Tcp),
    }
}

/// [`visit_tcp()`], with what the header says.
#[inline(always)]
fn visit_tcp_at<'a, V: Lookup, C: Counters<Event>, W: Visitor>(
    mut arrival: impl Arrival<'a, V>,
    transport: Transport,
    visitor: W,
) -> W::Output {
    V::count_tcp::<C>();

    // A program may move the headers, so the addresses have to be copies.
    let (saddr, daddr) = arrival.addrs();
    let (saddr, mut daddr, mut ports) = (*saddr, *daddr, transport.ports);
    if let Some(source) = translated_source(arrival.skb(), CtInfo::ESTABLISHED_REPLY) {
        daddr = *V::endpoint_addr(source);
        ports.dest = source.port();
    }
    let key = Key::new(&arrival, (&saddr, &daddr), ports);
    if let Some(sock) = V::established(&key) {
        return owned::<V, C, W>(sock, visitor);
    }
    let key = Key::new(&arrival, (&saddr, &daddr), ports);
    let rcu = arrival.rcu();
    let program = Some((arrival.packet().into_skb(), transport.data_offset));
    found_listener::<V, C, W>(rcu, &key, program, visitor)
}

/// [`visit()`] for UDP or TCP whose header is not in the linear part: it is in several pieces, or
/// missing.
#[cold]
#[inline(never)]
fn visit_scattered<'a, V: Lookup, C: Counters<Event>, W: Visitor>(
    visitor: W,
    arrival: impl Arrival<'a, V>,
    protocol: Protocol,
) -> W::Output {
    let Some(transport) = Transport::parse(arrival.skb(), protocol, arrival.payload_offset())
    else {
        count!(C, Event::Truncated);
        return visitor.missing();
    };
    match protocol {
        Protocol::Udp => visit_udp_at::<V, C, W>(arrival, transport, visitor),
        Protocol::Tcp => visit_tcp_at::<V, C, W>(arrival, transport, visitor),
    }
}

/// [`visit()`] for ICMP: an error quotes what was UDP or TCP.
#[inline(never)]
fn visit_icmp<'a, V: Lookup, C: Counters<Event>, W: Visitor>(
    visitor: W,
    arrival: impl Arrival<'a, V>,
) -> W::Output {
    match V::is_error(&Linear(arrival.skb()), arrival.payload_offset()) {
        Ok(()) => visit_quoted::<V, C, W>(visitor, arrival),
        Err(NoQuote::Truncated) => visit_scattered_icmp::<V, C, W>(visitor, arrival),
        Err(_) => {
            count!(C, Event::NotAnError);
            visitor.missing()
        }
    }
}

/// [`visit_icmp()`] for an error.
#[inline(never)]
fn visit_quoted<'a, V: Lookup, C: Counters<Event>, W: Visitor>(
    visitor: W,
    arrival: impl Arrival<'a, V>,
) -> W::Output {
    match V::quote(&Linear(arrival.skb()), arrival.payload_offset()) {
        Ok(quote) => visit_quote::<V, C, W>(arrival, quote, visitor),
        Err(NoQuote::Truncated) => visit_scattered_icmp::<V, C, W>(visitor, arrival),
        Err(_) => {
            count!(C, Event::OtherProtocol);
            visitor.missing()
        }
    }
}

/// [`visit_icmp()`] for a message that is not all in the linear part, or cut short.
#[cold]
#[inline(never)]
fn visit_scattered_icmp<'a, V: Lookup, C: Counters<Event>, W: Visitor>(
    visitor: W,
    arrival: impl Arrival<'a, V>,
) -> W::Output {
    let (skb, offset) = (arrival.skb(), arrival.payload_offset());
    match V::is_error(skb, offset).and_then(|()| V::quote(skb, offset)) {
        Ok(quote) => visit_quote::<V, C, W>(arrival, quote, visitor),
        Err(why) => {
            C::count(why.into());
            visitor.missing()
        }
    }
}

/// [`visit()`] for what an ICMP error quotes. It was ours: its source is the local end. No program
/// gets to see an error instead of the packet it was written for.
#[inline(always)]
fn visit_quote<'a, V: Lookup, C: Counters<Event>, W: Visitor>(
    arrival: impl Arrival<'a, V>,
    quote: Quote<V::Addr>,
    visitor: W,
) -> W::Output {
    V::count_icmp::<C>();

    let ports = Ports {
        source: quote.ports.dest,
        dest: quote.ports.source,
    };
    let key = match translated_source(arrival.skb(), CtInfo::RELATED_REPLY) {
        None => Key::new(&arrival, (&quote.dest, &quote.source), ports),
        Some(source) => Key::translated(&arrival, &quote.dest, ports, source),
    };
    match quote.protocol {
        Protocol::Udp => found_udp::<V, C, W>(arrival.rcu(), &key, visitor),
        Protocol::Tcp => match V::established(&key) {
            Some(sock) => owned::<V, C, W>(sock, visitor),
            None => found_listener::<V, C, W>(arrival.rcu(), &key, None, visitor),
        },
    }
}

/// The end to look up instead of the packet's destination, if the packet comes back on a
/// connection whose source was translated: its socket has the source from before.
#[inline(always)]
fn translated_source(skb: &SkBuff, reply: CtInfo) -> Option<&Endpoint> {
    let conn = skb.conntrack_as(reply)?;
    conn.src_nat_done().then(|| conn.original_source())
}

/// Looks `key` up among UDP sockets.
#[inline(always)]
fn found_udp<V: Lookup, C: Counters<Event>, W: Visitor>(
    rcu: rcu::Section<'_>,
    key: &Key<'_, V>,
    visitor: W,
) -> W::Output {
    // SAFETY: UDP sockets are full, freed after a grace period, and this one was found in the
    // section.
    borrowed::<V, C, W>(unsafe { FullSock::borrow(rcu, V::udp(key)) }, visitor)
}

/// Looks `key` up among TCP listeners. A program of one may get to see the packet, whose payload is
/// at the offset given.
#[inline(always)]
fn found_listener<V: Lookup, C: Counters<Event>, W: Visitor>(
    rcu: rcu::Section<'_>,
    key: &Key<'_, V>,
    program: Option<(&mut SkBuff, u32)>,
    visitor: W,
) -> W::Output {
    let (skb, data_offset) = match program {
        Some((skb, data_offset)) => (skb.as_raw(), data_offset),
        None => (ptr::null_mut(), 0),
    };
    // SAFETY: A packet is borrowed mutably, so nothing else borrows its data.
    let sk = unsafe { V::listener(key, skb, data_offset as i32) };
    // SAFETY: TCP listeners are full, freed after a grace period, and this one was found in the
    // section.
    borrowed::<V, C, W>(unsafe { FullSock::borrow(rcu, sk) }, visitor)
}

/// Shows a TCP socket beyond listening, and gives it back.
#[inline(always)]
fn owned<V: Version, C: Counters<Event>, W: Visitor>(sock: OwnedSock, visitor: W) -> W::Output {
    count!(C, Event::FoundOwned);
    let sock: &Sock = &sock;
    visitor.found::<V>(sock.into())
}

/// Shows a borrowed socket, or counts why there is none.
#[inline(always)]
fn borrowed<V: Version, C: Counters<Event>, W: Visitor>(
    sock: Result<&FullSock, NotFound>,
    visitor: W,
) -> W::Output {
    match sock {
        Ok(sock) => {
            count!(C, Event::FoundBorrowed);
            visitor.found::<V>(sock.into())
        }
        Err(NotFound::NoSocket) => {
            count!(C, Event::NoSocket);
            visitor.missing()
        }
        Err(NotFound::Dying) => {
            count!(C, Event::Dying);
            visitor.missing()
        }
    }
}
