// SPDX-License-Identifier: GPL-2.0

//! Where an IPv6 header says that ESP is next, and what ESP adds at the end.

use crate::config;
use logic::esp::{next_header_offset, trailer};
use proptest::prelude::*;

const ESP: u8 = 50;
const UDP: u8 = 17;

/// A header, and the extension headers behind it, by the lengths that they say, in units of eight
/// bytes beyond the first; the last number is what comes behind all.
fn chain(lens: &[u8], last: u8) -> (Vec<u8>, usize) {
    const DEST_OPTIONS: u8 = 60;

    let mut bytes = vec![0x60; 40];
    let mut at = 6;
    for &len in lens {
        bytes[at] = DEST_OPTIONS;
        at = bytes.len();
        bytes.resize(at + (usize::from(len) + 1) * 8, 0xff);
        bytes[at + 1] = len;
    }
    bytes[at] = last;
    (bytes, at)
}

proptest! {
    #![proptest_config(config(1000))]

    #[test]
    fn finds_what_was_made(lens in prop::collection::vec(0..20u8, 0..6)) {
        let (bytes, at) = chain(&lens, ESP);
        assert_eq!(next_header_offset(&bytes), Some(at as u16));
        // In UDP only right behind the header, as with C.
        let (bytes, at) = chain(&lens, UDP);
        assert_eq!(next_header_offset(&bytes), lens.is_empty().then_some(at as u16));
        let (bytes, _) = chain(&lens, 6);
        assert_eq!(next_header_offset(&bytes), None);
    }

    /// Whatever the bytes: what is found is such a number, in the header.
    #[test]
    fn finds_nothing_else(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Some(at) = next_header_offset(&bytes) {
            let number = bytes[usize::from(at)];
            assert!(number == ESP || (at == 6 && number == UDP));
            assert!(at == 6 || at >= 40);
        }
    }
}

proptest! {
    #![proptest_config(config(1000))]

    /// As much padding as it takes, and no more: counted up byte by byte.
    #[test]
    fn trailer_fills_blocks(len in 0..70_000u32, block in 0..7u32, icv in 0..65u32) {
        let block = 1 << block;
        let mut encrypted = len + 2;
        while encrypted % block != 0 || encrypted % 4 != 0 {
            encrypted += 1;
        }
        let trailer = trailer(len, block, icv);
        assert_eq!(trailer.encrypted, encrypted);
        assert_eq!(trailer.padding, encrypted - len);
        assert_eq!(trailer.total, encrypted - len + icv);
    }
}
