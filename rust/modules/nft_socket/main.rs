// SPDX-License-Identifier: GPL-2.0

//! The nftables `socket` expression: a rule's view of the socket that a packet is for.
//!
//! `socket.rs` is the expression; this file registers it. It takes over from C's `nft_socket`
//! without a patch: three types with a family come before C's one without.

#![forbid(unsafe_code)]

mod counters;
mod socket;

use counters::Stats;
use kernel::{
    debugfs::{Dir, File},
    prelude::*, //
};
use net::netfilter::{
    nft::Registration,
    Family, //
};
use socket::Socket;

module! {
    type: NftSocket,
    name: "nft_socket_rust",
    authors: ["The nfrust authors"],
    description: "nf_tables socket expression in Rust",
    license: "GPL",
    // nf_tables asks for "nft-expr-<family>-<name>" before it asks for "nft-expr-<name>".
    alias: ["nft-expr-1-socket", "nft-expr-2-socket", "nft-expr-10-socket"],
}

#[pin_data]
struct NftSocket {
    // Dropped from top to bottom: no rule can be added any more when the counters go.
    #[pin]
    inet: Registration<Socket>,
    #[pin]
    ipv4: Registration<Socket>,
    #[pin]
    ipv6: Registration<Socket>,
    #[pin]
    counters: File<Stats>,
    dir: Dir,
}

impl kernel::InPlaceModule for NftSocket {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        let dir = Dir::new(c"nft_socket_rust");
        try_pin_init!(Self {
            counters <- dir.read_only_file(c"counters", Stats),
            inet <- Registration::new(module, Family::Inet),
            ipv4 <- Registration::new(module, Family::Ipv4),
            ipv6 <- Registration::new(module, Family::Ipv6),
            dir: dir,
        })
    }
}
