// SPDX-License-Identifier: GPL-2.0

//! Connections that conntrack follows, `struct nf_conn`.
//!
//! C header: [`include/net/netfilter/nf_conntrack.h`](srctree/include/net/netfilter/nf_conntrack.h)

use crate::seldom;
use core::{
    mem::offset_of,
    ptr, //
};
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
    /// An error about, or a relative of, a connection, in its original direction: `IP_CT_RELATED`.
    pub const RELATED: Self = Self(bindings::ip_conntrack_info_IP_CT_RELATED as usize);

    /// Whether the packet is about a connection, or a relative of one, in any direction.
    #[inline]
    pub fn is_related(self) -> bool {
        self == Self::RELATED || self == Self::RELATED_REPLY
    }

    /// The direction of the packet: `CTINFO2DIR()`.
    #[inline]
    pub fn direction(self) -> Direction {
        if self.0 >= bindings::ip_conntrack_info_IP_CT_IS_REPLY as usize {
            Direction::Reply
        } else {
            Direction::Original
        }
    }

    /// The value for C.
    #[inline]
    pub(crate) fn raw(self) -> bindings::ip_conntrack_info {
        self.0 as bindings::ip_conntrack_info
    }
}

/// A direction of a connection, `enum ip_conntrack_dir`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Direction {
    /// From whom opened it.
    Original = bindings::ip_conntrack_dir_IP_CT_DIR_ORIGINAL as usize,
    /// To whom opened it.
    Reply = bindings::ip_conntrack_dir_IP_CT_DIR_REPLY as usize,
}

impl Direction {
    /// The opposite one.
    #[inline]
    pub fn other(self) -> Self {
        match self {
            Self::Original => Self::Reply,
            Self::Reply => Self::Original,
        }
    }
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

    /// The connection in `skb->_nfct`, if the packet's place in it is `info`.
    ///
    /// # Safety
    ///
    /// As for [`from_nfct()`](Self::from_nfct).
    #[inline(always)]
    pub(crate) unsafe fn from_nfct_as<'a>(nfct: usize, info: CtInfo) -> Option<&'a Self> {
        const INFOMASK: usize = bindings::RUST_CONST_HELPER_NFCT_INFOMASK;

        // The place first: most packets have another one, and then nothing else is to be done.
        if nfct & INFOMASK != info.0 {
            return None;
        }
        seldom();
        // SAFETY: By the requirement on this function.
        unsafe { Self::from_nfct(nfct) }.1
    }

    /// Whether the source of its packets was translated: `IPS_SRC_NAT_DONE`.
    #[inline]
    pub fn src_nat_done(&self) -> bool {
        // SAFETY: The connection is valid.
        let status = unsafe { &raw const (*self.0.get()).status };
        // SAFETY: As above; other CPUs set bits meanwhile, so it is read once.
        let status = unsafe { status.read_volatile() };
        status & bindings::ip_conntrack_status_IPS_SRC_NAT_DONE as usize != 0
    }

    /// Who opened it, as the opener sees itself: the source of the original direction. This side
    /// of a connection never changes, NAT or not.
    #[inline]
    pub fn original_source(&self) -> &Endpoint {
        self.tuple(Direction::Original).source()
    }

    /// What packets of one direction look like when they come in.
    #[inline]
    pub fn tuple(&self, direction: Direction) -> &Tuple {
        // SAFETY: The connection is valid, and there are two tuples.
        let tuple = unsafe { &raw const (*self.0.get()).tuplehash[direction as usize].tuple };
        // SAFETY: As above; the wrapper is transparent. The reply's may be rewritten by NAT while
        // the connection is new, which only the packet that carries it does.
        unsafe { &*tuple.cast() }
    }
}

/// The addresses and ports of one direction of a connection: `struct nf_conntrack_tuple`.
#[repr(transparent)]
pub struct Tuple(bindings::nf_conntrack_tuple);

impl Tuple {
    /// The sender.
    #[inline]
    pub fn source(&self) -> &Endpoint {
        // SAFETY: The wrapper is transparent.
        unsafe { &*(&raw const self.0.src).cast() }
    }

    /// The receiver.
    #[inline]
    pub fn dest(&self) -> &Endpoint {
        const {
            assert!(offset_of!(bindings::nf_conntrack_man, u3) == 0);
            assert!(
                offset_of!(bindings::nf_conntrack_man, u)
                    == offset_of!(bindings::nf_conntrack_tuple__bindgen_ty_1, u)
            );
        }
        // SAFETY: The wrapper is transparent, and both ends begin with an address and a port, at
        // the same offsets, which is all that an `Endpoint` is read for.
        unsafe { &*(&raw const self.0.dst).cast() }
    }

    /// The protocol, `IPPROTO_*`.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.0.dst.protonum
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
