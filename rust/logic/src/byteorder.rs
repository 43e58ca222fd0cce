// SPDX-License-Identifier: GPL-2.0

//! Integers in network byte order.

/// A `__be16`: 16 bits as they are in the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Be16(u16);

/// A `__be32`: 32 bits as they are in the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Be32(u32);

macro_rules! big_endian {
    ($name:ident, $int:ident, $bytes:literal) => {
        impl $name {
            /// Takes the bytes as they stand in the packet.
            #[inline]
            pub const fn from_bytes(bytes: [u8; $bytes]) -> Self {
                Self($int::from_ne_bytes(bytes))
            }

            /// Takes the value of a C field of this type.
            #[inline]
            pub const fn from_raw(raw: $int) -> Self {
                Self(raw)
            }

            /// The value for a C field or argument of this type.
            #[inline]
            pub const fn raw(self) -> $int {
                self.0
            }

            /// The value in the machine's byte order, as `ntohs()` or `ntohl()`.
            #[inline]
            pub const fn to_host(self) -> $int {
                $int::from_be(self.0)
            }

            /// Makes it from a value in the machine's byte order, as `htons()` or `htonl()`.
            #[inline]
            pub const fn from_host(host: $int) -> Self {
                Self(host.to_be())
            }
        }
    };
}

big_endian!(Be16, u16, 2);
big_endian!(Be32, u32, 4);
