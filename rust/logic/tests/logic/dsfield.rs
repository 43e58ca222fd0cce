// SPDX-License-Identifier: GPL-2.0

//! DSCP and ECN from the outer header to the inner one, and checksums after a change: against
//! tables of the rules, and against checksums from scratch.

use crate::config;
use logic::{checksum, dsfield};
use proptest::prelude::*;

/// A checksum as RFC 1071 describes it, word by word and with all carries at once.
fn sum(bytes: &[u8]) -> u16 {
    let mut sum = 0u64;
    for word in bytes.chunks(2) {
        sum += u64::from(word[0]) << 8 | word.get(1).map_or(0, |&low| u64::from(low));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A header with a checksum that is right.
fn header() -> impl Strategy<Value = [u8; 20]> {
    any::<[u8; 20]>().prop_map(|mut header| {
        header[0] = 0x45;
        header[10..12].fill(0);
        let check = !sum(&header);
        header[10..12].copy_from_slice(&check.to_be_bytes());
        header
    })
}

/// What RFC 3168 makes of the inner bits where the outer ones say that there was congestion.
fn congested(inner: u8) -> u8 {
    match inner & 3 {
        0 => inner,
        _ => inner | 3,
    }
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn header_checksum(mut bytes in header()) {
        let found = [bytes[10], bytes[11]];
        bytes[10..12].fill(0);
        assert_eq!(checksum::of_header(&bytes), found);
    }

    /// A checksum stays right, and nothing changes but it and the byte.
    #[test]
    fn ipv4(before in header(), outer in any::<u8>()) {
        for copy in [false, true] {
            let mut after = before;
            let expected = match copy {
                true => {
                    dsfield::copy_dscp_v4(&mut after, outer);
                    (outer & 0xfc) | (before[1] & 3)
                }
                false => {
                    dsfield::set_ce_v4(&mut after);
                    congested(before[1])
                }
            };
            assert_eq!(after[1], expected);
            assert_eq!(sum(&after), 0xffff, "{after:02x?}");
            let mut rest = after;
            rest[1] = before[1];
            rest[10..12].copy_from_slice(&before[10..12]);
            assert_eq!(rest, before);
        }
    }

    #[test]
    fn ipv6(word in any::<u32>(), outer in any::<u8>()) {
        let inner = (word >> 20) as u8;
        let with = |dsfield: u8| ((word & 0xf00f_ffff) | u32::from(dsfield) << 20).to_be_bytes();
        let bytes = word.to_be_bytes();
        assert_eq!(dsfield::of_v6(bytes), inner);
        assert_eq!(dsfield::with_v6(bytes, outer), with(outer));
        assert_eq!(dsfield::set_ce_v6(bytes), with(congested(inner)));
        assert_eq!(dsfield::copy_dscp_v6(bytes, outer), with((outer & 0xfc) | (inner & 3)));
    }

    /// The sum of all data, after a word of it changed.
    #[test]
    fn replaced(before in any::<[u8; 8]>(), to in any::<[u8; 4]>()) {
        let [a, b, c, d, rest @ ..] = before;
        let words = |bytes: [u8; 4]| u64::from(u32::from_ne_bytes(bytes));
        let fold = |mut sum: u64| {
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            // Two ways to write nothing.
            sum % 0xffff
        };
        let sum = words([a, b, c, d]) + words(rest);
        let sum = (sum as u32).wrapping_add((sum >> 32) as u32);
        let changed = checksum::replace(sum, [a, b, c, d], to);
        assert_eq!(fold(changed.into()), fold(words(to) + words(rest)));
    }
}

#[test]
fn congestion() {
    for dsfield in 0..=255 {
        assert_eq!(dsfield::is_ce(dsfield), dsfield % 4 == 3);
    }
}
