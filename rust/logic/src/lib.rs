// SPDX-License-Identifier: GPL-2.0

//! Decisions and parsers without a kernel dependency.
//!
//! The modules compile this crate into the kernel; `cargo test` runs the same source on the host.
//! (Kbuild passes `no_std` on the command line, so it is not repeated here.)
//!
//! Nothing in here may panic, allocate or loop without a bound: it runs on the packet path.

#![forbid(unsafe_code)]

pub mod byteorder;
pub mod checksum;
pub mod dsfield;
pub mod esp;
pub mod header;
pub mod icmp;
pub mod ipv6;
pub mod nat;
pub mod replay;
pub mod transport;
