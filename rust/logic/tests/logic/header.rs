// SPDX-License-Identifier: GPL-2.0

//! Reading headers, in place and through the scratch room.

use crate::packet::{Endless, Linear, Pieces};
use logic::header::{Headers, Scratch};
use proptest::prelude::*;

/// The header of `N` bytes at `offset`, and whether it lies in the scratch room.
fn read<const N: usize>(packet: &impl Headers, offset: u32) -> Option<([u8; N], bool)> {
    let mut scratch = Scratch::<N>::new();
    let room = scratch.room().as_ptr().addr();
    let header = packet.header(offset, &mut scratch)?;
    Some((*header, header.as_ptr().addr() == room))
}

fn expected<const N: usize>(bytes: &[u8], offset: u32) -> Option<[u8; N]> {
    let start = offset as usize;
    bytes.get(start..start + N)?.try_into().ok()
}

#[test]
fn scratch_gives_back_what_it_was_filled_with() {
    let mut scratch = Scratch::<4>::new();
    assert_eq!(scratch.fill([1, 2, 3, 4]), &[1, 2, 3, 4]);
    assert_eq!(scratch.fill([5, 6, 7, 8]), &[5, 6, 7, 8]);

    let mut scratch = Scratch::<4>::default();
    assert_eq!(scratch.room().write([9, 10, 11, 12]), &[9, 10, 11, 12]);
}

/// It is on the stack of the packet path: no flag, no padding.
#[test]
fn scratch_is_no_larger_than_the_header() {
    assert_eq!(size_of::<Scratch<20>>(), 20);
    assert_eq!(align_of::<Scratch<20>>(), 1);
}

#[test]
fn filling_writes_the_room_and_returns_it() {
    let mut scratch = Scratch::<8>::new();
    let room = scratch.room().as_ptr().addr();
    assert_eq!(scratch.fill([7; 8]).as_ptr().addr(), room);
}

/// Each cut of ten bytes in two or three, each offset, a header of four: linear ones in place,
/// others through the room, none beyond the end.
#[test]
fn every_cut_of_a_short_packet() {
    let bytes = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19];
    for first in 0..=bytes.len() {
        for second in 0..=bytes.len() - first {
            let packet = Pieces::cut(&bytes, &[first, second]);
            for offset in 0..14 {
                let found = read::<4>(&packet, offset);
                let linear = offset as usize + 4 <= first;
                assert_eq!(
                    found,
                    expected::<4>(&bytes, offset).map(|header| (header, !linear)),
                    "cut {first}/{second}, offset {offset}"
                );
            }
            let linear = first.saturating_sub(3);
            assert_eq!(packet.reads(), 14);
            assert_eq!(packet.copies(), 7 - linear);
        }
    }
}

#[test]
fn endless_packet_goes_on_at_zero() {
    let packet = Endless::new(&[0x40, 0x41, 0x42, 0x43]);
    assert_eq!(read::<2>(&packet, 7), Some(([0x43, 0x40], true)));
    // 2^32 is a multiple of four, so the last offset holds the last byte.
    assert_eq!(read::<2>(&packet, u32::MAX), Some(([0x43, 0x40], true)));
    assert_eq!(packet.reads(), 2);
}

proptest! {
    #![proptest_config(crate::config(4_000))]

    #[test]
    fn pieces_read_as_the_whole(
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        lengths in prop::collection::vec(0usize..30, 0..6),
        offset in prop_oneof![0u32..90, any::<u32>()],
    ) {
        let packet = Pieces::cut(&bytes, &lengths);
        let linear = Linear(&bytes);
        prop_assert_eq!(read::<1>(&packet, offset).map(|r| r.0), expected::<1>(&bytes, offset));
        prop_assert_eq!(read::<8>(&packet, offset).map(|r| r.0), expected::<8>(&bytes, offset));
        prop_assert_eq!(read::<40>(&packet, offset).map(|r| r.0), expected::<40>(&bytes, offset));
        let in_place = expected::<8>(&bytes, offset).map(|header| (header, false));
        prop_assert_eq!(read::<8>(&linear, offset), in_place);
    }
}
