// SPDX-License-Identifier: GPL-2.0

//! Netfilter: where packets of the IP families are shown to modules.
//!
//! C header: [`include/linux/netfilter.h`](srctree/include/linux/netfilter.h)

pub mod hook;
pub mod ip;
pub mod nat;
pub mod nft;
pub mod socket;

use nf_bindings as bindings;

/// A protocol family as netfilter numbers them, `NFPROTO_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Family {
    /// IPv4 and IPv6 in one table.
    Inet = bindings::NFPROTO_INET as u8,
    /// IPv4.
    Ipv4 = bindings::NFPROTO_IPV4 as u8,
    /// IPv6.
    Ipv6 = bindings::NFPROTO_IPV6 as u8,
}

/// A set of hooks of the IP families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hooks(u32);

impl Hooks {
    /// `NF_INET_PRE_ROUTING`.
    pub const PRE_ROUTING: Self = Self(1 << bindings::nf_inet_hooks_NF_INET_PRE_ROUTING);
    /// `NF_INET_LOCAL_IN`.
    pub const LOCAL_IN: Self = Self(1 << bindings::nf_inet_hooks_NF_INET_LOCAL_IN);
    /// `NF_INET_LOCAL_OUT`.
    pub const LOCAL_OUT: Self = Self(1 << bindings::nf_inet_hooks_NF_INET_LOCAL_OUT);

    /// Both sets together.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// One bit a hook, as C has it.
    pub(crate) const fn mask(self) -> u32 {
        self.0
    }
}

/// A network device, `struct net_device`, as far as a hook looks at it.
#[repr(transparent)]
pub struct NetDevice(kernel::types::Opaque<bindings::net_device>);

impl NetDevice {
    /// The interface index.
    #[inline]
    pub fn ifindex(&self) -> i32 {
        // SAFETY: A device that a hook was given is valid during the hook.
        let ifindex = unsafe { &raw const (*self.0.get()).ifindex };
        // SAFETY: As above; it may change, with the namespace of the device, so it is read once.
        unsafe { ifindex.read_volatile() }
    }
}
