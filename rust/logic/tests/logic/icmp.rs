// SPDX-License-Identifier: GPL-2.0

//! What ICMP and ICMPv6 errors quote.

use crate::{
    check,
    make::{self, Extension::*},
    model::{self, Failure},
    packet::{Endless, Linear, Pieces}, //
};
use logic::{
    header::Headers,
    icmp::{self, is_error_v4, is_error_v6, NoQuote}, //
};
use proptest::prelude::*;

const SOURCE: u16 = 0x1234;
const DEST: u16 = 0xabcd;

/// Destination unreachable.
const UNREACHABLE_V4: u8 = 3;
const UNREACHABLE_V6: u8 = 1;

type Found = Result<model::Quote, Failure>;

fn v4(packet: &impl Headers, offset: u32) -> Found {
    check::quote(icmp::quote_v4(packet, offset))
}

fn v6(packet: &impl Headers, offset: u32) -> Found {
    check::quote(icmp::quote_v6(packet, offset))
}

fn quoted_v4(protocol: u8) -> Found {
    Ok(model::Quote {
        protocol,
        source: make::SOURCE_V4.to_vec(),
        dest: make::DEST_V4.to_vec(),
        source_port: SOURCE,
        dest_port: DEST,
    })
}

fn quoted_v6(protocol: u8) -> Found {
    Ok(model::Quote {
        protocol,
        source: make::SOURCE_V6.to_vec(),
        dest: make::DEST_V6.to_vec(),
        source_port: SOURCE,
        dest_port: DEST,
    })
}

#[test]
fn every_type() {
    for kind in 0..=u8::MAX {
        assert_eq!(
            is_error_v4(kind),
            [3, 4, 5, 11, 12].contains(&kind),
            "{kind}"
        );
        assert_eq!(is_error_v6(kind), kind < 128, "{kind}");

        let message = make::icmp(kind, &make::ipv4(5, make::UDP, &make::udp(SOURCE, DEST)));
        let expected = match kind {
            3 | 4 | 5 | 11 | 12 => quoted_v4(make::UDP),
            _ => Err(Failure::Type),
        };
        assert_eq!(v4(&Linear(&message), 0), expected, "{kind}");

        let message = make::icmp(kind, &make::ipv6(make::TCP, &make::tcp(SOURCE, DEST, 5)));
        let expected = match kind {
            0..128 => quoted_v6(make::TCP),
            _ => Err(Failure::Type),
        };
        assert_eq!(v6(&Linear(&message), 0), expected, "{kind}");
    }
}

/// The two halves that a quote is found in: the type alone, and the quote whatever the type.
#[test]
fn halves() {
    for kind in 0..=u8::MAX {
        let message = make::icmp(kind, &make::ipv4(5, make::UDP, &make::udp(SOURCE, DEST)));
        let expected = match kind {
            3 | 4 | 5 | 11 | 12 => Ok(()),
            _ => Err(NoQuote::NotAnError),
        };
        // Nothing behind the header is needed to tell.
        assert_eq!(
            icmp::check_v4(&Linear(&message[..8]), 0),
            expected,
            "{kind}"
        );
        assert_eq!(
            icmp::check_v4(&Linear(&message[..7]), 0),
            Err(NoQuote::Truncated)
        );
        let found = check::quote(icmp::quote_behind_v4(&Linear(&message), 0));
        assert_eq!(found, quoted_v4(make::UDP), "{kind}");

        let message = make::icmp(kind, &make::ipv6(make::TCP, &make::tcp(SOURCE, DEST, 5)));
        let expected = match kind {
            0..128 => Ok(()),
            _ => Err(NoQuote::NotAnError),
        };
        assert_eq!(
            icmp::check_v6(&Linear(&message[..8]), 0),
            expected,
            "{kind}"
        );
        assert_eq!(
            icmp::check_v6(&Linear(&message[..7]), 0),
            Err(NoQuote::Truncated)
        );
        let found = check::quote(icmp::quote_behind_v6(&Linear(&message), 0));
        assert_eq!(found, quoted_v6(make::TCP), "{kind}");
    }
}

#[test]
fn every_quoted_protocol() {
    for protocol in 0..=u8::MAX {
        let known = [make::TCP, make::UDP].contains(&protocol);
        let payload = make::udp(SOURCE, DEST);

        let message = make::icmp(UNREACHABLE_V4, &make::ipv4(5, protocol, &payload));
        let expected = if known {
            quoted_v4(protocol)
        } else {
            Err(Failure::Protocol)
        };
        assert_eq!(v4(&Linear(&message), 0), expected, "{protocol}");

        if [0, 43, 44, 51, 59, 60].contains(&protocol) {
            continue;
        }
        let message = make::icmp(UNREACHABLE_V6, &make::ipv6(protocol, &payload));
        let expected = if known {
            quoted_v6(protocol)
        } else {
            Err(Failure::Protocol)
        };
        assert_eq!(v6(&Linear(&message), 0), expected, "{protocol}");
    }
}

/// A message behind a header of 20 and 28 bytes, cut at each length, in one piece and in two. The
/// four bytes of ports are enough: errors quote as little as eight bytes of payload.
#[test]
fn every_truncation_v4() {
    for protocol in [make::TCP, make::UDP] {
        for (offset, words) in [(20, 5), (28, 5), (20, 7), (20, 15)] {
            let payload = make::tcp(SOURCE, DEST, 5);
            let message = make::icmp(UNREACHABLE_V4, &make::ipv4(words, protocol, &payload));
            let packet = [vec![0x45; offset], message].concat();
            let needed = offset + 8 + usize::from(words) * 4 + 4;
            for length in 0..=packet.len() {
                let packet = &packet[..length];
                let expected = match length >= needed {
                    true => quoted_v4(protocol),
                    false => Err(Failure::Length),
                };
                assert_eq!(
                    v4(&Linear(packet), offset as u32),
                    expected,
                    "cut at {length}"
                );
                for linear in 0..=length {
                    let pieces = Pieces::cut(packet, &[linear]);
                    let found = v4(&pieces, offset as u32);
                    assert_eq!(found, expected, "cut at {length}, {linear} of them linear");
                }
            }
        }
    }
}

#[test]
fn every_truncation_v6() {
    for (extensions, protocol) in [
        (vec![], make::UDP),
        (vec![Options(0, 0)], make::TCP),
        (vec![Fragment(1), Options(60, 1)], make::UDP),
        (vec![Auth(3)], make::UDP),
    ] {
        let length: usize = extensions.iter().map(|extension| extension.size()).sum();
        let (next, chain) = make::chain(&extensions, protocol);
        let payload = [chain, make::udp(SOURCE, DEST)].concat();
        let message = make::icmp(UNREACHABLE_V6, &make::ipv6(next, &payload));
        let packet = [vec![0x60; 40], message].concat();
        let needed = 40 + 8 + 40 + length + 4;
        for length in 0..=packet.len() {
            let packet = &packet[..length];
            let expected = match length >= needed {
                true => quoted_v6(protocol),
                false => Err(Failure::Length),
            };
            assert_eq!(
                v6(&Linear(packet), 40),
                expected,
                "{extensions:?} cut at {length}"
            );
            for linear in 0..=length {
                let found = v6(&Pieces::cut(packet, &[linear]), 40);
                assert_eq!(
                    found, expected,
                    "{extensions:?} cut at {length}, {linear} of them linear"
                );
            }
        }
    }
}

/// Which reason is given where there are two: what comes first in the packet counts.
#[test]
fn first_reason_counts() {
    // The type of a message that ends in its own header is not looked at.
    assert_eq!(v4(&Linear(&[8, 0, 0, 0, 0, 0, 0]), 0), Err(Failure::Length));
    assert_eq!(
        v6(&Linear(&[128, 0, 0, 0, 0, 0, 0]), 0),
        Err(Failure::Length)
    );
    // An echo request has no quote that could be too short.
    assert_eq!(v4(&Linear(&make::icmp(8, &[])), 0), Err(Failure::Type));
    assert_eq!(v6(&Linear(&make::icmp(128, &[])), 0), Err(Failure::Type));
    // Nor are ports missed of what has none.
    let quote = make::ipv4(15, 1, &[]);
    let message = make::icmp(UNREACHABLE_V4, &quote[..20]);
    assert_eq!(v4(&Linear(&message), 0), Err(Failure::Protocol));
    let message = make::icmp(UNREACHABLE_V6, &make::ipv6(58, &[]));
    assert_eq!(v6(&Linear(&message), 0), Err(Failure::Protocol));
}

/// Below 5 words the ports are taken from within the quoted header, above from behind options;
/// neither version nor length of it are checked.
#[test]
fn every_quoted_header_length() {
    for first in 0..=u8::MAX {
        let mut quote = make::ipv4(15, make::UDP, &make::udp(SOURCE, DEST));
        quote[0] = first;
        let message = make::icmp(UNREACHABLE_V4, &quote);
        let found = v4(&Linear(&message), 0).unwrap();

        let at = usize::from(first & 15) * 4;
        let port = |at: usize| u16::from_be_bytes([quote[at], quote[at + 1]]);
        assert_eq!(
            (found.source_port, found.dest_port),
            (port(at), port(at + 2)),
            "{first:#x}"
        );
        assert_eq!(found.source, make::SOURCE_V4);
        assert_eq!(found.dest, make::DEST_V4);
    }
    // What that means for a header that claims no length, and for one of two words.
    let ports = |words: u8| {
        let mut quote = make::ipv4(5, make::TCP, &[]);
        quote[0] = 0x40 | words;
        let found = v4(&Linear(&make::icmp(UNREACHABLE_V4, &quote)), 0).unwrap();
        (found.source_port, found.dest_port)
    };
    assert_eq!(ports(0), (0x4000, 84));
    assert_eq!(ports(2), (0x4006, 0xabcd));
}

/// C looks for ports also in a quoted later fragment of IPv4, where payload is; of IPv6 it does
/// not.
#[test]
fn quoted_fragments() {
    let mut quote = make::ipv4(5, make::UDP, &make::udp(SOURCE, DEST));
    quote[6] = 0x20;
    quote[7] = 0xb9;
    let message = make::icmp(UNREACHABLE_V4, &quote);
    assert_eq!(v4(&Linear(&message), 0), quoted_v4(make::UDP));

    for (field, expected) in [(1, quoted_v6(make::UDP)), (8, Err(Failure::Protocol))] {
        let (next, chain) = make::chain(&[Fragment(field)], make::UDP);
        let payload = [chain, make::udp(SOURCE, DEST)].concat();
        let message = make::icmp(UNREACHABLE_V6, &make::ipv6(next, &payload));
        assert_eq!(v6(&Linear(&message), 0), expected);
    }
}

#[test]
fn quoted_extension_headers() {
    for (count, expected) in [(12, quoted_v6(make::TCP)), (13, Err(Failure::Length))] {
        let (next, chain) = make::chain(&vec![Options(60, 0); count], make::TCP);
        let payload = [chain, make::tcp(SOURCE, DEST, 5)].concat();
        let message = make::icmp(UNREACHABLE_V6, &make::ipv6(next, &payload));
        assert_eq!(v6(&Linear(&message), 0), expected, "{count}");
    }
    // No next header: there is none to have ports.
    let message = make::icmp(UNREACHABLE_V6, &make::ipv6(59, &make::tcp(SOURCE, DEST, 5)));
    assert_eq!(v6(&Linear(&message), 0), Err(Failure::Length));
    // An extension header whose length leads out of the packet.
    let (next, mut chain) = make::chain(&[Options(43, 0)], make::UDP);
    chain[1] = 255;
    let payload = [chain, make::udp(SOURCE, DEST)].concat();
    let message = make::icmp(UNREACHABLE_V6, &make::ipv6(next, &payload));
    assert_eq!(v6(&Linear(&message), 0), Err(Failure::Length));
}

/// An offset near 2^32 leads out of any packet, and around in one that has no end.
#[test]
fn offsets_wrap() {
    let message = make::icmp(
        UNREACHABLE_V4,
        &make::ipv4(7, make::UDP, &make::udp(SOURCE, DEST)),
    );
    let mut packet = message;
    packet.resize(128, 0);
    for start in 0..64 {
        let mut packet = packet.clone();
        packet.rotate_left(start);
        let offset = 0u32.wrapping_sub(start as u32);
        assert_eq!(
            v4(&Endless::new(&packet), offset),
            quoted_v4(make::UDP),
            "{start}"
        );
        if start > 0 {
            assert_eq!(
                v4(&Linear(&packet), offset),
                Err(Failure::Length),
                "{start}"
            );
        }
    }

    let (next, chain) = make::chain(&[Options(0, 1)], make::UDP);
    let payload = [chain, make::udp(SOURCE, DEST)].concat();
    let mut packet = make::icmp(UNREACHABLE_V6, &make::ipv6(next, &payload));
    packet.resize(256, 0);
    for start in 0..128 {
        let mut packet = packet.clone();
        packet.rotate_left(start);
        let offset = 0u32.wrapping_sub(start as u32);
        assert_eq!(
            v6(&Endless::new(&packet), offset),
            quoted_v6(make::UDP),
            "{start}"
        );
        if start > 0 {
            assert_eq!(
                v6(&Linear(&packet), offset),
                Err(Failure::Length),
                "{start}"
            );
        }
    }
}

/// Three headers, and for IPv6 those of the walk: all reads that a quote of any bytes costs.
#[test]
fn reads_are_bounded() {
    let message = make::icmp(UNREACHABLE_V4, &make::ipv4(5, make::TCP, &[0; 8]));
    let packet = Pieces::cut(&message, &[]);
    v4(&packet, 0).unwrap();
    assert_eq!(packet.reads(), 3);

    let packet = Endless::new(&[44, 0, 0, 1, 0, 0, 44, 0]);
    assert_eq!(v6(&packet, 0), Err(Failure::Length));
    assert_eq!(packet.reads(), 2 + 24);
}

/// Bytes in which a walk gets somewhere: random ones are seldom a type, protocol or header.
fn byte() -> impl Strategy<Value = u8> {
    const LIKELY: [u8; 32] = [
        0, 1, 2, 3, 4, 5, 11, 12, 0, 6, 6, 17, 17, 43, 44, 50, 51, 58, 59, 60, 0, 0, 0, 1, 0x40,
        0x44, 0x45, 0x46, 0x60, 0x7f, 0x80, 0xff,
    ];
    any::<u16>().prop_map(|random| match random {
        0..0x8000 => random as u8,
        _ => LIKELY[usize::from(random) % LIKELY.len()],
    })
}

/// A message that is whole, then changed in some bytes, cut, and put somewhere.
fn damaged() -> impl Strategy<Value = (Vec<u8>, u32)> {
    let extensions = prop::collection::vec(
        prop_oneof![
            Just(Options(0, 0)),
            Just(Options(43, 1)),
            Just(Options(60, 0)),
            Just(Auth(4)),
            Just(Fragment(1)),
            Just(Fragment(8)),
        ],
        0..14,
    );
    let whole = prop_oneof![
        (0u8..16, prop::sample::select(vec![6u8, 17, 1])).prop_map(|(words, protocol)| {
            make::icmp(3, &make::ipv4(words, protocol, &make::udp(SOURCE, DEST)))
        }),
        (extensions, prop::sample::select(vec![6u8, 17, 58, 59])).prop_map(|(extensions, last)| {
            let (next, chain) = make::chain(&extensions, last);
            make::icmp(
                1,
                &make::ipv6(next, &[chain, make::udp(SOURCE, DEST)].concat()),
            )
        }),
    ];
    let changes = prop::collection::vec((any::<prop::sample::Index>(), byte()), 0..4);
    (
        whole,
        changes,
        any::<prop::sample::Index>(),
        any::<bool>(),
        0usize..50,
    )
        .prop_map(|(mut message, changes, cut, whole, before)| {
            for (at, byte) in changes {
                let at = at.index(message.len());
                message[at] = byte;
            }
            if !whole {
                message.truncate(cut.index(message.len() + 1));
            }
            ([vec![0x45; before], message].concat(), before as u32)
        })
}

proptest! {
    #![proptest_config(crate::config(4_000))]

    /// Errors that were whole once, and what C makes of them.
    #[test]
    fn damaged_errors_as_the_model(
        (packet, offset) in damaged(),
        next in byte(),
        lengths in prop::collection::vec(0usize..70, 0..5),
    ) {
        check::all(&packet, &lengths, offset, next);
    }

    /// Any bytes, any offset: nothing panics, with overflow checks on, and all is as in C.
    #[test]
    fn any_bytes_as_the_model(
        packet in prop::collection::vec(byte(), 0..200),
        lengths in prop::collection::vec(0usize..70, 0..5),
        offset in prop_oneof![4 => 0u32..100, 1 => any::<u32>(), 1 => u32::MAX - 100..],
        next in byte(),
    ) {
        check::all(&packet, &lengths, offset, next);
    }
}
