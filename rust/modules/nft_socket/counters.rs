// SPDX-License-Identifier: GPL-2.0

//! What the expression did, in debugfs: `nft_socket_rust/counters`.

use kernel::{
    debugfs::Writer,
    fmt, //
};
use net::{
    netfilter::socket::Event,
    percpu::{self, Event as _}, //
};

net::percpu_counters! {
    /// Counts events, on each CPU by itself.
    pub(crate) struct Stats: Event;
}

/// The file: a line for each counter, its name and its value.
pub(crate) struct Counters;

impl Writer for Counters {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in Event::NAMES.iter().enumerate() {
            writeln!(
                f,
                "{name} {}",
                <Stats as percpu::Counters<Event>>::sum(index)
            )?;
        }
        Ok(())
    }
}
