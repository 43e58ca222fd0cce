// SPDX-License-Identifier: GPL-2.0

//! Tests of the parsers and decisions.
//!
//! What the parsers should find comes from two sides. [`model`] says what the kernel's C does with
//! any bytes, written from its rules and not from the code under test. [`make`] builds packets from
//! a description, so that the answer is known before there is a packet. [`check`] asks parsers and
//! model the same and compares; the fuzz target, in `rust/logic/fuzz`, does nothing but that.
//! [`seen`] is such a model for windows of sequence numbers.

mod check;
mod make;
mod model;
mod packet;

mod byteorder;
mod dsfield;
mod esp;
mod header;
mod icmp;
mod ipv6;
mod nat;
mod panic;
mod replay;
mod seen;
mod transport;

use proptest::test_runner::Config;

/// How many cases a property is tried with. What fails is printed when it has been made as small
/// as it gets, to be written down as a test: no file of failures is kept in the source tree.
fn config(cases: u32) -> Config {
    Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    }
}
