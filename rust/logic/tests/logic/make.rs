// SPDX-License-Identifier: GPL-2.0

//! Packets built from what is to be found in them.

/// An IPv4 header's protocol numbers.
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;

/// Addresses that show when bytes were taken from elsewhere.
pub const SOURCE_V4: [u8; 4] = [192, 0, 2, 0x51];
pub const DEST_V4: [u8; 4] = [198, 51, 100, 0xd7];
pub const SOURCE_V6: [u8; 16] = [
    0x20, 0x01, 0x0d, 0xb8, 0x51, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
];
pub const DEST_V6: [u8; 16] = [
    0x20, 0x01, 0x0d, 0xb8, 0xd7, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21,
];

/// Filler that no parser should take for a header.
const FILL: u8 = 0xee;

/// A UDP header and 12 bytes of payload.
pub fn udp(source: u16, dest: u16) -> Vec<u8> {
    let mut header = [source.to_be_bytes(), dest.to_be_bytes()].concat();
    header.extend([0, 20, 0xab, 0xcd]);
    header.extend([FILL; 12]);
    header
}

/// A TCP header that claims `words` four-byte words, the fixed 20 bytes of it only.
pub fn tcp(source: u16, dest: u16, words: u8) -> Vec<u8> {
    let mut header = [source.to_be_bytes(), dest.to_be_bytes()].concat();
    header.extend([1, 2, 3, 4, 5, 6, 7, 8, (words << 4) | 1, 0x12]);
    header.extend([0xfa, 0xf0, 0xab, 0xcd, 0, 0]);
    header
}

/// An IPv4 packet whose header claims `words` four-byte words and, above 5, has them as options.
pub fn ipv4(words: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![
        0x40 | words,
        0,
        0,
        84,
        0x12,
        0x34,
        0,
        0,
        64,
        protocol,
        0xab,
        0xcd,
    ];
    packet.extend(SOURCE_V4);
    packet.extend(DEST_V4);
    packet.resize(20.max(usize::from(words) * 4), FILL);
    packet.extend(payload);
    packet
}

/// An IPv6 packet with this next-header field.
pub fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 64, next, 64];
    packet.extend(SOURCE_V6);
    packet.extend(DEST_V6);
    packet.extend(payload);
    packet
}

/// An ICMP or ICMPv6 message of this type.
pub fn icmp(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, 0, 0xab, 0xcd, 0, 0, 0, 0];
    message.extend(payload);
    message
}

/// An extension header.
#[derive(Clone, Copy, Debug)]
pub enum Extension {
    /// Hop-by-hop, routing or destination options (0, 43, 60), with this in its length field.
    Options(u8, u8),
    /// Authentication, with this in its length field.
    Auth(u8),
    /// Fragment, with this in its field of offset and flags.
    Fragment(u16),
}

impl Extension {
    /// The number by which the header before names this one.
    pub fn number(self) -> u8 {
        match self {
            Self::Options(number, _) => number,
            Self::Auth(_) => 51,
            Self::Fragment(_) => 44,
        }
    }

    /// How long it is, bytes.
    pub fn size(self) -> usize {
        match self {
            Self::Options(_, units) => 8 + 8 * usize::from(units),
            Self::Auth(units) => 8 + 4 * usize::from(units),
            Self::Fragment(_) => 8,
        }
    }

    fn bytes(self, next: u8) -> Vec<u8> {
        let mut bytes = match self {
            Self::Options(_, units) | Self::Auth(units) => vec![next, units],
            Self::Fragment(field) => {
                let [high, low] = field.to_be_bytes();
                // The second byte is reserved, and no length.
                vec![next, 0x77, high, low, 1, 2, 3, 4]
            }
        };
        bytes.resize(self.size(), FILL);
        bytes
    }
}

/// These extension headers one after the other, the last of which names `last`. Also returns the
/// number that names the first one.
pub fn chain(extensions: &[Extension], last: u8) -> (u8, Vec<u8>) {
    let mut next = last;
    let mut bytes = Vec::new();
    for extension in extensions.iter().rev() {
        bytes.splice(0..0, extension.bytes(next));
        next = extension.number();
    }
    (next, bytes)
}
