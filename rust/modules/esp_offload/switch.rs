// SPDX-License-Identifier: GPL-2.0

//! Whether packets are received in bursts or each by itself, in debugfs:
//! `esp4_offload_rust/per_burst`.

use core::sync::atomic::{AtomicBool, Ordering};
use kernel::{
    debugfs::{Reader, Writer},
    fmt,
    prelude::*,
    uaccess::UserSliceReader, //
};

static PER_BURST: AtomicBool = AtomicBool::new(true);

/// Whether packets wait for each other.
#[inline]
pub(crate) fn is_per_burst() -> bool {
    PER_BURST.load(Ordering::Relaxed)
}

/// The file: 1 or 0.
pub(crate) struct Switch;

impl Writer for Switch {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", u8::from(is_per_burst()))
    }
}

impl Reader for Switch {
    fn read_from_slice(&self, reader: &mut UserSliceReader) -> Result {
        let per_burst = match reader.read::<u8>()? {
            b'0' => false,
            b'1' => true,
            _ => return Err(EINVAL),
        };
        PER_BURST.store(per_burst, Ordering::Relaxed);
        Ok(())
    }
}
