// SPDX-License-Identifier: GPL-2.0

//! IPv6 extension headers.

use crate::header::{Headers, Scratch};

/// Hop-by-hop options.
pub const NEXTHDR_HOP: u8 = 0;
/// Routing header.
pub const NEXTHDR_ROUTING: u8 = 43;
/// Fragment header.
pub const NEXTHDR_FRAGMENT: u8 = 44;
/// Authentication header.
pub const NEXTHDR_AUTH: u8 = 51;
/// Nothing follows.
pub const NEXTHDR_NONE: u8 = 59;
/// Destination options.
pub const NEXTHDR_DEST: u8 = 60;
/// ICMPv6.
pub const IPPROTO_ICMPV6: u8 = 58;

/// How many extension headers are walked before a packet is given up: the kernel's
/// `IP6_MAX_EXT_HDRS_CNT`.
pub const MAX_EXTENSION_HEADERS: usize = 12;

/// What follows the extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Its protocol, or [`NEXTHDR_FRAGMENT`] where a fragment other than the first is behind it:
    /// there the payload is the middle of something.
    pub next_header: u8,
    /// Where it begins. May lie beyond the packet's end: an extension header may claim any length.
    pub offset: u32,
}

/// Walks the extension headers from `offset` on, the first of which is a `next_header`.
///
/// The rules of the kernel's `ipv6_skip_exthdr()`: a first fragment's header is stepped over, any
/// other one ends the walk and is itself the result; ESP is a payload. `None` where the packet
/// ends inside a header, has no payload, or has more headers than the kernel looks at.
pub fn skip_extension_headers<H: Headers>(
    packet: &H,
    mut offset: u32,
    mut next_header: u8,
) -> Option<Payload> {
    let mut walked = 0;
    while is_extension_header(next_header) {
        if next_header == NEXTHDR_NONE || walked == MAX_EXTENSION_HEADERS {
            return None;
        }
        walked += 1;

        let mut scratch = Scratch::<2>::new();
        let [following, units] = *packet.header(offset, &mut scratch)?;
        let length = match next_header {
            NEXTHDR_FRAGMENT => {
                let mut scratch = Scratch::<2>::new();
                let field = packet.header(offset.wrapping_add(2), &mut scratch)?;
                // The low three bits are flags.
                if u16::from_be_bytes(*field) & !0x7 != 0 {
                    break;
                }
                8
            }
            NEXTHDR_AUTH => (u32::from(units) + 2) * 4,
            _ => (u32::from(units) + 1) * 8,
        };
        next_header = following;
        offset = offset.wrapping_add(length);
    }

    Some(Payload {
        next_header,
        offset,
    })
}

/// Whether this number names an extension header and no payload: `ipv6_ext_hdr()`.
#[inline]
pub const fn is_extension_header(next_header: u8) -> bool {
    matches!(
        next_header,
        NEXTHDR_HOP
            | NEXTHDR_ROUTING
            | NEXTHDR_FRAGMENT
            | NEXTHDR_AUTH
            | NEXTHDR_NONE
            | NEXTHDR_DEST
    )
}
