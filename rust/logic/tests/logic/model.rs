// SPDX-License-Identifier: GPL-2.0

//! What C finds in a packet, said as plainly as possible.
//!
//! Written from `skb_header_pointer()`, `ipv6_skip_exthdr()`, `extract_icmp4_fields()`,
//! `extract_icmp6_fields()` and `nf_sk_lookup_slow_v4()` of Linux 7.3. It knows nothing of the
//! crate under test: protocols, addresses and ports are numbers and bytes here, and whether a byte
//! can be read is asked for each one.
//!
//! Offsets count modulo 2^32. C's are signed, which differs only above 2^31, where no packet is.

/// The byte at an offset, if the packet goes that far.
pub type Bytes<'a> = dyn Fn(u32) -> Option<u8> + 'a;

type Length = fn(u64) -> u64;

/// The numbers of the extension headers, and how long one is that carries `n` as its length.
const EXTENSIONS: [(u8, Length); 5] = [
    (0, |n| 8 * (n + 1)),  // hop-by-hop options
    (43, |n| 8 * (n + 1)), // routing
    (44, |_| 8),           // fragment
    (51, |n| 4 * (n + 2)), // authentication
    (60, |n| 8 * (n + 1)), // destination options
];
const FRAGMENT: u8 = 44;
const NO_NEXT_HEADER: u8 = 59;
const EXTENSIONS_LIMIT: usize = 12;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Ports and the payload's offset.
#[derive(Debug, PartialEq, Eq)]
pub struct Transport {
    pub source: u16,
    pub dest: u16,
    pub data_offset: u32,
}

/// What an ICMP error says of the packet it was sent for.
#[derive(Debug, PartialEq, Eq)]
pub struct Quote {
    pub protocol: u8,
    pub source: Vec<u8>,
    pub dest: Vec<u8>,
    pub source_port: u16,
    pub dest_port: u16,
}

/// Where C returns 1 without having found a quote.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    Type,
    Length,
    Protocol,
}

fn after(offset: u32, length: u64) -> u32 {
    u32::try_from((u64::from(offset) + length) % (1 << 32)).unwrap()
}

fn read(packet: &Bytes<'_>, offset: u32, length: u64) -> Option<Vec<u8>> {
    (0..length).map(|n| packet(after(offset, n))).collect()
}

fn number(bytes: &[u8]) -> u16 {
    bytes
        .iter()
        .fold(0, |sum, byte| 256 * sum + u16::from(*byte))
}

/// The TCP or UDP header of a packet to look up, `None` where C does without a lookup.
pub fn transport(packet: &Bytes<'_>, protocol: u8, offset: u32) -> Option<Transport> {
    let header = read(packet, offset, if protocol == TCP { 20 } else { 8 })?;
    let length = if protocol == TCP {
        // Data offset: the upper half of byte 12, in words of four bytes.
        u64::from(header[12] / 16) * 4
    } else {
        8
    };
    Some(Transport {
        source: number(&header[0..2]),
        dest: number(&header[2..4]),
        data_offset: after(offset, length),
    })
}

/// Number and offset of what follows the extension headers.
pub fn skip_extensions(packet: &Bytes<'_>, offset: u32, next: u8) -> Option<(u8, u32)> {
    skip(packet, offset, next, EXTENSIONS_LIMIT)
}

fn skip(packet: &Bytes<'_>, offset: u32, next: u8, left: usize) -> Option<(u8, u32)> {
    if next == NO_NEXT_HEADER {
        return None;
    }
    let Some((_, length)) = EXTENSIONS.iter().find(|(number, _)| *number == next) else {
        return Some((next, offset));
    };
    if left == 0 {
        return None;
    }
    let header = read(packet, offset, 2)?;
    if next == FRAGMENT {
        // The offset is in units of 8, in the upper 13 bits.
        let fragment = number(&read(packet, after(offset, 2), 2)?) / 8;
        if fragment > 0 {
            return Some((FRAGMENT, offset));
        }
    }
    let behind = after(offset, length(u64::from(header[1])));
    skip(packet, behind, header[0], left - 1)
}

/// Whether an ICMP message is an error.
pub fn error_v4(packet: &Bytes<'_>, offset: u32) -> Result<(), Failure> {
    let icmp = read(packet, offset, 8).ok_or(Failure::Length)?;
    // Unreachable, source quench, redirect, time exceeded, parameter problem.
    if ![3, 4, 5, 11, 12].contains(&icmp[0]) {
        return Err(Failure::Type);
    }
    Ok(())
}

/// What an ICMP message at this offset quotes, if it is an error.
pub fn quote_v4(packet: &Bytes<'_>, offset: u32) -> Result<Quote, Failure> {
    error_v4(packet, offset).and_then(|()| quote_behind_v4(packet, offset))
}

/// What there is of a quote behind an ICMP header at this offset.
pub fn quote_behind_v4(packet: &Bytes<'_>, offset: u32) -> Result<Quote, Failure> {
    let ip = read(packet, after(offset, 8), 20).ok_or(Failure::Length)?;
    let protocol = ip[9];
    if protocol != TCP && protocol != UDP {
        return Err(Failure::Protocol);
    }
    let length = u64::from(ip[0] % 16) * 4;
    let ports = read(packet, after(offset, 8 + length), 4).ok_or(Failure::Length)?;
    Ok(Quote {
        protocol,
        source: ip[12..16].to_vec(),
        dest: ip[16..20].to_vec(),
        source_port: number(&ports[0..2]),
        dest_port: number(&ports[2..4]),
    })
}

/// Whether an ICMPv6 message is an error.
pub fn error_v6(packet: &Bytes<'_>, offset: u32) -> Result<(), Failure> {
    let icmp = read(packet, offset, 8).ok_or(Failure::Length)?;
    if icmp[0] >= 128 {
        return Err(Failure::Type);
    }
    Ok(())
}

/// What an ICMPv6 message at this offset quotes, if it is an error.
pub fn quote_v6(packet: &Bytes<'_>, offset: u32) -> Result<Quote, Failure> {
    error_v6(packet, offset).and_then(|()| quote_behind_v6(packet, offset))
}

/// What there is of a quote behind an ICMPv6 header at this offset.
pub fn quote_behind_v6(packet: &Bytes<'_>, offset: u32) -> Result<Quote, Failure> {
    let ip = read(packet, after(offset, 8), 40).ok_or(Failure::Length)?;
    let (protocol, payload) =
        skip_extensions(packet, after(offset, 48), ip[6]).ok_or(Failure::Length)?;
    if protocol != TCP && protocol != UDP {
        return Err(Failure::Protocol);
    }
    let ports = read(packet, payload, 4).ok_or(Failure::Length)?;
    Ok(Quote {
        protocol,
        source: ip[8..24].to_vec(),
        dest: ip[24..40].to_vec(),
        source_port: number(&ports[0..2]),
        dest_port: number(&ports[2..4]),
    })
}
