// SPDX-License-Identifier: GPL-2.0

//! State that a module keeps for each network namespace.
//!
//! C header: [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h)

use crate::netns::Net;
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    pin::Pin, //
};
use kernel::{
    error::{from_result, to_result},
    prelude::*,
    types::Opaque, //
};
use nf_bindings as bindings;

/// The number by which C finds a module's state in a namespace.
pub struct Id(UnsafeCell<c_uint>);

// SAFETY: C writes it while the state is registered or unregistered, which exclude each other and
// any use.
unsafe impl Sync for Id {}

impl Id {
    /// For a state that is not registered yet.
    pub const fn new() -> Self {
        Self(UnsafeCell::new(0))
    }
}

impl Default for Id {
    fn default() -> Self {
        Self::new()
    }
}

/// A module's state in a namespace.
pub trait PerNet: Sized + Send + Sync + 'static {
    /// The number of this state; a `static` of its own, which nothing else uses.
    fn id() -> &'static Id;

    /// Makes the state of a namespace. Process context; may sleep. A failure makes the creation
    /// of the namespace (or the registration) fail.
    fn init(net: &Net) -> impl PinInit<Self, Error>;
}

/// Keeps a state `T` in every namespace, those that exist and those to come, from its
/// initialization to its drop. A namespace's state is dropped after nf_tables took its hooks away.
#[pin_data(PinnedDrop)]
pub struct Registration<T: PerNet> {
    #[pin]
    ops: Opaque<bindings::pernet_operations>,
    _state: PhantomData<T>,
}

// SAFETY: C synchronizes all access to the operations.
unsafe impl<T: PerNet> Send for Registration<T> {}
// SAFETY: Nothing can be done with a shared reference but to look a state up.
unsafe impl<T: PerNet> Sync for Registration<T> {}

impl<T: PerNet> Registration<T> {
    /// Registers it: `register_pernet_subsys()`. Process context; may sleep.
    pub fn new() -> impl PinInit<Self, Error> {
        const { assert!(size_of::<T>() > 0, "C gives no room to what has no size") };
        try_pin_init!(Self {
            ops <- Opaque::try_ffi_init(|slot: *mut bindings::pernet_operations| {
                let ops = bindings::pernet_operations {
                    init: Some(init::<T>),
                    exit: Some(exit::<T>),
                    id: T::id().0.get(),
                    size: size_of::<T>(),
                    ..pin_init::zeroed()
                };
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(ops) };
                // SAFETY: The operations are complete, and pinned until they are unregistered.
                to_result(unsafe { bindings::register_pernet_subsys(slot) })
            }),
            _state: PhantomData,
        })
    }
}

#[pinned_drop]
impl<T: PerNet> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The operations were registered in `new()`, or there would be no value to drop.
        unsafe { bindings::unregister_pernet_subsys(self.ops.get()) };
    }
}

/// The state of `net`.
///
/// # Safety
///
/// `T` must be registered, and `net` must be between its `init` and its `exit`. What is behind the
/// pointer is initialized in that time.
#[inline]
unsafe fn state<T: PerNet>(net: *const bindings::net) -> *mut T {
    let id = T::id().0.get();
    // SAFETY: C wrote the number when it was registered.
    let id = unsafe { id.read() };
    // SAFETY: The namespace has room for each registered number.
    unsafe { bindings::nfrust_helper_net_generic(net, id) }.cast()
}

/// The state of a namespace, for something in that namespace that depends on it.
///
/// # Safety
///
/// `T` must be registered, and its state in `net` must not have been dropped.
pub(crate) unsafe fn get<T: PerNet>(net: &Net) -> Pin<&T> {
    // SAFETY: By the requirement on this function.
    let state = unsafe { state::<T>(net.as_raw()) };
    // SAFETY: As above, it is there and initialized.
    let state = unsafe { &*state };
    // SAFETY: It stays where it is until it is dropped.
    unsafe { Pin::new_unchecked(state) }
}

/// # Safety
///
/// C calls this for a new namespace.
unsafe extern "C" fn init<T: PerNet>(net: *mut bindings::net) -> c_int {
    from_result(|| {
        const {
            assert!(
                align_of::<T>() <= align_of::<u64>(),
                "C aligns it no better"
            )
        };
        // SAFETY: The namespace is valid.
        let init = T::init(unsafe { Net::from_raw(net) });
        // SAFETY: The number was written, and the room set aside, before this call.
        let state = unsafe { state::<T>(net) };
        // SAFETY: The room is of this size, aligned as for any object, and not moved.
        unsafe { pin_init::raw_try_init(state, init) }?;
        Ok(0)
    })
}

/// # Safety
///
/// C calls this for a namespace whose `init` succeeded, and not again.
unsafe extern "C" fn exit<T: PerNet>(net: *mut bindings::net) {
    // SAFETY: The state is still registered.
    let state = unsafe { state::<T>(net) };
    // SAFETY: `init()` has made it, and C frees the room without looking at it.
    unsafe { core::ptr::drop_in_place(state) };
}
