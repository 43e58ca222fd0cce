// SPDX-License-Identifier: GPL-2.0

//! Routes, `struct dst_entry`.
//!
//! C header: [`include/net/dst.h`](srctree/include/net/dst.h)

use core::{
    ptr::NonNull,
    sync::atomic::{AtomicI32, Ordering}, //
};
use kernel::types::Opaque;
use nf_bindings as bindings;

/// A route that something else keeps: the packet, or the RCU read section.
#[repr(transparent)]
pub struct Dst(Opaque<bindings::dst_entry>);

impl Dst {
    /// The pointer for C.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::dst_entry {
        self.0.get()
    }

    /// Whether it is a bundle: a route through a transformation, `dst->xfrm`.
    #[inline]
    pub fn is_bundle(&self) -> bool {
        // SAFETY: The route is valid, and the field never changes once it can be found.
        unsafe { !(*self.as_raw()).xfrm.is_null() }
    }

    /// Whether it is no route, but what a tunnel says of a packet: `DST_METADATA`.
    #[inline]
    pub(crate) fn is_metadata(&self) -> bool {
        // SAFETY: The route is valid, and the flag never changes.
        let flags = unsafe { (*self.as_raw()).flags };
        u32::from(flags) & bindings::DST_METADATA != 0
    }

    /// The route below the transformation, if it is a bundle; else the route itself.
    #[inline]
    pub fn plain(&self) -> &Self {
        if !self.is_bundle() {
            return self;
        }
        let bundle = self.as_raw().cast::<bindings::xfrm_dst>();
        // SAFETY: A route with a transformation is the beginning of an `xfrm_dst`.
        let route = unsafe { (*bundle).route };
        // SAFETY: It keeps the route below it; the wrapper is transparent.
        unsafe { &*route.cast() }
    }

    /// Takes a reference, if it is not being destroyed: `dst_hold_safe()`.
    #[inline]
    pub fn hold_safe(&self) -> Option<OwnedDst> {
        let refs = self
            .as_raw()
            .cast::<u8>()
            .wrapping_add(bindings::RUST_OFFSETOF_dst_entry___rcuref);
        // SAFETY: The field is at that offset; it is one atomic integer, that all others use as
        // one, too.
        let count = unsafe { AtomicI32::from_ptr(refs.cast()) };
        // Counts up first and looks afterwards: only in its dead and its saturated zone, which
        // are negative, is there something to look at. `rcuref_get()`.
        if count.fetch_add(1, Ordering::Relaxed).wrapping_add(1) < 0
            // SAFETY: `refs` is the counter of a valid route, counted up just now.
            && !unsafe { bindings::rcuref_get_slowpath(refs.cast()) }
        {
            return None;
        }
        // SAFETY: A reference was taken.
        Some(unsafe { OwnedDst::from_raw(NonNull::from(self).cast()) })
    }

    /// The length of the link layer's header on the route's device.
    #[inline]
    fn hard_header_len(&self) -> u32 {
        let field = self
            .as_raw()
            .cast::<u8>()
            .wrapping_add(bindings::RUST_OFFSETOF_dst_entry_dev);
        // SAFETY: The field is at that offset; a route always has a device.
        let dev = unsafe { field.cast::<*const bindings::net_device>().read_volatile() };
        // SAFETY: The route keeps its device.
        u32::from(unsafe { (*dev).hard_header_len })
    }
}

/// A reference to a route. Dropping it releases the reference.
///
/// # Invariants
///
/// The pointer is to a valid route, and one of its references is ours.
pub struct OwnedDst(NonNull<bindings::dst_entry>);

impl OwnedDst {
    /// Takes over a reference.
    ///
    /// # Safety
    ///
    /// `ptr` must point to a valid route, one reference to which becomes the result's.
    #[inline]
    pub(crate) unsafe fn from_raw(ptr: NonNull<bindings::dst_entry>) -> Self {
        // INVARIANT: By the requirement on this function.
        Self(ptr)
    }

    /// The length of the link layer's header on the route's device.
    #[inline]
    pub(crate) fn hard_header_len(&self) -> u32 {
        // SAFETY: By the type's invariants the route is valid; the wrapper is transparent.
        unsafe { self.0.cast::<Dst>().as_ref() }.hard_header_len()
    }

    /// Hands the reference over to C.
    #[inline]
    pub(crate) fn into_raw(self) -> *mut bindings::dst_entry {
        core::mem::ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Drop for OwnedDst {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type's invariants a reference is ours to give back.
        unsafe { bindings::dst_release(self.0.as_ptr()) };
    }
}
