// SPDX-License-Identifier: GPL-2.0

//! Sockets, `struct sock`.
//!
//! Two questions decide what may be done with a socket that a packet's path came across, and both
//! are types here:
//!
//! - Who keeps it? UDP sockets and TCP listeners are freed after an RCU grace period, so one that
//!   was found under the RCU read lock can be used until the section ends, without a reference: a
//!   `&'rcu FullSock`. The memory of established TCP sockets is reused at once; those are found
//!   with a reference, an [`OwnedSock`], and give it back when dropped.
//! - What is it? A connection in TIME_WAIT or NEW_SYN_RECV is a smaller structure that begins like
//!   a `sock` and has few of its fields. Those are fields of a [`FullSock`] here.
//!
//! C header: [`include/net/sock.h`](srctree/include/net/sock.h)

use crate::{
    cgroup,
    netns::Net,
    rcu, //
};
use core::{
    ops::Deref,
    ptr::NonNull, //
};
use kernel::types::Opaque;
use logic::byteorder::Be16;
use nf_bindings as bindings;

/// A socket of any kind, full or not.
///
/// Other CPUs change a socket under our hands, so no field is reached through a Rust reference;
/// each is read once.
#[repr(transparent)]
pub struct Sock(Opaque<bindings::sock>);

/// A socket that has all the fields of a `struct sock`: not in TIME_WAIT, not in NEW_SYN_RECV.
#[repr(transparent)]
pub struct FullSock(Sock);

/// What a socket is, by its state. The state of the two small ones never changes.
pub enum Kind<'a> {
    /// A full socket.
    Full(&'a FullSock),
    /// A connection in TIME_WAIT.
    TimeWait(&'a TimeWaitSock),
    /// A connection whose handshake is not yet complete.
    NewSynRecv(&'a RequestSock),
}

/// `struct inet_timewait_sock`.
#[repr(transparent)]
pub struct TimeWaitSock(Opaque<bindings::inet_timewait_sock>);

/// `struct inet_request_sock`.
#[repr(transparent)]
pub struct RequestSock(Opaque<bindings::inet_request_sock>);

impl TimeWaitSock {
    #[inline]
    fn is_transparent(&self) -> bool {
        // SAFETY: The structure is valid, and the flag is set before others see it.
        let tw = unsafe { &*self.0.get() };
        tw.tw_transparent() != 0
    }
}

impl RequestSock {
    #[inline]
    fn is_transparent(&self) -> bool {
        // SAFETY: The structure is valid, and the flag is set before others see it.
        let req = unsafe { &*self.0.get() };
        req.no_srccheck() != 0
    }
}

/// Reads a field of a socket that others write: `READ_ONCE()`. For the methods below, whose
/// sockets are valid and have the field.
macro_rules! read_once {
    ($ptr:expr, $($field:tt)+) => {{
        // SAFETY: The socket is valid, and has the field.
        let field = unsafe { &raw const (*$ptr).$($field)+ };
        // SAFETY: As above.
        unsafe { field.read_volatile() }
    }};
}

impl Sock {
    /// The pointer for C.
    #[inline]
    fn as_raw(&self) -> *mut bindings::sock {
        self.0.get()
    }

    /// The state, a `TCP_*` value, also for protocols other than TCP.
    #[inline]
    fn state(&self) -> u32 {
        // All kinds of sockets have it.
        u32::from(read_once!(self.as_raw(), __sk_common.skc_state))
    }

    /// Whether it belongs to this namespace: `net_eq(sock_net(sk), net)`.
    #[inline]
    pub fn is_in(&self, net: &Net) -> bool {
        // All kinds of sockets have it.
        read_once!(self.as_raw(), __sk_common.skc_net.net) == net.as_raw()
    }

    /// The port of the peer, `sk->sk_dport`; 0 where there is none.
    #[inline]
    pub fn dest_port(&self) -> Be16 {
        let field = self
            .as_raw()
            .cast::<u8>()
            .wrapping_add(bindings::RUST_OFFSETOF_sock_sk_dport);
        // SAFETY: All kinds of sockets have the field, at that offset, 16 bits wide, which C
        // checked.
        Be16::from_raw(unsafe { field.cast::<u16>().read_volatile() })
    }

    /// What it is.
    #[inline]
    pub fn kind(&self) -> Kind<'_> {
        let ptr = self.as_raw();
        match self.state() {
            // SAFETY: A socket in this state is one of these structures, and stays one.
            bindings::TCP_TIME_WAIT => Kind::TimeWait(unsafe { &*ptr.cast() }),
            // SAFETY: As above.
            bindings::TCP_NEW_SYN_RECV => Kind::NewSynRecv(unsafe { &*ptr.cast() }),
            // SAFETY: A socket in any other state is a full one, and stays one; the wrappers are
            // transparent.
            _ => Kind::Full(unsafe { &*ptr.cast() }),
        }
    }

    /// The full socket, if it is one: `sk_fullsock()`.
    #[inline]
    pub fn full(&self) -> Option<&FullSock> {
        const SMALL: u32 = 1 << bindings::TCP_TIME_WAIT | 1 << bindings::TCP_NEW_SYN_RECV;

        if 1u32.wrapping_shl(self.state()) & SMALL != 0 {
            return None;
        }
        // SAFETY: As in `kind()`.
        Some(unsafe { &*self.as_raw().cast() })
    }

    /// Whether it may use addresses that are not local: `inet_sk_transparent()`.
    ///
    /// A socket of another family than the two of IP is not; it has no such flag.
    #[inline(always)]
    pub fn is_transparent(&self) -> bool {
        match self.kind() {
            Kind::TimeWait(tw) => tw.is_transparent(),
            Kind::NewSynRecv(req) => req.is_transparent(),
            Kind::Full(sk) => sk.is_transparent(),
        }
    }
}

impl Deref for FullSock {
    type Target = Sock;

    #[inline]
    fn deref(&self) -> &Sock {
        &self.0
    }
}

impl FullSock {
    /// Borrows a UDP socket or a TCP listener for an RCU read section. Not if there is none, or if
    /// its last reference is gone: then it is being destroyed, and a lookup that takes a reference
    /// finds nothing.
    ///
    /// # Safety
    ///
    /// `ptr` must be NULL, or point to a full socket that is freed after an RCU grace period and
    /// was found in this section.
    #[inline(always)]
    pub(crate) unsafe fn borrow<'rcu>(
        _rcu: rcu::Section<'rcu>,
        ptr: *mut bindings::sock,
    ) -> Result<&'rcu Self, NotFound> {
        if ptr.is_null() {
            return Err(NotFound::NoSocket);
        }
        // SAFETY: The socket cannot be freed before the section ends, and the section lasts for
        // `'rcu`; the wrappers are transparent.
        let sock: &'rcu Self = unsafe { &*ptr.cast() };
        if read_once!(ptr, __sk_common.skc_refcnt.refs.counter) == 0 {
            return Err(NotFound::Dying);
        }
        Ok(sock)
    }

    /// `SO_MARK` of the socket, `sk->sk_mark`.
    #[inline]
    pub fn mark(&self) -> u32 {
        read_once!(self.0.as_raw(), sk_mark)
    }

    /// Whether it may use addresses that are not local, as [`Sock::is_transparent()`].
    #[inline]
    pub fn is_transparent(&self) -> bool {
        self.inet_flag(bindings::INET_FLAGS_TRANSPARENT)
    }

    /// A flag of `inet_sk(sk)->inet_flags`; false for a socket that is no inet socket.
    #[inline]
    fn inet_flag(&self, bit: u32) -> bool {
        // It never changes between inet and others.
        let family = u32::from(read_once!(self.0.as_raw(), __sk_common.skc_family));
        if family != bindings::AF_INET && family != bindings::AF_INET6 {
            return false;
        }
        // A full socket of these families is the beginning of an `inet_sock`.
        let inet = self.0.as_raw().cast::<bindings::inet_sock>();
        read_once!(inet, inet_flags) & 1usize.wrapping_shl(bit) != 0
    }

    /// The IPv4 address it is bound to, network byte order: `inet_rcv_saddr`.
    #[inline]
    pub fn rcv_saddr_v4(&self) -> u32 {
        let field = self
            .0
            .as_raw()
            .cast::<u8>()
            .wrapping_add(bindings::RUST_OFFSETOF_sock_sk_rcv_saddr);
        // SAFETY: The field is at that offset, 32 bits wide, which C checked.
        unsafe { field.cast::<u32>().read_volatile() }
    }

    /// The IPv6 address it is bound to, `sk_v6_rcv_saddr`, in four words. It may change while it is
    /// read, in C as here.
    #[inline]
    pub fn rcv_saddr_v6(&self) -> [u32; 4] {
        let addr = read_once!(self.0.as_raw(), __sk_common.skc_v6_rcv_saddr);
        // SAFETY: Each member of the union is 16 bytes of plain data.
        unsafe { addr.in6_u.u6_addr32 }
    }

    /// The id of the socket's cgroup's ancestor at `level` (the root is at 0). `None` if its
    /// cgroup is not that deep.
    #[cfg(CONFIG_SOCK_CGROUP_DATA)]
    #[inline]
    pub fn cgroup_ancestor_id(&self, level: u8) -> Option<u64> {
        let cgrp = read_once!(self.0.as_raw(), sk_cgrp_data.cgroup);
        // SAFETY: A socket keeps its cgroup until it is freed.
        unsafe { cgroup::ancestor_id(cgrp, level) }
    }
}

/// A socket that we hold a reference to. Dropping it releases the reference.
///
/// # Invariants
///
/// The pointer is to a valid socket of any kind, and one of its references is ours.
pub struct OwnedSock(NonNull<Sock>);

impl OwnedSock {
    /// Takes over a reference.
    ///
    /// # Safety
    ///
    /// `ptr` must be NULL, or point to a socket, one reference to which becomes the result's.
    #[inline]
    pub(crate) unsafe fn from_raw(ptr: *mut bindings::sock) -> Option<Self> {
        // INVARIANT: By the requirement on this function.
        NonNull::new(ptr.cast()).map(Self)
    }
}

impl Deref for OwnedSock {
    type Target = Sock;

    #[inline]
    fn deref(&self) -> &Sock {
        // SAFETY: By the type's invariants the socket is valid, and our reference keeps it.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for OwnedSock {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type's invariants a reference is ours to give back, and this function is
        // for sockets of any kind.
        unsafe { bindings::sock_gen_put(self.0.as_ptr().cast()) }
    }
}

/// A socket that was found, to be looked at: full or not, and if it is known to be full by the way
/// in which it was found.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    sock: &'a Sock,
    known_full: bool,
}

impl<'a> Candidate<'a> {
    /// The full socket, if it is one.
    #[inline(always)]
    pub fn full(self) -> Option<&'a FullSock> {
        if self.known_full {
            // SAFETY: It was made from a full socket; the wrapper is transparent.
            return Some(unsafe { &*self.sock.as_raw().cast() });
        }
        self.sock.full()
    }

    /// [`Sock::is_transparent()`].
    #[inline(always)]
    pub fn is_transparent(self) -> bool {
        match self.known_full {
            true => self.full().is_some_and(|full| full.is_transparent()),
            false => self.sock.is_transparent(),
        }
    }
}

impl<'a> From<&'a FullSock> for Candidate<'a> {
    #[inline(always)]
    fn from(sock: &'a FullSock) -> Self {
        Self {
            sock: &sock.0,
            known_full: true,
        }
    }
}

impl<'a> From<&'a Sock> for Candidate<'a> {
    #[inline(always)]
    fn from(sock: &'a Sock) -> Self {
        Self {
            sock,
            known_full: false,
        }
    }
}

/// Why a lookup found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// There is no such socket.
    NoSocket,
    /// There is one whose last reference is gone.
    Dying,
}
