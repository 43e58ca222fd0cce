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
    checksum,
    dsfield,
    esp,
    icmp::{self, NoQuote, Quote},
    ipv6::{self, Payload},
    nat::{Change, End, OutPolicies, Reason},
    replay::{Bitmap, Esn, Legacy, Place, Refused, Window},
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

#[inline(never)]
fn check(window: &Window<'_>, seq: u32) -> Result<Place, Refused> {
    cannot_panic(|| window.check(seq))
}

#[inline(never)]
fn accept(window: &mut Window<'_>, seq: u32, place: Place) -> bool {
    cannot_panic(|| window.accept(seq, place))
}

#[inline(never)]
fn accept_next(window: &mut Window<'_>, seq: u32) -> bool {
    cannot_panic(|| window.accept_next(seq, || true))
}

#[inline(never)]
fn next_header_offset(header: &[u8]) -> Option<u16> {
    cannot_panic(|| esp::next_header_offset(header))
}

#[inline(never)]
fn of_header(header: &[u8]) -> [u8; 2] {
    cannot_panic(|| checksum::of_header(header))
}

#[inline(never)]
fn replace(sum: u32, from: [u8; 4], to: [u8; 4]) -> u32 {
    cannot_panic(|| checksum::replace(sum, from, to))
}

#[inline(never)]
fn decapsulate(header: &mut [u8; 20], word: [u8; 4], outer: u8) -> [u8; 4] {
    cannot_panic(|| {
        dsfield::copy_dscp_v4(header, outer);
        dsfield::set_ce_v4(header);
        dsfield::set_ce_v6(dsfield::copy_dscp_v6(word, outer))
    })
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

    let (mut seq, mut seq_hi, mut bitmap) = black_box((1, 2, [0; 4]));
    for (seq, place) in [
        (2, Place::Ahead { by: 1, carry: true }),
        (3, Place::Within { by: 7 }),
    ] {
        let mut again = black_box(5);
        let mut window = black_box(Window::Esn(Esn {
            numbers: Bitmap {
                seq: &mut again,
                window: black_box(100),
                bitmap: &mut bitmap,
            },
            seq_hi: &mut seq_hi,
        }));
        assert!(check(&window, black_box(seq)).is_ok());
        assert!(accept(&mut window, black_box(seq), black_box(place)));
        assert!(!accept_next(&mut window, black_box(seq)));
    }
    let mut window = black_box(Window::Legacy(Legacy {
        seq: &mut seq,
        bitmap: &mut bitmap[0],
        window: black_box(32),
    }));
    assert!(check(&window, black_box(2)).is_ok());
    assert!(accept(&mut window, 2, black_box(Place::Within { by: 99 })));

    assert_eq!(next_header_offset(black_box(&[0; 7])), None);
    assert_eq!(of_header(black_box(&[0; 7])), [0xff; 2]);
    assert_eq!(
        replace(black_box(5), black_box([0; 4]), black_box([0; 4])) % 0xffff,
        5
    );
    let word = black_box([0x60, 0, 0, 0]);
    assert_eq!(
        decapsulate(black_box(&mut [0; 20]), word, black_box(3)),
        word
    );
}
