// SPDX-License-Identifier: GPL-2.0

//! Packets on their way in: what a device decrypted is received here, with the lock of its state
//! taken once: for each packet, or (`burst.rs`) for all that arrived together.
//!
//! Whatever needs no lock comes before it. What is found there is counted in C's order all the
//! same: the state, the encapsulation, the sequence number, the lifetime, and only then whether
//! what ESP added could be removed.

use crate::{
    burst,
    counters::{Event, Stats},
    module::{Context, CONTEXT},
    switch,
    Ip, //
};
use net::{
    count,
    percpu::Counters,
    rcu::Section,
    time,
    xfrm::{
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
        if !offload.is_some_and(|offload| offload.is_done()) && !packet.find_state(header) {
            count!(Stats, Event::Passed);
            return packet.pass();
        }
        match packet.take(header) {
            Ok((packet, outcome)) => {
                match CONTEXT.get(rcu) {
                    Some(context) if switch::is_per_burst() => burst::wait(context, packet),
                    Some(context) => receive(context, packet, rcu),
                    None => packet.leave(),
                }
                outcome
            }
            Err(passed) => {
                count!(Stats, Event::Passed);
                passed
            }
        }
    }
}

/// Receives a packet by itself.
#[inline]
fn receive(context: &Context, packet: Packet<Ip>, rcu: Section<'_>) {
    if !is_ours(&packet) || is_listened_to(&packet) {
        return packet.leave();
    }
    if let Some((packet, next_header)) = receive_one(context, packet, rcu) {
        packet.resume(next_header);
    }
}

/// Receives a packet that is ours. What is left of it, to be delivered, with the number of its next
/// header.
#[inline(always)]
pub(crate) fn receive_one(
    context: &Context,
    mut packet: Packet<Ip>,
    rcu: Section<'_>,
) -> Option<(Packet<Ip>, u8)> {
    let removed = packet.remove_esp();
    let now = time::real_seconds();
    let Some(x) = packet.state() else {
        discard(context, packet, Cause::Invalid, rcu);
        return None;
    };

    count!(Stats, Event::Locked);
    let mut x = x.lock(now);
    let accepted = accept(&mut x, &packet, removed);
    drop(x);

    match accepted {
        Ok(next_header) => {
            let packet = remove_mode(context, packet, next_header, rcu)?;
            Some((packet, next_header))
        }
        Err(cause) => {
            discard(context, packet, cause, rcu);
            None
        }
    }
}

/// Whether C would have nothing to say about the packet before it takes the lock.
#[inline]
pub(crate) fn is_ours(packet: &Packet<Ip>) -> bool {
    let offload = packet.skb().offload();
    if !offload.is_some_and(|offload| offload.is_done()) {
        count!(Stats, Event::Software);
        return false;
    }
    if !offload.is_some_and(|offload| offload.is_success())
        || !packet.state().is_some_and(|x| x.was_valid())
    {
        count!(Stats, Event::Left);
        return false;
    }
    true
}

/// Whether C would have something to say about the packet when it has accepted the sequence number.
#[inline]
pub(crate) fn is_listened_to(packet: &Packet<Ip>) -> bool {
    let is_listened_to = listeners::to_aevents(packet.net());
    if is_listened_to {
        count!(Stats, Event::Listened);
    }
    is_listened_to
}

/// Everything that needs the lock, in C's order. `removed` is what became of ESP's parts, to which
/// C would get only now; the result is it, where nothing comes before.
#[inline(always)]
pub(crate) fn accept(
    x: &mut Locked<'_>,
    packet: &Packet<Ip>,
    removed: Result<u8, Cause>,
) -> Result<u8, Cause> {
    x.check_valid()?;
    if x.encap_type() != packet.encap_type() {
        return Err(Cause::Mismatch);
    }
    // Most of them.
    if removed.is_ok() && x.receive_next(packet.seq(), packet.skb().len()) {
        return removed;
    }
    accept_other(x, packet, removed)
}

/// What comes after the encapsulation, for any packet.
#[inline(never)]
fn accept_other(
    x: &mut Locked<'_>,
    packet: &Packet<Ip>,
    removed: Result<u8, Cause>,
) -> Result<u8, Cause> {
    let accepted = x.check_replay(packet.seq())?;
    x.check_expire()?;
    let next_header = removed?;
    x.advance(accepted);
    x.account(packet.skb().len());
    Ok(next_header)
}

/// Removes what the mode added from a packet that was accepted. None if it is gone.
#[inline]
pub(crate) fn remove_mode(
    context: &Context,
    packet: Packet<Ip>,
    next_header: u8,
    rcu: Section<'_>,
) -> Option<Packet<Ip>> {
    match packet.remove_mode(next_header) {
        Ok(Inner::Left(packet)) => {
            count!(Stats, Event::Received);
            return Some(packet);
        }
        Ok(Inner::Kept) => count!(Stats, Event::Kept),
        Err(packet) => discard(context, packet, Cause::Mode, rcu),
    }
    None
}

/// Drops a packet.
#[cold]
pub(crate) fn discard(context: &Context, packet: Packet<Ip>, cause: Cause, rcu: Section<'_>) {
    Stats::count(cause.into());
    if let (Cause::Sequence, Some(x)) = (cause, packet.state()) {
        state::audit_replay(x, packet.skb(), packet.seq());
    }
    packet.discard(&context.handlers, cause, rcu);
}
