// SPDX-License-Identifier: GPL-2.0

//! Those who want to know of each packet of ESP that was received, or could not be: interfaces
//! (`xfrm`, `vti`), and the sockets of key managers.
//!
//! C calls them from a function that is not exported. They are in a list, ordered by priority; a
//! handler of our own at its head leads to the rest.

use super::family::{Callback, Esp};
use crate::{
    rcu::Section,
    skb::SkBuff, //
};
use core::pin::Pin;
use kernel::{
    error::to_result,
    prelude::*,
    types::Opaque, //
};

/// The head of the list of handlers of ESP over `V`, from its initialization to its drop.
#[pin_data(PinnedDrop)]
pub struct Handlers<V: Esp> {
    #[pin]
    handler: Opaque<V::Handler>,
}

// SAFETY: C synchronizes all access to the handler.
unsafe impl<V: Esp> Send for Handlers<V> {}
// SAFETY: With a shared reference the list can be walked, which C expects at any time.
unsafe impl<V: Esp> Sync for Handlers<V> {}

impl<V: Esp> Handlers<V> {
    /// Puts a handler in front of all others. Process context; may sleep. `EEXIST` where another
    /// one stands there.
    pub fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            handler <- Opaque::try_ffi_init(|slot: *mut V::Handler| {
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(V::handler()) };
                // SAFETY: The handler is complete, and pinned until it is taken away.
                to_result(unsafe { V::register_handler(slot) })
            }),
        })
    }

    /// Tells of a packet that was received (0), or could not be (negative), what C's
    /// `xfrm_rcv_cb()` does: one after the other is told, until one takes the packet as its own
    /// or fails. That one's answer is the result.
    #[inline]
    pub fn tell(&self, _rcu: Section<'_>, skb: &mut SkBuff, err: c_int) -> c_int {
        let mut at = V::next_handler(self.handler.get());
        loop {
            // SAFETY: What is in the list stays until the RCU read section ends.
            let handler = unsafe { at.read_volatile() };
            if handler.is_null() {
                return 0;
            }
            // SAFETY: As above.
            let callback: Option<Callback> = unsafe { V::callback(handler) };
            if let Some(callback) = callback {
                // SAFETY: The packet is one of ESP, ours, and this function is for such packets.
                let ret = unsafe { callback(skb.as_raw(), err) };
                if ret <= 0 {
                    return ret;
                }
            }
            at = V::next_handler(handler);
        }
    }
}

#[pinned_drop]
impl<V: Esp> PinnedDrop for Handlers<V> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: It was registered in `new()`, or there would be no value to drop.
        unsafe { V::deregister_handler(self.handler.get()) };
    }
}
