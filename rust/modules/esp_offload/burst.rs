// SPDX-License-Identifier: GPL-2.0

//! Packets that arrived together: those of one state are received under one lock.
//!
//! They wait on their CPU until the device's poll is over. Then they are received state by state,
//! those of a state in the order in which they came. What is C's to receive goes to C in its turn,
//! so that no packet overtakes another one of its state.

use crate::{
    counters::{Event, Stats},
    module::{Context, CONTEXT},
    receive::{
        accept,
        discard,
        is_listened_to,
        is_ours,
        receive_one,
        remove_mode,
        Receiver, //
    },
    Ip, //
};
use core::ops::Range;
use net::{
    count,
    percpu::Counters,
    rcu::Section,
    time,
    xfrm::{
        batch::Batch,
        input::Packet,
        mib::Cause,
        queue::{Full, Napi, Poll}, //
    }, //
};

/// Lets a packet wait, or leaves it to C where there is nothing that it would overtake.
#[inline]
pub(crate) fn wait(context: &Context, packet: Packet<Ip>) {
    if context.queues.is_empty() && !is_ours(&packet) {
        return packet.leave();
    }
    if !packet.can_wait() {
        count!(Stats, Event::Left);
        return packet.leave();
    }
    match context.queues.push(packet) {
        Ok(()) => {}
        Err(Full::Down(packet)) => {
            count!(Stats, Event::DropDown);
            packet.discard_at_device();
        }
        Err(Full::Limit(packet)) => {
            count!(Stats, Event::DropLimit);
            packet.discard_at_device();
        }
    }
}

impl Poll<Ip> for Receiver {
    #[inline]
    fn poll_one(packet: Packet<Ip>, napi: &Napi, rcu: Section<'_>) {
        count!(Stats, Event::Polls);
        let Some(context) = CONTEXT.get(rcu) else {
            return packet.leave();
        };
        if packet.state().is_none() || is_listened_to(&packet) {
            return packet.leave();
        }
        if !packet.is_at_home() {
            // Its device went to another namespace while it waited.
            count!(Stats, Event::DropMoved);
            return;
        }
        if !is_ours(&packet) {
            return packet.leave();
        }
        Stats::count(Event::burst(1));
        if let Some((packet, next_header)) = receive_one(context, packet, rcu) {
            packet.deliver(next_header, &context.handlers, napi, rcu);
        }
    }

    #[inline]
    fn poll(batch: &mut Batch<Ip>, napi: &Napi, rcu: Section<'_>) {
        count!(Stats, Event::Polls);
        let context = CONTEXT.get(rcu);
        for first in 0..batch.len() {
            // What is left of it was taken with an earlier one.
            let Some(state) = batch.state_of(first) else {
                continue;
            };
            let mut from = first;
            while from < batch.len() {
                from = match context {
                    Some(context) => receive(context, batch, from, state, napi, rcu),
                    None => leave(batch, from),
                };
            }
        }
    }
}

/// Leaves a packet to C. Where to go on.
#[cold]
fn leave(batch: &mut Batch<Ip>, index: usize) -> usize {
    if let Some((packet, _device)) = batch.take(index) {
        packet.leave();
    }
    index + 1
}

/// Receives the packets of a state, from one on and up to one that is C's, under one lock. Where to
/// go on.
#[inline]
fn receive(
    context: &Context,
    batch: &mut Batch<Ip>,
    from: usize,
    state: usize,
    napi: &Napi,
    rcu: Section<'_>,
) -> usize {
    let Some(first) = (from..batch.len()).find(|&index| batch.state_of(index) == Some(state))
    else {
        return batch.len();
    };
    if state == 0 || batch.get(first).is_none_or(is_listened_to) {
        return leave(batch, first);
    }

    // Without the lock, what needs none.
    let mut end = first;
    let mut length = 0u32;
    while end < batch.len() {
        if batch.state_of(end) == Some(state) {
            let Some(packet) = batch.get_mut(end) else {
                break;
            };
            if !packet.is_at_home() {
                // Its device went to another namespace while it waited.
                count!(Stats, Event::DropMoved);
                drop(batch.take(end));
            } else if is_ours(packet) {
                let removed = packet.remove_esp();
                batch.set_result(end, removed);
                length += 1;
            } else {
                break;
            }
        }
        end += 1;
    }

    if length > 0 {
        Stats::count(Event::burst(length));
        count!(Stats, Event::Locked);
        let now = time::real_seconds();
        accept_all(batch, first..end, state, now);
        for index in first..end {
            if batch.state_of(index) == Some(state) {
                finish(context, batch, index, napi, rcu);
            }
        }
    }
    match end < batch.len() {
        true => leave(batch, end),
        false => end,
    }
}

/// Everything that needs the lock. By itself, as what is done under the lock is to have the
/// registers.
#[inline(never)]
fn accept_all(batch: &Batch<Ip>, range: Range<usize>, state: usize, now: i64) {
    // The first ones may have been dropped.
    let mut members = range.clone().filter_map(|index| batch.get_of(index, state));
    let Some(x) = members.next().and_then(Packet::state) else {
        return batch.note(range, state, |_packet, _removed| Err(Cause::Invalid));
    };
    let mut x = x.lock(now);
    batch.note(range, state, |packet, removed| {
        accept(&mut x, packet, removed)
    });
}

/// Delivers a packet, or drops it.
#[inline]
fn finish(context: &Context, batch: &mut Batch<Ip>, index: usize, napi: &Napi, rcu: Section<'_>) {
    let result = batch.result(index);
    let Some((packet, _device)) = batch.take(index) else {
        return;
    };
    match result {
        Ok(next_header) => {
            if let Some(packet) = remove_mode(context, packet, next_header, rcu) {
                packet.deliver(next_header, &context.handlers, napi, rcu);
            }
        }
        Err(cause) => discard(context, packet, cause, rcu),
    }
}
