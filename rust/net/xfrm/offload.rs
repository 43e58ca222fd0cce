// SPDX-License-Identifier: GPL-2.0

//! ESP before the protocol's own handler (GRO), and after routing (GSO, and devices that encrypt).
//!
//! C keeps two things for a version of IP: a `net_offload` for the protocol number, which packets
//! reach from GRO and GSO, and a `xfrm_type_offload`, which each state keeps from its beginning.
//! Both have room for one.

use super::{
    family::{self, Esp},
    input,
    output::Outgoing,
    state::State, //
};
use crate::{
    gso::Features,
    rcu::Section,
    skb::SkBuff, //
};
use core::{
    marker::PhantomData,
    pin::Pin, //
};
use kernel::{
    error::to_result,
    prelude::*,
    types::Opaque, //
};
use nf_bindings as bindings;

pub use input::{Arrived, Outcome};

/// What becomes of a packet that GRO has.
pub trait Receive<V: Esp>: 'static {
    /// Receives it, or leaves it to the protocol's own handler. Softirq context, inside an RCU
    /// read section.
    fn gro_receive(packet: Arrived<'_, V>, rcu: Section<'_>) -> Outcome;
}

/// What becomes of packets on their way out.
pub trait Transmit<V: Esp>: 'static {
    /// Writes ESP's header into a packet that waits to be segmented: `encap` of
    /// `struct xfrm_type_offload`. Inside an RCU read section.
    fn encap(packet: Outgoing<'_, V>);

    /// Makes a packet ready for the device, or encrypts it where the device does not: `xmit` of
    /// `struct xfrm_type_offload`. `features` are those of the device. Inside an RCU read section.
    /// `EINPROGRESS` where encryption goes on asynchronously; else what it fails with, the packet
    /// is dropped.
    fn xmit(packet: Outgoing<'_, V>, features: Features) -> Result;

    /// Cuts a packet with ESP's header in front into segments: `gso_segment` of
    /// `struct net_offload`. Inside an RCU read section.
    fn gso_segment(packet: Outgoing<'_, V>, features: Features) -> Result<Segments>;
}

/// Packets, linked by `skb->next`; or none, where the device does the rest.
pub struct Segments(*mut bindings::sk_buff);

impl Segments {
    /// Takes over what C's function for segmentation returned.
    ///
    /// # Safety
    ///
    /// `segments` must be NULL, or a list of packets that become the result's.
    pub(crate) unsafe fn from_raw(segments: *mut bindings::sk_buff) -> Self {
        Self(segments)
    }
}

/// Whether C's type, or anybody's, is registered for ESP over `V`. Process context.
///
/// The answer may be stale when it arrives.
pub fn is_taken<V: Esp>() -> bool {
    let _rcu = kernel::sync::rcu::read_lock();
    // SAFETY: The RCU read lock is held.
    let afinfo = unsafe { bindings::xfrm_state_afinfo_get_rcu(V::ADDRESS_FAMILY) };
    // SAFETY: What was found is valid until the RCU read lock is released; only a pointer is read.
    !afinfo.is_null() && unsafe { !(*afinfo).type_offload_esp.is_null() }
}

/// ESP over `V` with the help of devices, from its initialization to its drop.
///
/// Each state that is made meanwhile holds a reference to the module.
#[pin_data]
pub struct Registration<V: Esp, R: Receive<V>, T: Transmit<V>> {
    // Dropped from top to bottom, as C does it.
    #[pin]
    type_offload: TypeOffload<V, T>,
    #[pin]
    offload: Offload<V, R, T>,
}

impl<V: Esp, R: Receive<V>, T: Transmit<V>> Registration<V, R, T> {
    /// Registers both: `inet_add_offload()`, `xfrm_register_type_offload()`. Process context.
    ///
    /// Where ESP over `V` is served already, `taken` says so and makes the error.
    pub fn new(module: &'static ThisModule, taken: fn() -> Error) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // The one that says when it is taken comes first. The other one would be overwritten.
            offload <- Offload::new(taken),
            type_offload <- TypeOffload::new(module),
        })
    }
}

/// `struct net_offload` for ESP over `V`.
#[pin_data(PinnedDrop)]
struct Offload<V: Esp, R: Receive<V>, T: Transmit<V>> {
    #[pin]
    offload: Opaque<bindings::net_offload>,
    _serves: PhantomData<(V, R, T)>,
}

// SAFETY: C synchronizes all access to it.
unsafe impl<V: Esp, R: Receive<V>, T: Transmit<V>> Send for Offload<V, R, T> {}
// SAFETY: Nothing can be done with a shared reference.
unsafe impl<V: Esp, R: Receive<V>, T: Transmit<V>> Sync for Offload<V, R, T> {}

impl<V: Esp, R: Receive<V>, T: Transmit<V>> Offload<V, R, T> {
    fn new(taken: fn() -> Error) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            offload <- Opaque::try_ffi_init(move |slot: *mut bindings::net_offload| {
                if is_taken::<V>() {
                    return Err(taken());
                }
                let mut offload: bindings::net_offload = pin_init::zeroed();
                offload.callbacks.gro_receive = Some(gro_receive::<V, R>);
                offload.callbacks.gso_segment = Some(gso_segment::<V, T>);
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(offload) };
                // SAFETY: It is complete, and pinned until it is taken away.
                if unsafe { V::add_offload(slot) } < 0 {
                    return Err(taken());
                }
                Ok(())
            }),
            _serves: PhantomData,
        })
    }
}

#[pinned_drop]
impl<V: Esp, R: Receive<V>, T: Transmit<V>> PinnedDrop for Offload<V, R, T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: It was added in `new()`, or there would be no value to drop.
        unsafe { V::del_offload(self.offload.get()) };
    }
}

/// `struct xfrm_type_offload` for ESP over `V`.
#[pin_data(PinnedDrop)]
struct TypeOffload<V: Esp, T: Transmit<V>> {
    #[pin]
    type_offload: Opaque<bindings::xfrm_type_offload>,
    _serves: PhantomData<(V, T)>,
}

// SAFETY: C synchronizes all access to it.
unsafe impl<V: Esp, T: Transmit<V>> Send for TypeOffload<V, T> {}
// SAFETY: Nothing can be done with a shared reference.
unsafe impl<V: Esp, T: Transmit<V>> Sync for TypeOffload<V, T> {}

impl<V: Esp, T: Transmit<V>> TypeOffload<V, T> {
    fn new(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            type_offload <- Opaque::try_ffi_init(|slot: *mut bindings::xfrm_type_offload| {
                let type_offload = bindings::xfrm_type_offload {
                    owner: module.as_ptr(),
                    proto: family::ESP,
                    encap: Some(encap::<V, T>),
                    input_tail: Some(input::tail_for_c::<V>),
                    xmit: Some(xmit::<V, T>),
                };
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(type_offload) };
                // SAFETY: It is complete, and pinned until it is unregistered.
                let err = unsafe {
                    bindings::xfrm_register_type_offload(slot, V::ADDRESS_FAMILY as u16)
                };
                to_result(err)
            }),
            _serves: PhantomData,
        })
    }
}

#[pinned_drop]
impl<V: Esp, T: Transmit<V>> PinnedDrop for TypeOffload<V, T> {
    fn drop(self: Pin<&mut Self>) {
        let type_offload = self.type_offload.get();
        // SAFETY: It was registered in `new()`, or there would be no value to drop. States that
        // have it keep the module loaded, so that there are none.
        unsafe { bindings::xfrm_unregister_type_offload(type_offload, V::ADDRESS_FAMILY as u16) };
    }
}

/// # Safety
///
/// GRO calls this, with a packet of version `V` whose next header is ESP's.
unsafe extern "C" fn gro_receive<V: Esp, R: Receive<V>>(
    _head: *mut bindings::list_head,
    skb: *mut bindings::sk_buff,
) -> *mut bindings::sk_buff {
    // SAFETY: By the requirement on this function.
    match unsafe { Arrived::<V>::new(skb) } {
        // SAFETY: GRO is inside an RCU read section.
        Some(packet) => R::gro_receive(packet, unsafe { Section::assume() }).into_raw(),
        None => core::ptr::null_mut(),
    }
}

/// # Safety
///
/// GSO calls this, with a packet of version `V` whose next header is ESP's.
unsafe extern "C" fn gso_segment<V: Esp, T: Transmit<V>>(
    skb: *mut bindings::sk_buff,
    features: bindings::netdev_features_t,
) -> *mut bindings::sk_buff {
    // SAFETY: The packet is valid, and its sender's until this returns.
    let skb = unsafe { SkBuff::from_raw_mut(skb) };
    // SAFETY: As above; the path keeps its last state while the packet is not given up.
    let Some(packet) = (unsafe { Outgoing::<V>::from_path(skb) }) else {
        return EINVAL.to_ptr();
    };
    match T::gso_segment(packet, Features::from_raw(features)) {
        Ok(segments) => segments.0,
        Err(err) => err.to_ptr(),
    }
}

/// # Safety
///
/// C calls this for a packet that is about to be transformed by the state, the last of its path.
unsafe extern "C" fn encap<V: Esp, T: Transmit<V>>(
    x: *mut bindings::xfrm_state,
    skb: *mut bindings::sk_buff,
) {
    // SAFETY: The state is valid during the call.
    let x = unsafe { State::from_raw(x) };
    // SAFETY: The packet is valid, and ours during the call.
    let skb = unsafe { SkBuff::from_raw_mut(skb) };
    // SAFETY: By the requirement on this function.
    if let Some(packet) = unsafe { Outgoing::<V>::new(x, skb) } {
        T::encap(packet);
    }
}

/// # Safety
///
/// As [`encap()`].
unsafe extern "C" fn xmit<V: Esp, T: Transmit<V>>(
    x: *mut bindings::xfrm_state,
    skb: *mut bindings::sk_buff,
    features: bindings::netdev_features_t,
) -> c_int {
    // SAFETY: The state is valid during the call.
    let x = unsafe { State::from_raw(x) };
    // SAFETY: The packet is valid, and ours during the call, unless encryption takes it.
    let skb = unsafe { SkBuff::from_raw_mut(skb) };
    // SAFETY: By the requirement on this function.
    let Some(packet) = (unsafe { Outgoing::<V>::new(x, skb) }) else {
        return EINVAL.to_errno();
    };
    match T::xmit(packet, Features::from_raw(features)) {
        Ok(()) => 0,
        Err(err) => err.to_errno(),
    }
}
