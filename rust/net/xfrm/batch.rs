// SPDX-License-Identifier: GPL-2.0

//! Packets that waited together, on the stack of the poll that receives them.

use super::{
    family::Esp,
    input::Packet,
    mib::Cause, //
};
use crate::netdev::DeviceRef;
use core::{
    cell::Cell,
    mem::MaybeUninit,
    ops::Range,
    ptr,
    slice, //
};
use nf_bindings as bindings;

/// How many packets a poll can have: what NAPI gives at most.
pub const BATCH: usize = bindings::NAPI_POLL_WEIGHT as usize;

/// Packets that waited, in the order in which they came.
///
/// # Invariants
///
/// The first `len` are initialized.
pub struct Batch<V: Esp> {
    // Not an array of single ones, which is made somewhere else and then copied to here.
    packets: MaybeUninit<[Option<Waiting<V>>; BATCH]>,
    len: usize,
}

/// A packet that waited, and the device that it waited for.
struct Waiting<V: Esp> {
    packet: Packet<V>,
    dev: DeviceRef,
    /// Which state it is for, to tell it from others; or 0.
    state: usize,
    result: Cell<Result<u8, Cause>>,
}

/// A device that is kept until a packet of it has gone its way.
pub struct KeepDevice(#[expect(dead_code)] DeviceRef);

impl<V: Esp> Batch<V> {
    #[inline]
    pub(super) fn new() -> Self {
        // INVARIANT: None is.
        Self {
            packets: MaybeUninit::uninit(),
            len: 0,
        }
    }

    /// Adds a packet, for which there must be room.
    #[inline]
    pub(super) fn push(&mut self, packet: Packet<V>, dev: DeviceRef) {
        if self.len < BATCH {
            let waiting = Waiting {
                state: packet.state().map_or(0, |x| ptr::from_ref(x).addr()),
                packet,
                dev,
                result: Cell::new(Err(Cause::Protocol)),
            };
            let place = self.packets.as_mut_ptr().cast::<Option<Waiting<V>>>();
            let place = place.wrapping_add(self.len);
            // SAFETY: There is room for this one, and nothing in it that would have to be dropped.
            unsafe { place.write(Some(waiting)) };
            // INVARIANT: Now it is initialized, too.
            self.len += 1;
        }
    }

    /// How many packets there were.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there were none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn packets(&self) -> &[Option<Waiting<V>>] {
        let packets = (&raw const self.packets).cast();
        // SAFETY: By the type's invariants.
        unsafe { slice::from_raw_parts(packets, self.len) }
    }

    #[inline]
    fn packets_mut(&mut self) -> &mut [Option<Waiting<V>>] {
        let packets = (&raw mut self.packets).cast();
        // SAFETY: By the type's invariants.
        unsafe { slice::from_raw_parts_mut(packets, self.len) }
    }

    /// A packet, if it was not taken.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&Packet<V>> {
        Some(&self.packets().get(index)?.as_ref()?.packet)
    }

    /// A packet, if it is for this state and was not taken.
    #[inline]
    pub fn get_of(&self, index: usize, state: usize) -> Option<&Packet<V>> {
        let waiting = self.packets().get(index)?.as_ref()?;
        (waiting.state == state).then_some(&waiting.packet)
    }

    /// A packet, to be changed, if it was not taken.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Packet<V>> {
        Some(&mut self.packets_mut().get_mut(index)?.as_mut()?.packet)
    }

    /// Which state a packet is for, if it was not taken: the same number for the same one.
    #[inline]
    pub fn state_of(&self, index: usize) -> Option<usize> {
        Some(self.packets().get(index)?.as_ref()?.state)
    }

    /// What was noted for a packet.
    #[inline]
    pub fn result(&self, index: usize) -> Result<u8, Cause> {
        match self.packets().get(index) {
            Some(Some(waiting)) => waiting.result.get(),
            _ => Err(Cause::Protocol),
        }
    }

    /// Notes what became of a packet.
    #[inline]
    pub fn set_result(&self, index: usize, result: Result<u8, Cause>) {
        if let Some(Some(waiting)) = self.packets().get(index) {
            waiting.result.set(result);
        }
    }

    /// Notes for each packet of a state in the range, in order, what `with` makes of what was noted
    /// before.
    #[inline(always)]
    pub fn note(
        &self,
        range: Range<usize>,
        state: usize,
        mut with: impl FnMut(&Packet<V>, Result<u8, Cause>) -> Result<u8, Cause>,
    ) {
        let waiting = self.packets().get(range).unwrap_or_default().iter();
        for waiting in waiting.flatten().filter(|waiting| waiting.state == state) {
            let result = with(&waiting.packet, waiting.result.get());
            waiting.result.set(result);
        }
    }

    /// Takes a packet out.
    #[inline]
    pub fn take(&mut self, index: usize) -> Option<(Packet<V>, KeepDevice)> {
        let waiting = self.packets_mut().get_mut(index)?.take()?;
        Some((waiting.packet, KeepDevice(waiting.dev)))
    }

    /// Drops all packets that were not taken.
    #[inline]
    pub(super) fn clear(&mut self) {
        for waiting in self.packets_mut() {
            *waiting = None;
        }
        self.len = 0;
    }
}

impl<V: Esp> Drop for Batch<V> {
    #[inline]
    fn drop(&mut self) {
        self.clear();
    }
}
