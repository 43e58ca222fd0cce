// SPDX-License-Identifier: GPL-2.0

//! The walk over IPv6 extension headers.

use crate::{
    check::skip_extensions,
    make::{self, Extension::*},
    model,
    packet::{Endless, Linear, Pieces}, //
};
use logic::ipv6;
use proptest::prelude::*;

/// Encapsulating security payload, which is no extension header here, as in C.
const ESP: u8 = 50;

/// A chain at an offset of 40, and the walk over it.
fn walk(extensions: &[make::Extension], last: u8) -> (Vec<u8>, Option<(u8, u32)>) {
    let (next, chain) = make::chain(extensions, last);
    let packet = [vec![0; 40], chain].concat();
    let found = skip_extensions(&Linear(&packet), 40, next);
    (packet, found)
}

#[test]
fn every_header_number() {
    for number in 0..=u8::MAX {
        let extension = [0, 43, 44, 51, 59, 60].contains(&number);
        assert_eq!(ipv6::is_extension_header(number), extension, "{number}");
        // No header to step over: nothing is read, so the packet may be empty.
        if !extension {
            assert_eq!(skip_extensions(&Linear(&[]), 7, number), Some((number, 7)));
        }
    }
}

#[test]
fn numbers_and_limit() {
    assert_eq!(ipv6::NEXTHDR_HOP, 0);
    assert_eq!(ipv6::NEXTHDR_ROUTING, 43);
    assert_eq!(ipv6::NEXTHDR_FRAGMENT, 44);
    assert_eq!(ipv6::NEXTHDR_AUTH, 51);
    assert_eq!(ipv6::NEXTHDR_NONE, 59);
    assert_eq!(ipv6::NEXTHDR_DEST, 60);
    assert_eq!(ipv6::IPPROTO_ICMPV6, 58);
    assert_eq!(ipv6::MAX_EXTENSION_HEADERS, 12);
}

#[test]
fn every_options_length() {
    for number in [0, 43, 60] {
        for units in 0..=u8::MAX {
            let (_, found) = walk(&[Options(number, units)], make::UDP);
            let expected = 40 + 8 * (u32::from(units) + 1);
            assert_eq!(found, Some((make::UDP, expected)), "{number}, {units}");
        }
    }
}

/// The authentication header counts in words of four, less two.
#[test]
fn every_authentication_length() {
    for units in 0..=u8::MAX {
        let (_, found) = walk(&[Auth(units)], make::TCP);
        let expected = 40 + 4 * (u32::from(units) + 2);
        assert_eq!(found, Some((make::TCP, expected)), "{units}");
    }
}

/// Offset 0 is the first fragment, whatever the flags say: the transport header is behind it. Any
/// other offset ends the walk at the fragment header.
#[test]
fn every_fragment_offset() {
    for field in 0..=u16::MAX {
        let (_, found) = walk(&[Fragment(field)], make::UDP);
        let expected = match field {
            0..8 => (make::UDP, 48),
            _ => (44, 40),
        };
        assert_eq!(found, Some(expected), "{field:#06x}");
    }
}

/// Behind a first fragment the walk goes on; a later one ends it wherever it is in the chain.
#[test]
fn fragments_among_others() {
    let (_, found) = walk(&[Options(0, 0), Fragment(1), Options(60, 1)], make::TCP);
    assert_eq!(found, Some((make::TCP, 40 + 8 + 8 + 16)));

    let (_, found) = walk(&[Options(0, 0), Fragment(8), Options(60, 1)], make::TCP);
    assert_eq!(found, Some((44, 40 + 8)));

    let (_, found) = walk(&[Fragment(0), Fragment(0xfff8)], make::TCP);
    assert_eq!(found, Some((44, 40 + 8)));
}

/// Of a fragment header four bytes are read: a packet that ends behind them still has a result.
#[test]
fn fragment_header_cut_at_every_length() {
    for (field, whole) in [(0x0001, Some((make::UDP, 8))), (0x0100, Some((44, 0)))] {
        let (next, chain) = make::chain(&[Fragment(field)], make::UDP);
        for length in 0..=8 {
            let expected = if length >= 4 { whole } else { None };
            let found = skip_extensions(&Linear(&chain[..length]), 0, next);
            assert_eq!(found, expected, "{field:#06x} cut at {length}");
        }
    }
}

/// Of the others two bytes are read, and what they claim may lie beyond the end: the caller finds
/// out when it reads there.
#[test]
fn headers_cut_at_every_length() {
    for extension in [Options(0, 2), Options(43, 2), Options(60, 2), Auth(4)] {
        let (next, chain) = make::chain(&[extension], make::TCP);
        for length in 0..=chain.len() {
            let expected = if length >= 2 {
                Some((make::TCP, 24))
            } else {
                None
            };
            for linear in 0..=length {
                let packet = Pieces::cut(&chain[..length], &[linear]);
                assert_eq!(
                    skip_extensions(&packet, 0, next),
                    expected,
                    "{extension:?} cut at {length}, {linear} of them linear"
                );
            }
        }
    }
}

/// A second header beyond the end of the packet is not there.
#[test]
fn chain_that_leaves_the_packet() {
    let (next, chain) = make::chain(&[Options(0, 3), Options(60, 0)], make::TCP);
    assert_eq!(
        skip_extensions(&Linear(&chain), 0, next),
        Some((make::TCP, 40))
    );
    assert_eq!(
        skip_extensions(&Linear(&chain[..34]), 0, next),
        Some((make::TCP, 40))
    );
    assert_eq!(skip_extensions(&Linear(&chain[..33]), 0, next), None);
    assert_eq!(skip_extensions(&Linear(&chain[..2]), 0, next), None);
}

#[test]
fn nothing_follows() {
    // There are bytes that would be a header, with UDP behind it.
    let (_, packet) = make::chain(&[Options(0, 0), Options(0, 0)], make::UDP);
    assert_eq!(skip_extensions(&Linear(&packet), 0, 59), None);
    for before in [Options(0, 0), Auth(2), Fragment(1)] {
        let (next, mut packet) = make::chain(&[before, Options(60, 0)], make::UDP);
        packet[0] = 59;
        assert_eq!(
            skip_extensions(&Linear(&packet), 0, next),
            None,
            "{before:?}"
        );
    }
    // A later fragment hides what its next-header field says.
    assert_eq!(walk(&[Fragment(8)], 59).1, Some((44, 40)));
}

#[test]
fn esp_is_a_payload() {
    assert_eq!(walk(&[Options(60, 0)], ESP).1, Some((ESP, 48)));
    assert_eq!(walk(&[], ESP).1, Some((ESP, 40)));
}

/// Twelve are walked, whatever they are. A thirteenth is not even read: a later fragment there is
/// no result, and neither is a packet that ends there any different.
#[test]
fn twelve_headers() {
    for extension in [
        Options(0, 0),
        Options(43, 1),
        Options(60, 0),
        Auth(2),
        Fragment(1),
    ] {
        let (_, found) = walk(&[extension; 12], make::UDP);
        let expected = 40 + 12 * extension.size() as u32;
        assert_eq!(found, Some((make::UDP, expected)), "{extension:?}");
        assert_eq!(walk(&[extension; 13], make::UDP).1, None, "{extension:?}");

        let mut ends_in_fragment = [extension; 13];
        ends_in_fragment[12] = Fragment(8);
        assert_eq!(walk(&ends_in_fragment, make::UDP).1, None, "{extension:?}");
        let found = walk(&ends_in_fragment[1..], make::UDP).1;
        assert_eq!(
            found,
            Some((44, 40 + 11 * extension.size() as u32)),
            "{extension:?}"
        );
    }
}

/// A packet of nothing but headers ends the walk by their number: with one read for each, or two
/// where it is a fragment.
#[test]
fn reads_are_bounded() {
    for number in [0, 43, 60, 51] {
        let bytes = [number];
        let packet = Endless::new(&bytes);
        assert_eq!(skip_extensions(&packet, 0, number), None);
        assert_eq!(packet.reads(), 12, "{number}");
    }
    let packet = Endless::new(&[44, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(skip_extensions(&packet, 0, 44), None);
    assert_eq!(packet.reads(), 24);
}

/// A walk may begin right below 2^32 and end above 0.
#[test]
fn offsets_wrap() {
    let (next, mut chain) = make::chain(&[Options(0, 0), Auth(255), Fragment(1)], make::TCP);
    // To 2048, a divisor of 2^32, so that each offset below 0 has the byte that it would have.
    chain.resize(2048, 0);
    let length = 8 + 1028 + 8;
    for start in [0, 1, 7, 8, 9, 500, 1035, 1036, 1037, 1040, length] {
        let mut packet = chain.clone();
        packet.rotate_left(start);
        let offset = 0u32.wrapping_sub(start as u32);
        assert_eq!(
            skip_extensions(&Endless::new(&packet), offset, next),
            Some((make::TCP, offset.wrapping_add(length as u32))),
            "from {start} below 2^32"
        );
    }
}

fn extension() -> impl Strategy<Value = make::Extension> {
    prop_oneof![
        (prop::sample::select(vec![0u8, 43, 60]), 0u8..5)
            .prop_map(|(number, n)| Options(number, n)),
        (0u8..9).prop_map(Auth),
        (0u16..8).prop_map(Fragment),
        (prop::sample::select(vec![0u8, 43, 60]), any::<u8>())
            .prop_map(|(number, n)| Options(number, n)),
    ]
}

proptest! {
    #![proptest_config(crate::config(4_000))]

    /// Of a chain that was built, the payload is where the lengths add up to; with more than
    /// twelve headers, nowhere; behind a later fragment, at that.
    #[test]
    fn chains_come_back(
        extensions in prop::collection::vec(extension(), 0..15),
        later in prop::option::weighted(0.3, (0usize..15, 8u16..)),
        last in any::<u8>(),
        start in 0usize..60,
        lengths in prop::collection::vec(0usize..60, 0..6),
    ) {
        let mut extensions = extensions;
        if let Some((at, field)) = later {
            extensions.insert(at.min(extensions.len()), Fragment(field));
        }
        let total: usize = extensions.iter().map(|e| e.size()).sum();
        let stop = extensions.iter().position(|e| matches!(e, Fragment(8..)));
        let expected = match stop {
            Some(at) if at < 12 => {
                let before: usize = extensions[..at].iter().map(|e| e.size()).sum();
                Some((44, (start + before) as u32))
            }
            // What is last may be an extension header again, without room to read it.
            _ if extensions.len() > 12 || [0, 43, 44, 51, 59, 60].contains(&last) => None,
            _ => Some((last, (start + total) as u32)),
        };

        let (next, chain) = make::chain(&extensions, last);
        let packet = [vec![0x3c; start], chain].concat();
        let pieces = Pieces::cut(&packet, &lengths);
        prop_assert_eq!(skip_extensions(&Linear(&packet), start as u32, next), expected);
        prop_assert_eq!(skip_extensions(&pieces, start as u32, next), expected);
        let byte = |at: u32| packet.get(at as usize).copied();
        prop_assert_eq!(model::skip_extensions(&byte, start as u32, next), expected);
        prop_assert!(pieces.reads() <= 24);
    }
}
