// SPDX-License-Identifier: GPL-2.0

//! The Internet's checksum: the complement of the sum, in one's complement, of words of 16 bits.

/// Folds a sum into 16 bits.
#[inline]
const fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    sum as u16
}

/// The checksum of a header of at most 64 KiB in words of 16 bits, in which its own field is 0;
/// as it stands in the packet. An odd byte at the end is left out.
#[inline]
pub fn of_header(header: &[u8]) -> [u8; 2] {
    let mut sum = 0u32;
    for word in header.chunks_exact(2) {
        if let &[high, low] = word {
            sum = sum.wrapping_add(u32::from(u16::from_be_bytes([high, low])));
        }
    }
    (!fold(sum)).to_be_bytes()
}

/// The checksum of a header, given the one that it had before a word was changed (RFC 1624).
#[inline]
pub const fn update(check: [u8; 2], from: [u8; 2], to: [u8; 2]) -> [u8; 2] {
    let check = !u16::from_be_bytes(check) as u32;
    let from = !u16::from_be_bytes(from) as u32;
    let to = u16::from_be_bytes(to) as u32;
    (!fold(check.wrapping_add(from).wrapping_add(to))).to_be_bytes()
}

/// A sum of data, as C keeps it in 32 bits (`__wsum`), after an aligned word of it was changed.
#[inline]
pub const fn replace(sum: u32, from: [u8; 4], to: [u8; 4]) -> u32 {
    // Such sums are of words as the machine reads them; carries go around the 32 bits.
    let from = !u32::from_ne_bytes(from) as u64;
    let to = u32::from_ne_bytes(to) as u64;
    let sum = (sum as u64).wrapping_add(from).wrapping_add(to);
    let sum = (sum & 0xffff_ffff).wrapping_add(sum >> 32);
    (sum as u32).wrapping_add((sum >> 32) as u32)
}
