// SPDX-License-Identifier: GPL-2.0

//! The byte of a header that says how a packet is to be treated (DSCP), and whether it met
//! congestion (ECN), as the end of a tunnel carries it over from the outer header to the inner one.

use crate::checksum;

/// The bits that are ECN.
const ECN: u8 = 3;

/// Whether a packet met congestion: `INET_ECN_is_ce()`.
#[inline]
pub const fn is_ce(dsfield: u8) -> bool {
    dsfield & ECN == ECN
}

/// Whether its sender can be told: `INET_ECN_is_not_ect()` says that it cannot.
#[inline]
const fn is_capable(dsfield: u8) -> bool {
    dsfield & ECN != 0
}

/// Changes an IPv4 header, and its checksum.
#[inline]
fn change_v4(header: &mut [u8; 20], dsfield: u8) {
    let [first, old, ..] = *header;
    header[1] = dsfield;
    let check = [header[10], header[11]];
    let check = checksum::update(check, [first, old], [first, dsfield]);
    header[10] = check[0];
    header[11] = check[1];
}

/// Notes congestion in an IPv4 header, if its sender can be told: `IP_ECN_set_ce()`.
#[inline]
pub fn set_ce_v4(header: &mut [u8; 20]) {
    if is_capable(header[1]) && !is_ce(header[1]) {
        change_v4(header, header[1] | ECN);
    }
}

/// Copies the treatment to an IPv4 header: `ipv4_copy_dscp()`.
#[inline]
pub fn copy_dscp_v4(header: &mut [u8; 20], outer: u8) {
    change_v4(header, (header[1] & ECN) | (outer & !ECN));
}

/// The byte, which in an IPv6 header is not aligned: `ipv6_get_dsfield()`.
#[inline]
pub const fn of_v6(word: [u8; 4]) -> u8 {
    (word[0] << 4) | (word[1] >> 4)
}

/// The first word of an IPv6 header with another byte.
#[inline]
pub const fn with_v6(word: [u8; 4], dsfield: u8) -> [u8; 4] {
    [
        (word[0] & 0xf0) | (dsfield >> 4),
        (word[1] & 0x0f) | (dsfield << 4),
        word[2],
        word[3],
    ]
}

/// The first word of an IPv6 header with congestion noted, if its sender can be told:
/// `IP6_ECN_set_ce()`.
#[inline]
pub const fn set_ce_v6(word: [u8; 4]) -> [u8; 4] {
    let dsfield = of_v6(word);
    match is_capable(dsfield) {
        true => with_v6(word, dsfield | ECN),
        false => word,
    }
}

/// The first word of an IPv6 header with the treatment copied: `ipv6_copy_dscp()`.
#[inline]
pub const fn copy_dscp_v6(word: [u8; 4], outer: u8) -> [u8; 4] {
    with_v6(word, (of_v6(word) & ECN) | (outer & !ECN))
}
