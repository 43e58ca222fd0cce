// SPDX-License-Identifier: GPL-2.0

//! The hooks: what happens to a packet before routing, after it, when it was sent from here, and
//! when it has arrived.
//!
//! The two IP versions differ in three places: how an ICMP error is recognized, what at prerouting
//! makes a route obsolete, and how a packet is routed anew.

use crate::counters::{Event, Stats};
use core::ptr::NonNull;
use logic::{
    byteorder::Be16,
    ipv6,
    nat::{Change, End, Reason},
    transport::Protocol, //
};
use net::{
    conntrack::{Conn, CtInfo, Direction, Endpoint},
    count,
    netfilter::{
        hook::{Call, Hook, Verdict},
        ip::{Ipv4, Ipv6, Packet, Version},
        nat::{self, Dispatchers, Translation}, //
    },
    xfrm, //
};

net::hook_functions! {
    const IPV4_IN: Ipv4 = nf_nat_ipv4_in_rust => PreRouting;
    const IPV4_OUT: Ipv4 = nf_nat_ipv4_out_rust => PostRouting;
    const IPV4_LOCAL_FN: Ipv4 = nf_nat_ipv4_local_fn_rust => LocalOut;
    const IPV4_LOCAL_IN: Ipv4 = nf_nat_ipv4_local_in_rust => LocalIn;
    const IPV6_IN: Ipv6 = nf_nat_ipv6_in_rust => PreRouting;
    const IPV6_OUT: Ipv6 = nf_nat_ipv6_out_rust => PostRouting;
    const IPV6_LOCAL_FN: Ipv6 = nf_nat_ipv6_local_fn_rust => LocalOut;
    const IPV6_LOCAL_IN: Ipv6 = nf_nat_ipv6_local_in_rust => LocalIn;
}

net::chain_function! {
    /// Runs a chain of type nat.
    pub(crate) const DO_CHAIN = nft_nat_do_chain_rust;
}

/// The hooks of IPv4.
pub(crate) const IPV4: Dispatchers<Ipv4> = Dispatchers {
    pre_routing: IPV4_IN,
    post_routing: IPV4_OUT,
    local_out: IPV4_LOCAL_FN,
    local_in: IPV4_LOCAL_IN,
};

/// The hooks of IPv6.
pub(crate) const IPV6: Dispatchers<Ipv6> = Dispatchers {
    pre_routing: IPV6_IN,
    post_routing: IPV6_OUT,
    local_out: IPV6_LOCAL_FN,
    local_in: IPV6_LOCAL_IN,
};

/// Where the IP versions differ.
trait Nat: Translation {
    /// Where the ICMP header of a packet begins that is related to a connection and is ICMP.
    fn icmp_offset(packet: &Packet<'_, Self>) -> Option<u32>
    where
        Self: Sized;

    /// Whether a changed destination makes the packet's route obsolete at prerouting.
    fn route_obsolete(verdict: Verdict) -> bool;
}

impl Nat for Ipv4 {
    #[inline]
    fn icmp_offset(packet: &Packet<'_, Self>) -> Option<u32> {
        // C looks for itself where the header begins.
        (packet.protocol() == Self::ICMP).then_some(0)
    }

    #[inline]
    fn route_obsolete(verdict: Verdict) -> bool {
        verdict == Verdict::ACCEPT
    }
}

impl Nat for Ipv6 {
    #[inline(never)]
    fn icmp_offset(packet: &Packet<'_, Self>) -> Option<u32> {
        const HEADER: u32 = 40;

        let payload = ipv6::skip_extension_headers(packet.skb(), HEADER, packet.next_header())?;
        (payload.next_header == Self::ICMP).then_some(payload.offset)
    }

    /// Also when the packet is queued; but it must still be ours.
    #[inline]
    fn route_obsolete(verdict: Verdict) -> bool {
        verdict.kind() != Verdict::DROP && verdict.kind() != Verdict::STOLEN
    }
}

/// Translates: what all hooks begin with. A packet without a connection passes.
#[inline(always)]
fn translate<V: Nat>(call: &mut Call<'_, V>) -> Verdict {
    let (info, conn) = call.packet.skb().conntrack();
    let Some(conn) = conn else {
        return Verdict::ACCEPT;
    };
    if info.is_related() {
        // An error is translated with what it quotes, in the opposite way.
        let conn = NonNull::from(conn);
        if let Some(offset) = V::icmp_offset(&call.packet) {
            return match V::translate_error(call, info, conn, offset) {
                true => Verdict::ACCEPT,
                false => Verdict::DROP,
            };
        }
    }
    nat::translate(call)
}

/// Before routing: destinations change.
struct PreRouting;

impl<V: Nat> Hook<V> for PreRouting {
    #[inline(always)]
    fn call(call: &mut Call<'_, V>) -> Verdict {
        count!(Stats, Event::PreRouting);
        let before = *call.packet.addrs().1;
        let verdict = translate(call);
        if V::route_obsolete(verdict) && before != *call.packet.addrs().1 {
            call.packet.skb_mut().drop_dst();
        }
        verdict
    }
}

/// After routing: sources change, and with them, perhaps, the policy that the packet is under.
struct PostRouting;

impl<V: Nat> Hook<V> for PostRouting {
    #[inline(always)]
    fn call(call: &mut Call<'_, V>) -> Verdict {
        count!(Stats, Event::PostRouting);
        let verdict = translate(call);
        if verdict != Verdict::ACCEPT || V::is_xfrm_transformed(&call.packet) {
            return verdict;
        }
        let (info, Some(conn)) = call.packet.skb().conntrack() else {
            return verdict;
        };
        match source_change::<V>(conn, info) {
            Change::None => verdict,
            Change::Port | Change::Address => look_up_again(call, verdict),
        }
    }
}

/// Sent from here: destinations change, after the packet was routed.
struct LocalOut;

impl<V: Nat> Hook<V> for LocalOut {
    #[inline(always)]
    fn call(call: &mut Call<'_, V>) -> Verdict {
        count!(Stats, Event::LocalOut);
        let verdict = translate(call);
        if verdict != Verdict::ACCEPT {
            return verdict;
        }
        let (info, Some(conn)) = call.packet.skb().conntrack() else {
            return verdict;
        };
        match dest_change::<V>(conn, info) {
            Change::None => verdict,
            Change::Address => {
                count!(Stats, Event::Rerouted);
                match V::route_again(call) {
                    Ok(()) => verdict,
                    Err(err) => Verdict::drop_err(err),
                }
            }
            Change::Port if V::is_xfrm_transformed(&call.packet) => verdict,
            Change::Port => look_up_again(call, verdict),
        }
    }
}

/// Arrived: sources change. Early demultiplexing may have found a socket by what the source was
/// before; that one is wrong then.
struct LocalIn;

impl<V: Nat> Hook<V> for LocalIn {
    #[inline(always)]
    fn call(call: &mut Call<'_, V>) -> Verdict {
        count!(Stats, Event::LocalIn);
        let before = *call.packet.addrs().0;
        let verdict = translate(call);
        if verdict != Verdict::ACCEPT {
            return verdict;
        }
        let skb = call.packet.skb();
        let Some(sock) = skb.sock().filter(|sock| !sock.is_transparent()) else {
            return verdict;
        };
        if before != *call.packet.addrs().0 || port_was_changed::<V>(&call.packet, sock.dest_port())
        {
            call.packet.skb_mut().orphan();
        }
        verdict
    }
}

/// One end of a connection, to be compared.
#[inline(always)]
fn end<V: Version>(endpoint: &Endpoint) -> End<'_, V::Addr> {
    End {
        addr: V::endpoint_addr(endpoint),
        port: endpoint.port(),
    }
}

/// How the source of the packet's direction is translated.
#[inline(always)]
fn source_change<V: Version>(conn: &Conn, info: CtInfo) -> Change {
    let direction = info.direction();
    let (own, other) = (conn.tuple(direction), conn.tuple(direction.other()));
    let has_ports = own.protocol() != V::ICMP;
    Change::between(end::<V>(own.source()), end::<V>(other.dest()), has_ports)
}

/// How the destination of the packet's direction is translated.
#[inline(always)]
fn dest_change<V: Version>(conn: &Conn, info: CtInfo) -> Change {
    let direction = info.direction();
    let (own, other) = (conn.tuple(direction), conn.tuple(direction.other()));
    let has_ports = own.protocol() != V::ICMP;
    Change::between(end::<V>(own.dest()), end::<V>(other.source()), has_ports)
}

/// Whether a packet of the original direction has another source port than the socket that was
/// found for it expects.
#[inline(always)]
fn port_was_changed<V: Version>(packet: &Packet<'_, V>, expected: Be16) -> bool {
    let (info, Some(conn)) = packet.skb().conntrack() else {
        return false;
    };
    let reply = conn.tuple(Direction::Reply);
    Protocol::from_number(conn.tuple(Direction::Original).protocol()).is_some()
        && info.direction() == Direction::Original
        && reply.dest().port() != expected
}

/// Asks for the policy of a packet that was translated, unless the answer is known: without
/// outbound policies, and with a plain route, it is the route that the packet has.
#[inline(always)]
fn look_up_again<V: Version>(call: &mut Call<'_, V>, verdict: Verdict) -> Verdict {
    let net = call.net();
    let bundle = call.packet.skb().dst().is_some_and(|dst| dst.is_bundle());
    match xfrm::out_policies(net).lookup_reason(bundle) {
        None => {
            count!(Stats, Event::LookupSkipped);
            return verdict;
        }
        Some(Reason::Policies) => count!(Stats, Event::LookupPolicies),
        Some(Reason::SocketPolicies) => count!(Stats, Event::LookupSocketPolicies),
        Some(Reason::DefaultBlocks) => count!(Stats, Event::LookupDefaultBlocks),
        Some(Reason::Bundle) => count!(Stats, Event::LookupBundle),
    }
    match xfrm::lookup_again(net, call.packet.reborrow()) {
        Ok(()) => verdict,
        Err(err) => Verdict::drop_err(err),
    }
}
