// SPDX-License-Identifier: GPL-2.0

//! ESP over IPv6 with the help of devices: in place of C's `esp6_offload`.
//!
//! What is registered is in `module.rs`, what happens to packets in `receive.rs`, `burst.rs`,
//! `transmit.rs` and `segment.rs`. They are the same for both IP versions, and compiled for each.

#![forbid(unsafe_code)]

mod burst;
mod counters;
mod module;
mod receive;
mod segment;
mod switch;
mod transmit;

use kernel::prelude::*;
use net::netfilter::ip::Ipv6;

/// The IP version that this module is for.
type Ip = Ipv6;

const NAMES: module::Names = module::Names {
    own: c"esp6_offload_rust",
    c: c"esp6_offload",
};

module! {
    type: module::EspOffload,
    name: "esp6_offload_rust",
    authors: ["The nfrust authors"],
    description: "ESP over IPv6 with the help of devices, in Rust",
    license: "GPL",
    // No aliases: with C's module installed as well, the autoload of a type would load both. The
    // file for modprobe.d has them, beside what keeps C's away.
}
