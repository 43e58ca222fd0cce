// SPDX-License-Identifier: GPL-2.0

//! What the hooks did, in debugfs: `nft_chain_nat_rust/counters`.

use net::percpu;

/// What happens to a packet in the hooks; each is counted.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    /// At prerouting.
    PreRouting,
    /// At input.
    LocalIn,
    /// At output.
    LocalOut,
    /// At postrouting.
    PostRouting,
    /// Translated; the policy lookup would have changed nothing and was skipped.
    LookupSkipped,
    /// Looked up: there are outbound policies.
    LookupPolicies,
    /// Looked up: sockets have outbound policies.
    LookupSocketPolicies,
    /// Looked up: what no policy matches is dropped.
    LookupDefaultBlocks,
    /// Looked up: the packet's route is a bundle.
    LookupBundle,
    /// Sent from here, and routed anew.
    Rerouted,
    /// A chain was added to C's hooks, which were there first.
    ChainToC,
}

impl percpu::Event for Event {
    const NAMES: &'static [&'static str] = &[
        "hook_prerouting",
        "hook_input",
        "hook_output",
        "hook_postrouting",
        "lookup_skipped",
        "lookup_policies",
        "lookup_socket_policies",
        "lookup_default_blocks",
        "lookup_bundle",
        "rerouted",
        "chain_to_c",
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
