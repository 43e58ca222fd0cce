// SPDX-License-Identifier: GPL-2.0

//! Packets on their way in: what a device decrypted is received here, under one lock.
//!
//! Whatever needs no lock comes before it. What is found there is counted in C's order all the
//! same: the state, the encapsulation, the sequence number, the lifetime, and only then whether
//! what ESP added could be removed.

use crate::{
    counters::{Event, Stats},
    module::HANDLERS,
    Ip, //
};
use net::{
    count,
    percpu::Counters,
    rcu::Section,
    time,
    xfrm::{
        handler::Handlers,
        input::{Arrived, Inner, Outcome, Packet},
        listeners,
        mib::Cause,
        offload::Receive,
        state::{self, Locked}, //
    }, //
};

/// Receives.
pub(crate) struct Receiver;

impl Receive<Ip> for Receiver {
    #[inline]
    fn gro_receive(mut packet: Arrived<'_, Ip>, rcu: Section<'_>) -> Outcome {
        let Some(header) = packet.header().filter(|_| packet.find_way()) else {
            count!(Stats, Event::Passed);
            return packet.pass();
        };
        let offload = packet.skb().offload();
        let is_done = offload.is_some_and(|offload| offload.is_done());
        if !is_done && !packet.find_state(header) {
            count!(Stats, Event::Passed);
            return packet.pass();
        }
        let (packet, outcome) = match packet.take(header) {
            Ok(taken) => taken,
            Err(passed) => {
                count!(Stats, Event::Passed);
                return passed;
            }
        };
        match HANDLERS.get(rcu) {
            Some(handlers) if is_done && is_ours(&packet) => receive(rcu, handlers, packet),
            _ => {
                if !is_done {
                    count!(Stats, Event::Software);
                }
                packet.leave();
            }
        }
        outcome
    }
}

/// Whether C would have nothing to say about the packet before it takes the lock, or after it
/// counted the sequence number.
#[inline]
fn is_ours(packet: &Packet<Ip>) -> bool {
    let is_success = packet
        .skb()
        .offload()
        .is_some_and(|offload| offload.is_success());
    if !is_success || !packet.state().is_some_and(|x| x.was_valid()) {
        count!(Stats, Event::Left);
        return false;
    }
    if listeners::to_aevents(packet.net()) {
        count!(Stats, Event::Listened);
        return false;
    }
    true
}

/// Receives a packet that was decrypted.
#[inline]
fn receive(rcu: Section<'_>, handlers: &Handlers<Ip>, mut packet: Packet<Ip>) {
    let next_header = packet.remove_esp();
    let now = time::real_seconds();
    let Some(x) = packet.state() else {
        return packet.leave();
    };

    count!(Stats, Event::Locked);
    let mut x = x.lock();
    let accepted = accept(&mut x, &packet, next_header, now);
    drop(x);

    let next_header = match accepted {
        Ok(next_header) => next_header,
        Err(cause) => return discard(rcu, handlers, packet, cause),
    };
    match packet.remove_mode(next_header) {
        Ok(Inner::Left(packet)) => {
            count!(Stats, Event::Received);
            packet.deliver(next_header);
        }
        Ok(Inner::Kept) => count!(Stats, Event::Kept),
        Err(packet) => discard(rcu, handlers, packet, Cause::Mode),
    }
}

/// Everything that needs the lock, in C's order.
#[inline]
fn accept(
    x: &mut Locked<'_>,
    packet: &Packet<Ip>,
    next_header: Option<u8>,
    now: i64,
) -> Result<u8, Cause> {
    x.check_valid()?;
    if x.encap_type() != packet.encap_type() {
        return Err(Cause::Mismatch);
    }
    let accepted = x.check_replay(packet.header().seq)?;
    x.check_expire()?;
    let next_header = next_header.ok_or(Cause::Protocol)?;
    x.advance(accepted);
    x.account(packet.skb().len(), now);
    Ok(next_header)
}

/// Drops a packet.
#[cold]
fn discard(rcu: Section<'_>, handlers: &Handlers<Ip>, packet: Packet<Ip>, cause: Cause) {
    Stats::count(cause.into());
    if let (Cause::Sequence, Some(x)) = (cause, packet.state()) {
        state::audit_replay(x, packet.skb(), packet.header().seq);
    }
    packet.discard(rcu, handlers, cause);
}
