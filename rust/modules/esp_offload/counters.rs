// SPDX-License-Identifier: GPL-2.0

//! What happened to packets, in debugfs: `esp4_offload_rust/counters`.

use net::{
    percpu,
    xfrm::mib::Cause, //
};

/// What happens to a packet; each is counted.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    /// Received here: a device decrypted it.
    Received,
    /// The lock of a state was taken.
    Locked,
    /// Left to C: no device decrypted it.
    Software,
    /// Left to C: the device failed, or the state is not one of these.
    Left,
    /// Left to C: a key manager listens to what sequence numbers were received.
    Listened,
    /// Not taken from GRO: no state, no room, or no way to ESP's header.
    Passed,
    /// Kept by the state's mode.
    Kept,
    /// Packets that waited were received.
    Polls,
    /// Received under one lock: one packet.
    Burst1,
    /// Two, or three.
    Burst2,
    /// Four, to seven.
    Burst4,
    /// Eight, to 15.
    Burst8,
    /// 16, to 31.
    Burst16,
    /// 32, or more.
    Burst32,
    /// Dropped: the device was down.
    DropDown,
    /// Dropped: too many packets waited.
    DropLimit,
    /// Dropped: the device went to another namespace.
    DropMoved,
    /// Dropped: the state is one that a key manager was asked for.
    DropAcquire,
    /// Dropped: the state is not valid.
    DropInvalid,
    /// Dropped: the wrong encapsulation.
    DropMismatch,
    /// Dropped: the sequence number.
    DropSequence,
    /// Dropped: the state's lifetime is over.
    DropExpired,
    /// Dropped: not ESP, or a dummy.
    DropProtocol,
    /// Dropped: not what the state's mode makes.
    DropMode,
}

impl Event {
    /// A burst of so many packets.
    #[inline]
    pub(crate) fn burst(length: u32) -> Self {
        match length {
            0 | 1 => Self::Burst1,
            2 | 3 => Self::Burst2,
            4..=7 => Self::Burst4,
            8..=15 => Self::Burst8,
            16..=31 => Self::Burst16,
            _ => Self::Burst32,
        }
    }
}

impl From<Cause> for Event {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Acquire => Self::DropAcquire,
            Cause::Invalid => Self::DropInvalid,
            Cause::Mismatch => Self::DropMismatch,
            Cause::Sequence => Self::DropSequence,
            Cause::Expired => Self::DropExpired,
            Cause::Protocol => Self::DropProtocol,
            Cause::Mode => Self::DropMode,
        }
    }
}

impl percpu::Event for Event {
    const NAMES: &'static [&'static str] = &[
        "received",
        "locked",
        "software",
        "left",
        "listened",
        "passed",
        "kept",
        "polls",
        "burst_1",
        "burst_2",
        "burst_4",
        "burst_8",
        "burst_16",
        "burst_32",
        "drop_down",
        "drop_limit",
        "drop_moved",
        "drop_acquire",
        "drop_invalid",
        "drop_mismatch",
        "drop_sequence",
        "drop_expired",
        "drop_protocol",
        "drop_mode",
    ];

    #[inline]
    fn index(self) -> usize {
        self as usize
    }
}

net::percpu_counters! {
    /// Counts events, on each CPU by itself.
    pub(crate) struct Stats: Event;
}
