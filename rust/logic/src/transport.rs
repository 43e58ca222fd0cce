// SPDX-License-Identifier: GPL-2.0

//! TCP and UDP headers, as far as a socket lookup needs them.

use crate::{
    byteorder::Be16,
    header::{Headers, Scratch}, //
};

/// The transport protocols that have sockets to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `IPPROTO_TCP`.
    Tcp,
    /// `IPPROTO_UDP`.
    Udp,
}

/// `IPPROTO_TCP`.
pub const IPPROTO_TCP: u8 = 6;
/// `IPPROTO_UDP`.
pub const IPPROTO_UDP: u8 = 17;

impl Protocol {
    /// The protocol with this number, if it is one of the two.
    #[inline]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            IPPROTO_TCP => Some(Self::Tcp),
            IPPROTO_UDP => Some(Self::Udp),
            _ => None,
        }
    }
}

/// Source and destination port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Of the sender.
    pub source: Be16,
    /// Of the receiver.
    pub dest: Be16,
}

impl Ports {
    /// The first four bytes of a TCP or UDP header.
    #[inline]
    pub fn from_header(header: &[u8; 4]) -> Self {
        let [s0, s1, d0, d1] = *header;
        Self {
            source: Be16::from_bytes([s0, s1]),
            dest: Be16::from_bytes([d0, d1]),
        }
    }
}

/// What a lookup needs of a transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// The ports.
    pub ports: Ports,
    /// Where the payload begins, in bytes from the packet's offset 0. A TCP header may claim any
    /// length, so this may lie beyond the packet's end or inside the header.
    pub data_offset: u32,
}

impl Transport {
    /// Reads the header of `protocol` at `offset`. `None` if the packet does not hold all of the
    /// fixed header: 8 bytes of UDP, 20 of TCP.
    #[inline(always)]
    pub fn parse<H: Headers>(packet: &H, protocol: Protocol, offset: u32) -> Option<Self> {
        match protocol {
            Protocol::Udp => {
                let mut scratch = Scratch::<8>::new();
                let [s0, s1, d0, d1, ..] = packet.header(offset, &mut scratch)?;
                Some(Self {
                    ports: Ports::from_header(&[*s0, *s1, *d0, *d1]),
                    data_offset: offset.wrapping_add(8),
                })
            }
            Protocol::Tcp => {
                let mut scratch = Scratch::<20>::new();
                let header = packet.header(offset, &mut scratch)?;
                let [s0, s1, d0, d1, ..] = header;
                let words = header[12] >> 4;
                Some(Self {
                    ports: Ports::from_header(&[*s0, *s1, *d0, *d1]),
                    data_offset: offset.wrapping_add(u32::from(words) * 4),
                })
            }
        }
    }
}
