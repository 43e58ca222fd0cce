// SPDX-License-Identifier: GPL-2.0

//! Evidence that the RCU read lock is held, without taking it.
//!
//! C header: [`include/linux/rcupdate.h`](srctree/include/linux/rcupdate.h)

use core::marker::PhantomData;
use kernel::types::NotThreadSafe;

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
