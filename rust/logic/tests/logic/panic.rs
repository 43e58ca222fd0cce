// SPDX-License-Identifier: GPL-2.0

//! No path to a panic.
//!
//! Tests show that some input does not panic; this shows it for all. Where a function can unwind,
//! the drop of a [`Guard`] that is alive meanwhile is compiled in, and that calls a function which
//! does not exist: the link fails. It takes the optimizer to see that a path is never taken, so
//! Cargo.toml has it on for tests.

use crate::packet::Linear;
use core::hint::black_box;
use logic::{
    byteorder::Be16,
    icmp::{self, NoQuote, Quote},
    ipv6::{self, Payload},
    nat::{Change, End, OutPolicies, Reason},
    transport::{Protocol, Transport}, //
};

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        unsafe extern "C" {
            // Nowhere: named by the linker where a function below may panic.
            safe fn a_function_of_rust_logic_may_panic();
        }
        a_function_of_rust_logic_may_panic();
    }
}

fn cannot_panic<T>(call: impl FnOnce() -> T) -> T {
    let guard = Guard;
    let result = call();
    core::mem::forget(guard);
    result
}

#[inline(never)]
fn transport(packet: &Linear<'_>, protocol: Protocol, offset: u32) -> Option<Transport> {
    cannot_panic(|| Transport::parse(packet, protocol, offset))
}

#[inline(never)]
fn quote_v4(packet: &Linear<'_>, offset: u32) -> Result<Quote<[u8; 4]>, NoQuote> {
    cannot_panic(|| icmp::quote_v4(packet, offset))
}

#[inline(never)]
fn quote_v6(packet: &Linear<'_>, offset: u32) -> Result<Quote<[u8; 16]>, NoQuote> {
    cannot_panic(|| icmp::quote_v6(packet, offset))
}

#[inline(never)]
fn skip(packet: &Linear<'_>, offset: u32, next: u8) -> Option<Payload> {
    cannot_panic(|| ipv6::skip_extension_headers(packet, offset, next))
}

#[inline(never)]
fn change(before: End<'_, [u8; 16]>, after: End<'_, [u8; 16]>, has_ports: bool) -> Change {
    cannot_panic(|| Change::between(before, after, has_ports))
}

#[inline(never)]
fn reason(policies: OutPolicies, bundle: bool) -> Option<Reason> {
    cannot_panic(|| policies.lookup_reason(bundle))
}

#[test]
fn no_path_to_a_panic() {
    // Linking this file was the test; the calls are for the code to be kept, and with arguments
    // that the optimizer does not know, or it would show the same for these alone.
    let packet = black_box(Linear(&[0; 8]));
    assert!(transport(&packet, black_box(Protocol::Udp), black_box(0)).is_some());
    assert!(transport(&packet, black_box(Protocol::Tcp), black_box(0)).is_none());
    assert_eq!(quote_v4(&packet, black_box(0)), Err(NoQuote::NotAnError));
    assert_eq!(quote_v6(&packet, black_box(0)), Err(NoQuote::Truncated));
    assert!(skip(&packet, black_box(8), black_box(0)).is_none());

    let addr = black_box(&[0; 16]);
    let port = black_box(Be16::from_host(1));
    let end = End { addr, port };
    assert_eq!(change(end, end, black_box(true)), Change::None);
    let policies = black_box(OutPolicies {
        global: 1,
        per_socket: 0,
        default_accepts: true,
    });
    assert_eq!(reason(policies, black_box(true)), Some(Reason::Policies));
}
