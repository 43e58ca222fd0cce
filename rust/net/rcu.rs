// SPDX-License-Identifier: GPL-2.0

//! Evidence that the RCU read lock is held, without taking it.
//!
//! C header: [`include/linux/rcupdate.h`](srctree/include/linux/rcupdate.h)

use core::{
    marker::PhantomData,
    pin::Pin,
    ptr,
    sync::atomic::{AtomicPtr, Ordering}, //
};
use kernel::{
    prelude::*,
    types::NotThreadSafe, //
};
use nf_bindings as bindings;

/// An RCU read-side critical section that C opened before it called us, and closes after.
///
/// What is borrowed for `'rcu` cannot outlive the section. `kernel::sync::rcu::Guard` takes and
/// releases the lock itself, two calls; this costs nothing.
///
/// # Invariants
///
/// The RCU read lock is held during all of `'rcu`.
#[derive(Clone, Copy)]
pub struct Section<'rcu>(PhantomData<&'rcu ()>, NotThreadSafe);

impl Section<'_> {
    /// Relies on a section that is already open.
    ///
    /// # Safety
    ///
    /// The caller must be inside an RCU read-side critical section that lasts for all of the
    /// lifetime that is chosen for the result.
    #[inline(always)]
    pub(crate) unsafe fn assume() -> Self {
        // INVARIANT: By the requirement on this function.
        Self(PhantomData, NotThreadSafe)
    }
}

impl<'rcu> Section<'rcu> {
    /// The section that a guard keeps open.
    #[inline(always)]
    pub fn of(_guard: &'rcu kernel::sync::rcu::Guard) -> Self {
        // INVARIANT: The guard keeps the section open for as long as it is borrowed.
        Self(PhantomData, NotThreadSafe)
    }
}

/// A place where something can be found inside RCU read sections, while it is published there:
/// for functions that C calls without a pointer of ours.
pub struct Slot<T>(AtomicPtr<T>);

impl<T: Sync + 'static> Slot<T> {
    /// One in which nothing is published.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// What is published.
    #[inline]
    pub fn get<'rcu>(&self, _rcu: Section<'rcu>) -> Option<&'rcu T> {
        let published = self.0.load(Ordering::Acquire);
        // SAFETY: NULL, or something that stays until the sections end in which it can be found.
        unsafe { published.as_ref() }
    }
}

impl<T: Sync + 'static> Default for Slot<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Something that can be found in a slot, from its initialization to its drop.
#[pin_data(PinnedDrop)]
pub struct Published<T: Send + Sync + 'static> {
    slot: &'static Slot<T>,
    #[pin]
    value: T,
}

impl<T: Send + Sync + 'static> Published<T> {
    /// Publishes what `init` makes. Process context. `EBUSY` where something is.
    pub fn new(slot: &'static Slot<T>, init: impl PinInit<T, Error>) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            slot,
            value <- init,
            _: {
                let value = ptr::from_ref(&*value).cast_mut();
                slot.0
                    .compare_exchange(ptr::null_mut(), value, Ordering::Release, Ordering::Relaxed)
                    .map_err(|_| EBUSY)?;
            },
        })
    }
}

#[pinned_drop]
impl<T: Send + Sync + 'static> PinnedDrop for Published<T> {
    fn drop(self: Pin<&mut Self>) {
        self.slot.0.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: A module is unloaded in process context.
        unsafe { bindings::synchronize_rcu() };
    }
}
