// SPDX-License-Identifier: GPL-2.0

//! Integers in network byte order.

use logic::byteorder::{Be16, Be32};
use proptest::prelude::*;

#[test]
fn most_significant_byte_comes_first() {
    assert_eq!(Be16::from_bytes([0x12, 0x34]).to_host(), 0x1234);
    assert_eq!(
        Be32::from_bytes([0x12, 0x34, 0x56, 0x78]).to_host(),
        0x1234_5678
    );
    assert_eq!(Be16::from_host(0x1234).raw().to_ne_bytes(), [0x12, 0x34]);
    assert_eq!(
        Be32::from_host(0x1234_5678).raw().to_ne_bytes(),
        [0x12, 0x34, 0x56, 0x78]
    );
}

#[test]
fn default_is_zero() {
    assert_eq!(Be16::default().raw(), 0);
    assert_eq!(Be32::default().raw(), 0);
}

/// They stand in for C's types in structures and calls.
#[test]
fn layout_is_the_integers() {
    assert_eq!(size_of::<Be16>(), 2);
    assert_eq!(align_of::<Be16>(), align_of::<u16>());
    assert_eq!(size_of::<Be32>(), 4);
    assert_eq!(align_of::<Be32>(), align_of::<u32>());
}

#[test]
fn every_16_bit_value() {
    for host in 0..=u16::MAX {
        let bytes = [(host / 256) as u8, (host % 256) as u8];
        let value = Be16::from_bytes(bytes);
        assert_eq!(value.to_host(), host);
        assert_eq!(value, Be16::from_host(host));
        assert_eq!(value.raw().to_ne_bytes(), bytes);
        assert_eq!(value, Be16::from_raw(value.raw()));
        assert_ne!(value, Be16::from_host(host ^ 0x0100));
    }
}

proptest! {
    #![proptest_config(crate::config(10_000))]

    #[test]
    fn any_32_bit_value(bytes: [u8; 4]) {
        let host = bytes.iter().fold(0, |sum, byte| (sum << 8) | u32::from(*byte));
        let value = Be32::from_bytes(bytes);
        prop_assert_eq!(value.to_host(), host);
        prop_assert_eq!(value, Be32::from_host(host));
        prop_assert_eq!(value.raw().to_ne_bytes(), bytes);
        prop_assert_eq!(value, Be32::from_raw(value.raw()));
        prop_assert_ne!(value, Be32::from_host(host ^ 0x0001_0000));
    }
}
