// SPDX-License-Identifier: GPL-2.0

//! The packet that an ICMP or ICMPv6 error quotes.

use crate::{
    header::{Headers, Scratch},
    ipv6::skip_extension_headers,
    transport::{Ports, Protocol}, //
};

/// The length of an ICMP or ICMPv6 header, bytes.
const ICMP_HLEN: u32 = 8;
/// The length of an IPv6 header, bytes.
const IPV6_HLEN: u32 = 40;

/// The addresses, ports and protocol that an error quotes. The quoted packet was sent from here,
/// so its source is the local side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote<A> {
    /// The protocol of the quoted packet.
    pub protocol: Protocol,
    /// Its source address: ours.
    pub source: A,
    /// Its destination address: the peer's.
    pub dest: A,
    /// Its ports.
    pub ports: Ports,
}

/// Why there is no quote to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoQuote {
    /// It is no error message: nothing is quoted.
    NotAnError,
    /// The packet, or the part of the quoted one in it, ends too early.
    Truncated,
    /// The quoted packet is neither TCP nor UDP.
    Protocol,
}

/// Whether an ICMP (version 4) message of this type quotes a packet: `icmp_is_err()`.
#[inline]
pub const fn is_error_v4(icmp_type: u8) -> bool {
    // Destination unreachable, source quench, redirect, time exceeded, parameter problem.
    matches!(icmp_type, 3 | 4 | 5 | 11 | 12)
}

/// Whether an ICMPv6 message of this type quotes a packet: the informational ones have the
/// highest bit set.
#[inline]
pub const fn is_error_v6(icmp_type: u8) -> bool {
    icmp_type & 0x80 == 0
}

/// What the ICMP error whose header is at `offset` quotes.
///
/// The quoted header's length field is taken as it is, also where it claims fewer than 20 bytes.
pub fn quote_v4<H: Headers>(packet: &H, offset: u32) -> Result<Quote<[u8; 4]>, NoQuote> {
    check_v4(packet, offset)?;
    quote_behind_v4(packet, offset)
}

/// Whether the message whose header is at `offset` is an error.
#[inline(always)]
pub fn check_v4<H: Headers>(packet: &H, offset: u32) -> Result<(), NoQuote> {
    let mut scratch = Scratch::<8>::new();
    match packet.header(offset, &mut scratch) {
        None => Err(NoQuote::Truncated),
        Some(icmp) if !is_error_v4(icmp[0]) => Err(NoQuote::NotAnError),
        Some(_) => Ok(()),
    }
}

/// [`quote_v4()`] for a message that is known to be an error.
#[inline(always)]
pub fn quote_behind_v4<H: Headers>(packet: &H, offset: u32) -> Result<Quote<[u8; 4]>, NoQuote> {
    let inner = offset.wrapping_add(ICMP_HLEN);
    let mut scratch = Scratch::<20>::new();
    let ip = packet
        .header(inner, &mut scratch)
        .ok_or(NoQuote::Truncated)?;
    let protocol = Protocol::from_number(ip[9]).ok_or(NoQuote::Protocol)?;
    let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *ip;

    let mut scratch = Scratch::<4>::new();
    let ports = packet
        .header(
            inner.wrapping_add(u32::from(ip[0] & 0x0f) * 4),
            &mut scratch,
        )
        .ok_or(NoQuote::Truncated)?;

    Ok(Quote {
        protocol,
        source: [s0, s1, s2, s3],
        dest: [d0, d1, d2, d3],
        ports: Ports::from_header(ports),
    })
}

/// What the ICMPv6 error whose header is at `offset` quotes.
pub fn quote_v6<H: Headers>(packet: &H, offset: u32) -> Result<Quote<[u8; 16]>, NoQuote> {
    check_v6(packet, offset)?;
    quote_behind_v6(packet, offset)
}

/// Whether the message whose header is at `offset` is an error.
#[inline(always)]
pub fn check_v6<H: Headers>(packet: &H, offset: u32) -> Result<(), NoQuote> {
    let mut scratch = Scratch::<8>::new();
    match packet.header(offset, &mut scratch) {
        None => Err(NoQuote::Truncated),
        Some(icmp) if !is_error_v6(icmp[0]) => Err(NoQuote::NotAnError),
        Some(_) => Ok(()),
    }
}

/// [`quote_v6()`] for a message that is known to be an error.
#[inline(always)]
pub fn quote_behind_v6<H: Headers>(packet: &H, offset: u32) -> Result<Quote<[u8; 16]>, NoQuote> {
    let inner = offset.wrapping_add(ICMP_HLEN);
    let mut scratch = Scratch::<40>::new();
    let ip = packet
        .header(inner, &mut scratch)
        .ok_or(NoQuote::Truncated)?;
    let mut source = [0; 16];
    let mut dest = [0; 16];
    source.copy_from_slice(&ip[8..24]);
    dest.copy_from_slice(&ip[24..40]);

    let payload = skip_extension_headers(packet, inner.wrapping_add(IPV6_HLEN), ip[6])
        .ok_or(NoQuote::Truncated)?;
    let protocol = Protocol::from_number(payload.next_header).ok_or(NoQuote::Protocol)?;

    let mut scratch = Scratch::<4>::new();
    let ports = packet
        .header(payload.offset, &mut scratch)
        .ok_or(NoQuote::Truncated)?;

    Ok(Quote {
        protocol,
        source,
        dest,
        ports: Ports::from_header(ports),
    })
}
