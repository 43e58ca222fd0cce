// SPDX-License-Identifier: GPL-2.0

//! A namespace's counters of IPsec, `/proc/net/xfrm_stat`.
//!
//! C header: [`include/uapi/linux/snmp.h`](srctree/include/uapi/linux/snmp.h)

use crate::{
    netns::Net,
    percpu, //
};
use nf_bindings as bindings;

/// Why a packet was not received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// The state is one that a key manager was asked for: `XfrmAcquireError`.
    Acquire = bindings::LINUX_MIB_XFRMACQUIREERROR as u8,
    /// The state is not valid, or not any more: `XfrmInStateInvalid`.
    Invalid = bindings::LINUX_MIB_XFRMINSTATEINVALID as u8,
    /// The state wants another encapsulation: `XfrmInStateMismatch`.
    Mismatch = bindings::LINUX_MIB_XFRMINSTATEMISMATCH as u8,
    /// The sequence number is out of the window, or was seen: `XfrmInStateSeqError`.
    Sequence = bindings::LINUX_MIB_XFRMINSTATESEQERROR as u8,
    /// The state's lifetime is over: `XfrmInStateExpired`.
    Expired = bindings::LINUX_MIB_XFRMINSTATEEXPIRED as u8,
    /// What ESP added could not be removed: `XfrmInStateProtoError`.
    Protocol = bindings::LINUX_MIB_XFRMINSTATEPROTOERROR as u8,
    /// What the state's mode added could not be removed: `XfrmInStateModeError`.
    Mode = bindings::LINUX_MIB_XFRMINSTATEMODEERROR as u8,
}

/// Counts a packet that was not received.
#[inline]
pub fn count(net: &Net, cause: Cause) {
    // SAFETY: The namespace is valid.
    let counters = unsafe { (*net.as_raw()).mib.xfrm_statistics };
    // SAFETY: This is a per-CPU array with a counter for each cause.
    unsafe { percpu::increment(counters.cast::<u64>().wrapping_add(cause as usize)) };
}
