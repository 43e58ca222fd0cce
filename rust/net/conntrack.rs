// SPDX-License-Identifier: GPL-2.0

//! Connections that conntrack follows, `struct nf_conn`.
//!
//! C header: [`include/net/netfilter/nf_conntrack.h`](srctree/include/net/netfilter/nf_conntrack.h)

use core::ptr;
use kernel::types::Opaque;
use logic::byteorder::Be16;
use nf_bindings as bindings;

/// The place of a packet in its connection, `enum ip_conntrack_info`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CtInfo(usize);

impl CtInfo {
    /// A packet of the reply direction: `IP_CT_ESTABLISHED_REPLY`.
    pub const ESTABLISHED_REPLY: Self =
        Self(bindings::ip_conntrack_info_IP_CT_ESTABLISHED_REPLY as usize);
    /// An error about, or a relative of, a connection, in its reply direction:
    /// `IP_CT_RELATED_REPLY`.
    pub const RELATED_REPLY: Self = Self(bindings::ip_conntrack_info_IP_CT_RELATED_REPLY as usize);
}

/// A connection.
#[repr(transparent)]
pub struct Conn(Opaque<bindings::nf_conn>);

impl Conn {
    /// Takes `skb->_nfct` apart.
    ///
    /// # Safety
    ///
    /// `nfct` must be the field of a packet that holds its connection during `'a`.
    #[inline]
    pub(crate) unsafe fn from_nfct<'a>(nfct: usize) -> (CtInfo, Option<&'a Self>) {
        const INFOMASK: usize = bindings::RUST_CONST_HELPER_NFCT_INFOMASK;

        let conn = ptr::with_exposed_provenance::<Self>(nfct & !INFOMASK);
        // SAFETY: Without the low bits it is NULL or a connection, by the requirement on this
        // function; the wrapper is transparent.
        (CtInfo(nfct & INFOMASK), unsafe { conn.as_ref() })
    }

    /// Whether the source of its packets was translated: `IPS_SRC_NAT_DONE`.
    #[inline]
    pub fn src_nat_done(&self) -> bool {
        // SAFETY: The connection is valid; other CPUs set bits meanwhile, so it is read once.
        let status = unsafe { (&raw const (*self.0.get()).status).read_volatile() };
        status & bindings::ip_conntrack_status_IPS_SRC_NAT_DONE as usize != 0
    }

    /// Who opened it, as the opener sees itself: the source of the original direction. This side
    /// of a connection never changes, NAT or not.
    #[inline]
    pub fn original_source(&self) -> &Endpoint {
        const ORIGINAL: usize = bindings::ip_conntrack_dir_IP_CT_DIR_ORIGINAL as usize;

        // SAFETY: The connection is valid, and nothing writes this tuple once a packet carries it.
        unsafe { &*(&raw const (*self.0.get()).tuplehash[ORIGINAL].tuple.src).cast() }
    }
}

/// One end of a connection: `struct nf_conntrack_man`.
#[repr(transparent)]
pub struct Endpoint(bindings::nf_conntrack_man);

impl Endpoint {
    /// The address of an IPv4 connection, network byte order.
    #[inline]
    pub fn addr_v4(&self) -> &[u8; 4] {
        // SAFETY: The union is larger, all of it is initialized, and bytes need no alignment.
        unsafe { &*(&raw const self.0.u3).cast() }
    }

    /// The address of an IPv6 connection.
    #[inline]
    pub fn addr_v6(&self) -> &[u8; 16] {
        // SAFETY: As for `addr_v4()`; the union is this large.
        unsafe { &*(&raw const self.0.u3).cast() }
    }

    /// The port of a TCP or UDP connection.
    #[inline]
    pub fn port(&self) -> Be16 {
        // SAFETY: All members of the union are 16 bits wide.
        Be16::from_raw(unsafe { self.0.u.all })
    }
}
