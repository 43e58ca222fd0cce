// SPDX-License-Identifier: GPL-2.0

//! Packets that stand for several, until a device or GSO cuts them into segments, and what devices
//! can do.
//!
//! C header: [`include/net/gso.h`](srctree/include/net/gso.h)

use crate::skb::SkBuff;
use nf_bindings as bindings;

/// What a device can do, or what is asked of it: `netdev_features_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features(u64);

impl Features {
    /// Encrypts and decrypts ESP: `NETIF_F_HW_ESP`.
    pub const HW_ESP: Self = Self(bindings::RUST_CONST_HELPER_NETIF_F_HW_ESP);
    /// Fills in checksums of what it encrypts: `NETIF_F_HW_ESP_TX_CSUM`.
    pub const HW_ESP_TX_CSUM: Self = Self(bindings::RUST_CONST_HELPER_NETIF_F_HW_ESP_TX_CSUM);
    /// Takes packets that are not in one piece: `NETIF_F_SG`.
    pub const SG: Self = Self(bindings::RUST_CONST_HELPER_NETIF_F_SG);
    /// Takes packets that have others behind them: `NETIF_F_FRAGLIST`.
    pub const FRAGLIST: Self = Self(bindings::RUST_CONST_HELPER_NETIF_F_FRAGLIST);
    /// Fills in checksums, SCTP's too: `NETIF_F_CSUM_MASK`, `NETIF_F_SCTP_CRC`.
    pub const CHECKSUMS: Self = Self(
        bindings::RUST_CONST_HELPER_NETIF_F_CSUM_MASK
            | bindings::RUST_CONST_HELPER_NETIF_F_SCTP_CRC,
    );

    /// Takes a value from C.
    #[inline]
    pub(crate) const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The value for C.
    #[inline]
    pub(crate) const fn raw(self) -> u64 {
        self.0
    }

    /// Whether all of `other` are there.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// All but those of `other`.
    #[inline]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// What kind of packet the segments are of, `SKB_GSO_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GsoType(u32);

impl GsoType {
    /// With ESP's header in front: `SKB_GSO_ESP`.
    pub const ESP: Self = Self(bindings::SKB_GSO_ESP as u32);
    /// TCP over IPv4: `SKB_GSO_TCPV4`.
    pub const TCP_V4: Self = Self(bindings::SKB_GSO_TCPV4 as u32);
    /// TCP over IPv6: `SKB_GSO_TCPV6`.
    pub const TCP_V6: Self = Self(bindings::SKB_GSO_TCPV6 as u32);
    /// In IPv4: `SKB_GSO_IPXIP4`.
    pub const IN_V4: Self = Self(bindings::SKB_GSO_IPXIP4 as u32);
    /// In IPv6: `SKB_GSO_IPXIP6`.
    pub const IN_V6: Self = Self(bindings::SKB_GSO_IPXIP6 as u32);
}

/// What a packet's buffer keeps behind its data, `struct skb_shared_info`.
impl SkBuff {
    /// `skb_shinfo()`.
    #[inline]
    fn shared_info(&self) -> *mut bindings::skb_shared_info {
        self.end().cast()
    }

    /// Whether it stands for several packets: `skb_is_gso()`.
    #[inline]
    pub fn is_gso(&self) -> bool {
        // SAFETY: Each buffer has this behind its data; the packet is ours.
        unsafe { (*self.shared_info()).gso_size != 0 }
    }

    /// For how many.
    #[inline]
    pub fn gso_segments(&self) -> u16 {
        // SAFETY: Each buffer has this behind its data; the packet is ours.
        unsafe { (*self.shared_info()).gso_segs }
    }

    /// Whether the segments are of such a kind.
    #[inline]
    pub fn has_gso_type(&self, kind: GsoType) -> bool {
        // SAFETY: Each buffer has this behind its data; the packet is ours.
        let gso_type = unsafe { (*self.shared_info()).gso_type };
        gso_type & kind.0 != 0
    }

    /// Adds to what the segments are.
    #[inline]
    pub(crate) fn add_gso_type(&mut self, kind: GsoType) {
        // SAFETY: Each buffer has this behind its data; the packet is ours.
        unsafe { (*self.shared_info()).gso_type |= kind.0 };
    }

    /// Whether a device with such features could not take it as it lies: `skb_needs_linearize()`.
    #[inline]
    pub(crate) fn needs_linearize(&self, features: Features) -> bool {
        if !self.is_nonlinear() {
            return false;
        }
        // SAFETY: Each buffer has this behind its data; the packet is ours.
        let has_list = unsafe { !(*self.shared_info()).frag_list.is_null() };
        // SAFETY: As above.
        let has_pages = unsafe { (*self.shared_info()).nr_frags != 0 };
        (has_list && !features.has(Features::FRAGLIST))
            || (has_pages && !features.has(Features::SG))
    }
}
