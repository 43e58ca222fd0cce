// SPDX-License-Identifier: GPL-2.0

//! Network devices, as packets have them.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

#[cfg(CONFIG_PCPU_DEV_REFCNT)]
use crate::percpu;
use crate::skb::SkBuff;
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::prelude::*;
use nf_bindings as bindings;

/// A reference to a device. Dropping it releases the reference: `dev_hold()`, `dev_put()`, without
/// the calls of those.
///
/// # Invariants
///
/// The pointer is to a valid device, and one of its references is ours.
pub(crate) struct DeviceRef(NonNull<bindings::net_device>);

impl DeviceRef {
    /// Leaves the reference to a packet of the device.
    #[inline]
    pub(crate) fn into_packet(self) {
        let _ = ManuallyDrop::new(self);
    }
}

impl Drop for DeviceRef {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type's invariants the device is valid, and a reference ours.
        unsafe { put(self.0.as_ptr()) };
    }
}

/// Takes a reference to a device.
///
/// # Safety
///
/// The device must be valid.
#[cfg(CONFIG_PCPU_DEV_REFCNT)]
#[inline]
unsafe fn hold(dev: *mut bindings::net_device) {
    // SAFETY: By the requirement on this function.
    let refs = unsafe { (*dev).pcpu_refcnt };
    // SAFETY: It is a per-CPU counter.
    unsafe { percpu::increment_int(refs) };
}

/// Gives a reference to a device back.
///
/// # Safety
///
/// The device must be valid, and one of its references the caller's.
#[cfg(CONFIG_PCPU_DEV_REFCNT)]
#[inline]
unsafe fn put(dev: *mut bindings::net_device) {
    // SAFETY: By the requirement on this function.
    let refs = unsafe { (*dev).pcpu_refcnt };
    // SAFETY: It is a per-CPU counter.
    unsafe { percpu::decrement_int(refs) };
}

// Where all CPUs share one counter there is nothing to be saved.
#[cfg(not(CONFIG_PCPU_DEV_REFCNT))]
use bindings::{nfrust_helper_dev_hold as hold, nfrust_helper_dev_put as put};

/// What a packet says of its device. It must have one, which all have that were received.
impl SkBuff {
    /// The flags of the device.
    #[inline]
    fn dev_flags(&self) -> u32 {
        // SAFETY: The packet has a device, which is there while the packet is ours; only an address
        // is taken.
        let flags = unsafe { &raw const (*self.dev()).flags };
        // SAFETY: C reads this without a lock, too.
        unsafe { flags.read_volatile() }
    }

    /// Whether the device is up: `IFF_UP`.
    #[inline]
    pub(crate) fn is_dev_up(&self) -> bool {
        self.dev_flags() & bindings::net_device_flags_IFF_UP != 0
    }

    /// Whether packets of the device are not for GRO: `netif_elide_gro()`.
    #[inline]
    pub(crate) fn is_dev_without_gro(&self) -> bool {
        // SAFETY: As in `dev_flags()`.
        let features = unsafe { &raw const (*self.dev()).features };
        // SAFETY: As in `dev_flags()`.
        let features = unsafe { features.read_volatile() };
        // SAFETY: As in `dev_flags()`.
        let program = unsafe { &raw const (*self.dev()).xdp_prog };
        // SAFETY: As in `dev_flags()`.
        let program = unsafe { program.read_volatile() };
        features & bindings::RUST_CONST_HELPER_NETIF_F_GRO == 0 || !program.is_null()
    }

    /// Counts that the packet was dropped: `rx_dropped` of the device.
    #[cold]
    pub(crate) fn count_rx_dropped(&self) {
        // SAFETY: The packet has a device; this is where the counter is.
        unsafe {
            bindings::netdev_core_stats_inc(
                self.dev(),
                bindings::RUST_OFFSETOF_net_device_core_stats_rx_dropped as u32,
            )
        };
    }

    /// Takes a reference to the device.
    #[inline]
    pub(crate) fn hold_dev(&self) -> DeviceRef {
        // SAFETY: The packet has a device.
        let dev = unsafe { NonNull::new_unchecked(self.dev()) };
        // SAFETY: It is valid while the packet is ours.
        unsafe { hold(dev.as_ptr()) };
        // INVARIANT: The reference was taken just now.
        DeviceRef(dev)
    }

    /// Takes a reference over that was left to the packet.
    ///
    /// # Safety
    ///
    /// It must have been left to this packet, whose device is the same still.
    #[inline]
    pub(crate) unsafe fn dev_from_packet(&self) -> DeviceRef {
        // SAFETY: The packet has a device.
        let dev = unsafe { NonNull::new_unchecked(self.dev()) };
        // INVARIANT: By the requirement on this function.
        DeviceRef(dev)
    }
}

/// A device that is none, for NAPIs to belong to: `alloc_netdev_dummy()`.
pub(crate) struct Dummy(NonNull<bindings::net_device>);

// SAFETY: Nothing can be done with it.
unsafe impl Send for Dummy {}
// SAFETY: As above.
unsafe impl Sync for Dummy {}

impl Dummy {
    /// Makes it. Process context; may sleep. `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: There is no private data.
        let dev = unsafe { bindings::alloc_netdev_dummy(0) };
        Ok(Self(NonNull::new(dev).ok_or(ENOMEM)?))
    }

    /// The pointer for C.
    pub(crate) fn as_raw(&self) -> *mut bindings::net_device {
        self.0.as_ptr()
    }
}

impl Drop for Dummy {
    fn drop(&mut self) {
        // SAFETY: It was allocated in `new()`; its NAPIs were deleted before.
        unsafe { bindings::free_netdev(self.0.as_ptr()) };
    }
}
