// SPDX-License-Identifier: GPL-2.0

//! TCP and UDP headers.

use crate::{
    check,
    make,
    model,
    packet::{Endless, Linear, Pieces}, //
};
use logic::transport::{Ports, Protocol, Transport};
use proptest::prelude::*;

const SOURCE: u16 = 0x1234;
const DEST: u16 = 0xabcd;

fn found(data_offset: u32) -> Option<model::Transport> {
    Some(model::Transport {
        source: SOURCE,
        dest: DEST,
        data_offset,
    })
}

#[test]
fn every_protocol_number() {
    for number in 0..=u8::MAX {
        let expected = match number {
            6 => Some(Protocol::Tcp),
            17 => Some(Protocol::Udp),
            _ => None,
        };
        assert_eq!(Protocol::from_number(number), expected, "{number}");
    }
}

#[test]
fn ports_are_the_first_two_fields() {
    let ports = Ports::from_header(&[0x12, 0x34, 0xab, 0xcd]);
    assert_eq!(ports.source.to_host(), SOURCE);
    assert_eq!(ports.dest.to_host(), DEST);
}

/// 8 bytes of UDP are needed, however long the datagram says it is, and 20 of TCP.
#[test]
fn every_truncation() {
    for (protocol, header, needed, data) in [
        (Protocol::Udp, make::udp(SOURCE, DEST), 8, 8),
        (Protocol::Tcp, make::tcp(SOURCE, DEST, 5), 20, 20),
    ] {
        for before in [0, 1, 14, 20, 60] {
            let packet = [vec![0x5a; before], header.clone()].concat();
            let offset = before as u32;
            for length in 0..=packet.len() {
                let expected = match length >= before + needed {
                    true => found(offset + data),
                    false => None,
                };
                let packet = &packet[..length];
                assert_eq!(
                    check::transport(&Linear(packet), protocol, offset),
                    expected,
                    "{protocol:?} at {offset}, cut at {length}"
                );
                for linear in 0..=length {
                    assert_eq!(
                        check::transport(&Pieces::cut(packet, &[linear]), protocol, offset),
                        expected,
                        "{protocol:?} at {offset}, cut at {length}, {linear} of them linear"
                    );
                }
            }
        }
    }
}

/// Eight bytes of UDP, and twenty of TCP, that end with the linear part are read in place; with a
/// byte less of it they are copied, and not refused.
#[test]
fn header_at_the_end_of_the_linear_part() {
    for (protocol, header, needed) in [
        (Protocol::Udp, make::udp(SOURCE, DEST), 8),
        (Protocol::Tcp, make::tcp(SOURCE, DEST, 5), 20),
    ] {
        let packet = [vec![0; 20], header].concat();
        for (linear, copies) in [(20 + needed, 0), (20 + needed - 1, 1), (20, 1), (0, 1)] {
            let packet = Pieces::cut(&packet, &[linear]);
            assert_eq!(
                check::transport(&packet, protocol, 20),
                found(20 + needed as u32),
                "{protocol:?}, {linear} linear"
            );
            assert_eq!(packet.copies(), copies, "{protocol:?}, {linear} linear");
        }
    }
}

/// A header is asked for once: twice would cost twice, and could be two different answers.
#[test]
fn one_read() {
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        let packet = Pieces::cut(&make::tcp(SOURCE, DEST, 5), &[]);
        assert!(Transport::parse(&packet, protocol, 0).is_some());
        assert_eq!(packet.reads(), 1, "{protocol:?}");
    }
}

/// The claimed length is passed on as it is: inside the header where it is below 5 words, and
/// beyond the packet's end here where it is above.
#[test]
fn every_tcp_header_length() {
    for words in 0..16 {
        let packet = [vec![0; 24], make::tcp(SOURCE, DEST, words)].concat();
        assert_eq!(
            check::transport(&Linear(&packet), Protocol::Tcp, 24),
            found(24 + 4 * u32::from(words)),
            "{words} words"
        );
    }
}

/// What C calls an offset is an int, here it is unsigned; neither may trap.
#[test]
fn offsets_wrap() {
    let packet = Endless::new(&[0xf0; 20]);
    for (protocol, length) in [(Protocol::Udp, 8), (Protocol::Tcp, 60)] {
        for offset in [
            u32::MAX,
            u32::MAX - 7,
            u32::MAX - 8,
            u32::MAX - 59,
            1 << 31,
            0,
        ] {
            let parsed = Transport::parse(&packet, protocol, offset).unwrap();
            assert_eq!(parsed.data_offset, offset.wrapping_add(length));
        }
        for offset in [20, 21, 1 << 31, u32::MAX - 19, u32::MAX] {
            assert_eq!(Transport::parse(&Linear(&[0; 20]), protocol, offset), None);
            assert_eq!(
                Transport::parse(&Pieces::cut(&[0; 20], &[9]), protocol, offset),
                None
            );
        }
    }
}

proptest! {
    #![proptest_config(crate::config(4_000))]

    /// Any header built from fields, anywhere in a packet, in any pieces.
    #[test]
    fn fields_come_back(
        source: u16, dest: u16, words in 0u8..16, is_tcp: bool,
        before in prop::collection::vec(any::<u8>(), 0..70),
        lengths in prop::collection::vec(0usize..40, 0..5),
    ) {
        let (protocol, header, length) = match is_tcp {
            true => (Protocol::Tcp, make::tcp(source, dest, words), u32::from(words) * 4),
            false => (Protocol::Udp, make::udp(source, dest), 8),
        };
        let offset = before.len() as u32;
        let packet = [before, header].concat();
        let expected = Some(model::Transport { source, dest, data_offset: offset + length });
        let pieces = Pieces::cut(&packet, &lengths);
        prop_assert_eq!(check::transport(&pieces, protocol, offset), expected.as_ref().map(
            |e| model::Transport { ..*e }));
        prop_assert_eq!(check::transport(&Linear(&packet), protocol, offset), expected);
    }
}
