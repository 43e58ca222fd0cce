// SPDX-License-Identifier: GPL-2.0

//! Network namespaces.
//!
//! C header: [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h)

use kernel::types::Opaque;
use nf_bindings as bindings;

/// A network namespace, `struct net`.
#[repr(transparent)]
pub struct Net(Opaque<bindings::net>);

impl Net {
    /// Wraps a pointer from C.
    ///
    /// # Safety
    ///
    /// `ptr` must point to a `net` that outlives `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut bindings::net) -> &'a Self {
        // SAFETY: A pointer to something is not null. (Said aloud, the compiler forgets it else.)
        unsafe { core::hint::assert_unchecked(!ptr.is_null()) };
        // SAFETY: By the requirement on this function; the wrapper is transparent.
        unsafe { &*ptr.cast() }
    }

    /// The pointer for C.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::net {
        self.0.get()
    }
}

impl PartialEq for Net {
    /// Whether both are the same namespace: `net_eq()`.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}
