// SPDX-License-Identifier: GPL-2.0

//! What the expression did, in debugfs: `nft_socket_rust/counters`.

use net::netfilter::socket::Event;

net::percpu_counters! {
    /// Counts events, on each CPU by itself.
    pub(crate) struct Stats: Event;
}
