// SPDX-License-Identifier: GPL-2.0

//! Where ESP is in a packet, and what it adds.

/// Where in an IPv6 header, which ends where ESP begins, the number stands that says so; bytes
/// from its beginning.
///
/// ESP may be in UDP, which then follows the header itself.
#[inline]
pub fn next_header_offset(header: &[u8]) -> Option<u16> {
    const NEXT_HEADER: usize = 6;
    const FIXED_LEN: usize = 40;
    const ESP: u8 = 50;
    const UDP: u8 = 17;

    if matches!(header.get(NEXT_HEADER), Some(&(ESP | UDP))) {
        return Some(NEXT_HEADER as u16);
    }
    let mut offset = FIXED_LEN;
    // Each turn is at least 8 bytes further.
    while let Some(&[next, len]) = header.get(offset..).and_then(|at| at.first_chunk()) {
        if next == ESP {
            return u16::try_from(offset).ok();
        }
        offset = offset.wrapping_add((usize::from(len) + 1) << 3);
    }
    None
}

/// What ESP adds behind a packet, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// All that is encrypted: the packet, padding, and the two bytes that end it.
    pub encrypted: u32,
    /// Padding, and the two bytes that end it.
    pub padding: u32,
    /// That, and the integrity check value.
    pub total: u32,
}

/// What it takes to fill the blocks of a cipher, and words of 32 bits, with `len` bytes.
///
/// `block` is a power of 2.
#[inline]
pub const fn trailer(len: u32, block: u32, icv: u32) -> Trailer {
    let block = block.wrapping_add(3) & !3;
    let encrypted = len.wrapping_add(1).wrapping_add(block) & block.wrapping_neg();
    let padding = encrypted.wrapping_sub(len);
    Trailer {
        encrypted,
        padding,
        total: padding.wrapping_add(icv),
    }
}
