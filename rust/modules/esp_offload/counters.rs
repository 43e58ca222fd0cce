// SPDX-License-Identifier: GPL-2.0

//! What happened to packets, in debugfs: `esp4_offload_rust/counters`.

use kernel::{
    debugfs::Writer,
    fmt, //
};
use net::{
    percpu::{self, Event as _},
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

/// The file: a line for each counter, its name and its value.
pub(crate) struct Counters;

impl Writer for Counters {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in Event::NAMES.iter().enumerate() {
            let count = <Stats as percpu::Counters<Event>>::sum(index);
            writeln!(f, "{name} {count}")?;
        }
        Ok(())
    }
}
