// SPDX-License-Identifier: GPL-2.0

//! Hooks: functions that netfilter calls for each packet.
//!
//! C header: [`include/linux/netfilter.h`](srctree/include/linux/netfilter.h)

use super::{
    ip::{Packet, Version},
    NetDevice, //
};
use crate::{
    netns::Net,
    skb::SkBuff, //
};
use core::marker::PhantomData;
use kernel::prelude::*;
use nf_bindings as bindings;

/// What is to become of a packet, `NF_*`; some carry a queue number or an errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Verdict(u32);

impl Verdict {
    /// `NF_ACCEPT`.
    pub const ACCEPT: Self = Self(bindings::NF_ACCEPT);
    /// `NF_DROP`: freed by the caller of the hook.
    pub const DROP: Self = Self(bindings::NF_DROP);
    /// `NF_STOLEN`: somebody else has the packet now; it may be gone.
    pub const STOLEN: Self = Self(bindings::NF_STOLEN);

    /// Drops the packet, with an error that a local sender gets to see: `NF_DROP_ERR()`.
    #[inline]
    pub fn drop_err(err: Error) -> Self {
        Self((err.to_errno().unsigned_abs() << 16) | bindings::NF_DROP)
    }

    /// Takes a verdict from C.
    #[inline]
    pub(crate) fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// The verdict for C.
    #[inline]
    pub(crate) fn into_raw(self) -> u32 {
        self.0
    }

    /// The verdict without what it carries: masked with `NF_VERDICT_MASK`.
    #[inline]
    pub fn kind(self) -> Self {
        Self(self.0 & bindings::NF_VERDICT_MASK)
    }
}

/// A call of a hook function: a packet, and where it is.
///
/// It is inside an RCU read section, mostly in softirq context.
pub struct Call<'a, V: Version> {
    /// The packet.
    pub packet: Packet<'a, V>,
    private: *mut c_void,
    state: *const bindings::nf_hook_state,
    _call: PhantomData<&'a bindings::nf_hook_state>,
}

impl<'a, V: Version> Call<'a, V> {
    /// The arguments of a C hook function.
    ///
    /// # Safety
    ///
    /// They must be the arguments that netfilter called a hook function of the family `V` with,
    /// and `'a` must not outlast that call.
    #[inline(always)]
    unsafe fn new(
        private: *mut c_void,
        skb: *mut bindings::sk_buff,
        state: *const bindings::nf_hook_state,
    ) -> Self {
        // SAFETY: By the requirement on this function the packet is ours during the call.
        let skb = unsafe { SkBuff::from_raw_mut(skb) };
        Self {
            // SAFETY: A hook of this family sees packets of this version only.
            packet: unsafe { Packet::new(skb) },
            private,
            state,
            _call: PhantomData,
        }
    }

    /// The namespace of the hook. (That of the packet's device may be another one.)
    #[inline]
    pub fn net(&self) -> &'a Net {
        // SAFETY: The state is valid during the call.
        let net = unsafe { (*self.state).net };
        // SAFETY: The namespace outlives the call.
        unsafe { Net::from_raw(net) }
    }

    /// The device that the packet leaves through, at the hooks where that is known.
    #[inline]
    pub fn outdev(&self) -> Option<&'a NetDevice> {
        // SAFETY: The state is valid during the call.
        let out = unsafe { (*self.state).out };
        // SAFETY: NULL, or a device that outlives the call; the wrapper is transparent.
        unsafe { out.cast::<NetDevice>().as_ref() }
    }

    /// The hook's own pointer.
    #[inline]
    pub(crate) fn private(&self) -> *mut c_void {
        self.private
    }

    /// The state for C.
    #[inline]
    pub(crate) fn state(&self) -> *const bindings::nf_hook_state {
        self.state
    }
}

/// A hook function for packets of version `V`.
pub trait Hook<V: Version> {
    /// Decides what becomes of the packet.
    fn call(call: &mut Call<'_, V>) -> Verdict;
}

/// A hook function for C: made by [`hook_functions!`](crate::hook_functions).
pub struct HookFn<V> {
    pub(crate) function: bindings::nf_hookfn,
    _version: PhantomData<V>,
}

impl<V> Clone for HookFn<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for HookFn<V> {}

impl<V> HookFn<V> {
    /// Wraps a function.
    ///
    /// # Safety
    ///
    /// `function` must do nothing but to pass its arguments on to [`call_hook()`] for `V`.
    #[doc(hidden)]
    pub const unsafe fn new(function: RawHook) -> Self {
        Self {
            function: Some(function),
            _version: PhantomData,
        }
    }
}

#[doc(hidden)]
pub use nf_bindings::{nf_hook_state, sk_buff};

/// `nf_hookfn`.
#[doc(hidden)]
pub type RawHook = unsafe extern "C" fn(*mut c_void, *mut sk_buff, *const nf_hook_state) -> c_uint;

/// What the functions that [`hook_functions!`](crate::hook_functions) makes do.
///
/// # Safety
///
/// Netfilter calls this, by a function that it was given for packets of version `V`.
#[doc(hidden)]
#[inline(always)]
pub unsafe fn call_hook<V: Version, H: Hook<V>>(
    private: *mut c_void,
    skb: *mut sk_buff,
    state: *const nf_hook_state,
) -> c_uint {
    // SAFETY: By the requirement on this function; the call does not outlast it.
    let mut call = unsafe { Call::new(private, skb, state) };
    H::call(&mut call).into_raw()
}

/// Defines functions that netfilter can call, under names that C's tools can show (stack traces,
/// `%ps`, kprobes): `hook_functions! { const FN: Version = name => HookType; }`.
#[macro_export]
macro_rules! hook_functions {
    ($($(#[$attr:meta])* $vis:vis const $konst:ident: $version:ty = $name:ident => $hook:ty;)*) => {
        $(
            $(#[$attr])*
            $vis const $konst: $crate::netfilter::hook::HookFn<$version> = {
                // The name is the module's own: it ends in what no C function's ends in.
                #[no_mangle]
                unsafe extern "C" fn $name(
                    private: *mut ::kernel::ffi::c_void,
                    skb: *mut $crate::netfilter::hook::sk_buff,
                    state: *const $crate::netfilter::hook::nf_hook_state,
                ) -> ::kernel::ffi::c_uint {
                    // SAFETY: Netfilter calls this function with these arguments.
                    unsafe {
                        $crate::netfilter::hook::call_hook::<$version, $hook>(private, skb, state)
                    }
                }
                // SAFETY: The function does nothing else.
                unsafe { $crate::netfilter::hook::HookFn::new($name) }
            };
        )*
    };
}
