// SPDX-License-Identifier: GPL-2.0

//! The states that a packet went through, `struct sec_path`, and what a device did for it,
//! `struct xfrm_offload`.

use super::state::State;
use crate::skb::SkBuff;
use core::{
    ptr::{addr_of_mut, NonNull},
    sync::atomic::{AtomicI32, Ordering}, //
};
use nf_bindings as bindings;

/// How many states a packet can go through.
const MAX_DEPTH: usize = bindings::XFRM_MAX_DEPTH as usize;
/// How many of them a device can have worked for.
const MAX_OFFLOAD_DEPTH: usize = bindings::XFRM_MAX_OFFLOAD_DEPTH as usize;
/// Which of a packet's extensions it is.
const SEC_PATH: usize = bindings::skb_ext_id_SKB_EXT_SEC_PATH as usize;

/// What a device did for a packet, as the last state of its path wants it done.
#[derive(Clone, Copy)]
pub struct Offload {
    /// `CRYPTO_DONE` and others.
    flags: u32,
    /// `CRYPTO_SUCCESS` and others.
    status: u32,
}

impl Offload {
    /// Whether the device decrypted it, or tried: `CRYPTO_DONE`.
    #[inline]
    pub fn is_done(self) -> bool {
        self.flags & bindings::CRYPTO_DONE != 0
    }

    /// Whether GRO has the packet: `XFRM_GRO`.
    #[inline]
    pub(crate) fn is_gro(self) -> bool {
        self.flags & bindings::XFRM_GRO != 0
    }

    /// Whether that succeeded: `CRYPTO_SUCCESS`.
    #[inline]
    pub fn is_success(self) -> bool {
        self.status & bindings::CRYPTO_SUCCESS != 0
    }
}

/// Finds the packet's path: `skb_sec_path()`.
#[inline]
pub(crate) fn find(skb: &SkBuff) -> Option<NonNull<bindings::sec_path>> {
    let (active, extensions) = skb.extensions();
    if active & (1 << SEC_PATH) == 0 {
        return None;
    }
    // SAFETY: A packet with an active extension has room for extensions.
    let chunk = unsafe { (*extensions).offset[SEC_PATH] };
    // The extension stands there, counted in units of eight bytes.
    NonNull::new(extensions.wrapping_byte_add(usize::from(chunk) << 3).cast())
}

/// Where the packet's path keeps what a device did for its last state: `xfrm_offload()`.
#[inline]
pub(crate) fn find_offload(skb: &SkBuff) -> Option<NonNull<bindings::xfrm_offload>> {
    let path = find(skb)?.as_ptr();
    // SAFETY: The packet keeps its path.
    let len = unsafe { (*path).len };
    // SAFETY: As above.
    let olen = usize::from(unsafe { (*path).olen });
    if olen == 0 || usize::from(len) != olen || olen > MAX_OFFLOAD_DEPTH {
        return None;
    }
    // SAFETY: As above; there is room for `MAX_OFFLOAD_DEPTH`.
    NonNull::new(unsafe { addr_of_mut!((*path).ovec[olen - 1]) })
}

impl SkBuff {
    /// The last state of the packet's path: `xfrm_input_state()`. A path without a state is none.
    #[inline]
    pub fn input_state(&self) -> Option<&State> {
        let path = find(self)?.as_ptr();
        // SAFETY: The packet keeps its path.
        let len = usize::from(unsafe { (*path).len });
        if len == 0 || len > MAX_DEPTH {
            return None;
        }
        // SAFETY: As above; so many states were written.
        let x = unsafe { (*path).xvec[len - 1] };
        // SAFETY: The path has a reference to each of its states.
        Some(unsafe { State::from_raw(x) })
    }

    /// What a device did for the packet: `xfrm_offload()`.
    #[inline]
    pub fn offload(&self) -> Option<Offload> {
        let offload = find_offload(self)?.as_ptr();
        // SAFETY: The packet keeps its path.
        let flags = unsafe { (*offload).flags };
        // SAFETY: As above.
        let status = unsafe { (*offload).status };
        Some(Offload { flags, status })
    }

    /// Notes that GRO has the packet: `XFRM_GRO`. False where no device worked for the packet, or
    /// without memory for a path of its own.
    #[inline]
    pub(crate) fn set_xfrm_gro(&mut self) -> bool {
        self.with_offload(|offload| {
            // SAFETY: By `with_offload()` it is this packet's alone.
            unsafe { (*offload.as_ptr()).flags |= bindings::XFRM_GRO };
        })
    }

    /// Notes how long the link layer's header is, bytes. False as
    /// [`set_xfrm_gro()`](Self::set_xfrm_gro).
    #[inline]
    pub(crate) fn set_orig_mac_len(&mut self, len: u16) -> bool {
        self.with_offload(|offload| {
            // SAFETY: By `with_offload()` it is this packet's alone.
            unsafe { (*offload.as_ptr()).orig_mac_len = len };
        })
    }

    /// Calls `write` for what a device did, in a path that no other packet shares.
    #[inline]
    fn with_offload(&mut self, write: impl FnOnce(NonNull<bindings::xfrm_offload>)) -> bool {
        let Some(offload) = find_offload(self) else {
            return false;
        };
        if !self.shares_extensions() {
            write(offload);
            return true;
        }
        crate::seldom();
        // C writes to the shared one.
        // SAFETY: The packet is ours.
        if unsafe { bindings::secpath_set(self.as_raw()) }.is_null() {
            return false;
        }
        match find_offload(self) {
            Some(offload) => {
                write(offload);
                true
            }
            None => false,
        }
    }

    /// Whether another packet has the same extensions.
    #[inline]
    fn shares_extensions(&self) -> bool {
        let (active, extensions) = self.extensions();
        if active == 0 {
            return false;
        }
        // SAFETY: A packet with an active extension has room for extensions.
        let refs = unsafe { addr_of_mut!((*extensions).refcnt) };
        // SAFETY: It is one atomic integer, that all others use as one, too.
        let refs = unsafe { AtomicI32::from_ptr(refs.cast()) };
        refs.load(Ordering::Acquire) != 1
    }

    /// Notes that no device will have worked for what comes next: `sp->olen = 0`.
    #[inline]
    pub(crate) fn end_offload(&mut self) {
        if let Some(path) = find(self) {
            // SAFETY: The packet keeps its path. C writes this to a shared one, too.
            unsafe { (*path.as_ptr()).olen = 0 };
        }
    }

    /// Takes the packet's path from it: `secpath_reset()`.
    pub(crate) fn reset_secpath(&mut self) {
        let (active, _) = self.extensions();
        if active & (1 << SEC_PATH) != 0 {
            // SAFETY: The packet is ours, and has this extension.
            unsafe {
                bindings::__skb_ext_del(self.as_raw(), bindings::skb_ext_id_SKB_EXT_SEC_PATH)
            };
        }
    }

    /// Puts a state at the end of the packet's path, for GRO: it is as if a device would work for
    /// it. Gives the state back where there is no room in the path, which stays as it is then.
    pub(crate) fn push_state(&mut self, x: super::state::OwnedState) -> Result<(), ()> {
        // SAFETY: The packet is ours. The path that results is not shared.
        let Some(path) = NonNull::new(unsafe { bindings::secpath_set(self.as_raw()) }) else {
            return Err(());
        };
        let path = path.as_ptr();
        // SAFETY: It was made above.
        let len = usize::from(unsafe { (*path).len });
        // SAFETY: As above.
        let olen = usize::from(unsafe { (*path).olen });
        // What a device did is at the place of the state that it did it for: both counts have to
        // be the same, or C does not find it.
        if len >= MAX_DEPTH || olen >= MAX_OFFLOAD_DEPTH || len != olen {
            return Err(());
        }
        // SAFETY: As above; there is room for one more. The path takes the reference over.
        unsafe { (*path).xvec[len] = x.into_raw() };
        let len = (len + 1) as u8;
        // SAFETY: As above.
        unsafe { (*path).len = len };
        // SAFETY: As above.
        unsafe { (*path).olen = len };
        Ok(())
    }
}
