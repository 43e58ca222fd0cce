// SPDX-License-Identifier: GPL-2.0

//! Where ESP is in a packet.

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
