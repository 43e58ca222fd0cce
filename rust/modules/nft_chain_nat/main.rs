// SPDX-License-Identifier: GPL-2.0

//! The nf_tables chain type `nat`, and the hooks that translate addresses.
//!
//! `hooks.rs` is what happens to packets; `chains.rs` is what nf_tables asks for; this file
//! registers. It takes the place of C's `nft_chain_nat`: a family has room for one type `nat`.

#![forbid(unsafe_code)]

mod chains;
mod counters;
mod hooks;

use chains::NatNet;
use counters::Stats;
use kernel::{
    debugfs::{Dir, File},
    prelude::*, //
};
use net::{
    module,
    netfilter::nft::NatChains, //
};

module! {
    type: NftChainNat,
    name: "nft_chain_nat_rust",
    authors: ["The nfrust authors"],
    description: "nf_tables chain type nat in Rust",
    license: "GPL",
    // No aliases: with both modules installed, the autoload of a chain type would load both. The
    // file for modprobe.d has them, beside what keeps C's away.
}

#[pin_data]
struct NftChainNat {
    #[pin]
    chains: NatChains<NatNet>,
    #[pin]
    counters: File<Stats>,
    dir: Dir,
}

impl kernel::InPlaceModule for NftChainNat {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        let dir = Dir::new(c"nft_chain_nat_rust");
        try_pin_init!(Self {
            _: {
                if module::is_loaded(module, c"nft_chain_nat") {
                    pr_err!(
                        "C's nft_chain_nat is loaded: remove the chains of type nat, rmmod \
                         nft_chain_nat, and install the modprobe.d file that keeps it away\n"
                    );
                    return Err(EEXIST);
                }
            },
            counters <- dir.read_only_file(c"counters", Stats),
            chains <- NatChains::new(module, hooks::DO_CHAIN),
            dir: dir,
        })
    }
}
