// SPDX-License-Identifier: GPL-2.0

//! Packets, `struct sk_buff`.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use crate::{
    conntrack::{Conn, CtInfo},
    dst::{Dst, OwnedDst},
    sock::Sock, //
};
use kernel::{
    error::to_result,
    prelude::*,
    types::Opaque, //
};
use logic::header::{Headers, Scratch};
use nf_bindings as bindings;

/// Set in `skb->_skb_refdst` where the packet has no reference to its route: `SKB_DST_NOREF`.
const REFDST_NOREF: usize = 1;

/// A packet.
///
/// A header is a borrow of the packet, and whatever may move a packet's data (a pull, a BPF
/// program that may pull) takes the packet mutably. So a header that was looked at before cannot
/// be used after.
#[repr(transparent)]
pub struct SkBuff(Opaque<bindings::sk_buff>);

impl SkBuff {
    /// Wraps a pointer from C.
    ///
    /// # Safety
    ///
    /// `ptr` must point to a valid packet whose data nobody else moves or frees during `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw_mut<'a>(ptr: *mut bindings::sk_buff) -> &'a mut Self {
        // SAFETY: By the requirement on this function; the wrapper is transparent.
        unsafe { &mut *ptr.cast() }
    }

    /// The pointer for C.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::sk_buff {
        self.0.get()
    }

    /// The C structure. All that is read through this is stable while we hold the packet.
    #[inline]
    fn fields(&self) -> &bindings::sk_buff {
        // SAFETY: The packet is valid by the type's construction, and it is ours: nobody writes
        // these fields meanwhile, except through `&mut self`.
        unsafe { &*self.as_raw() }
    }

    /// A field that C has in an anonymous union, by its offset.
    #[inline]
    fn field<T>(&self, offset: usize) -> *mut T {
        self.as_raw().cast::<u8>().wrapping_add(offset).cast()
    }

    /// The route, and in the lowest bit whether there is no reference to it.
    #[inline]
    fn refdst(&self) -> usize {
        // SAFETY: The field is at that offset, of this size, which C checked.
        unsafe {
            self.field::<usize>(bindings::RUST_OFFSETOF_sk_buff__skb_refdst)
                .read()
        }
    }

    /// The network header, `skb_network_header()`.
    #[inline]
    pub(crate) fn network_header(&self) -> *const u8 {
        let offset = self.field::<u16>(bindings::RUST_OFFSETOF_sk_buff_network_header);
        // SAFETY: The field is at that offset, of this size, which C checked.
        let offset = unsafe { offset.read() };
        self.fields().head.wrapping_add(usize::from(offset))
    }

    /// The socket that the packet belongs to, `skb->sk`.
    #[inline]
    pub fn sock(&self) -> Option<&Sock> {
        // SAFETY: NULL, or a socket that the packet keeps; the wrapper is transparent.
        unsafe { self.fields().sk.cast::<Sock>().as_ref() }
    }

    /// The ethertype, `skb->protocol`, network byte order.
    #[inline]
    pub(crate) fn protocol(&self) -> u16 {
        let field = self.field::<u16>(bindings::RUST_OFFSETOF_sk_buff_protocol);
        // SAFETY: The field is at that offset, of this size, which C checked.
        unsafe { field.read() }
    }

    /// Takes the packet from its socket: `skb_orphan()`.
    #[inline]
    pub fn orphan(&mut self) {
        let destructor = self.field::<Option<unsafe extern "C" fn(*mut bindings::sk_buff)>>(
            bindings::RUST_OFFSETOF_sk_buff_destructor,
        );
        // SAFETY: The field is at that offset, and the packet is ours.
        if let Some(destroy) = unsafe { destructor.read() } {
            // SAFETY: It was put there for this packet, and is called once.
            unsafe { destroy(self.as_raw()) };
            // SAFETY: As above.
            unsafe { destructor.write(None) };
            // SAFETY: The packet is ours.
            unsafe { (*self.as_raw()).sk = core::ptr::null_mut() };
        }
    }

    /// The packet's route, `skb_dst()`.
    #[inline]
    pub fn dst(&self) -> Option<&Dst> {
        let dst = core::ptr::with_exposed_provenance::<Dst>(self.refdst() & !REFDST_NOREF);
        // SAFETY: NULL, or a route that the packet keeps, by a reference or by the RCU section
        // that it is in; the wrapper is transparent.
        unsafe { dst.as_ref() }
    }

    /// Takes the packet's route from it: `skb_dst_drop()`.
    #[inline]
    pub fn drop_dst(&mut self) {
        let refdst = self.refdst();
        if refdst == 0 {
            return;
        }
        if refdst & REFDST_NOREF == 0 {
            // SAFETY: The packet has a reference to this route, which is given up here.
            unsafe { bindings::dst_release(core::ptr::with_exposed_provenance_mut(refdst)) };
        }
        let field = self.field::<usize>(bindings::RUST_OFFSETOF_sk_buff__skb_refdst);
        // SAFETY: The field is at that offset, and the packet is ours.
        unsafe { field.write(0) };
    }

    /// Gives the packet another route.
    #[inline]
    pub fn set_dst(&mut self, dst: OwnedDst) {
        self.drop_dst();
        // SAFETY: The packet is ours.
        let skb = unsafe { &mut *self.as_raw() };
        // SAFETY: The union is a group of fields under two names.
        let headers = unsafe { skb.__bindgen_anon_4.headers.as_mut() };
        // GRO may not take the short way with a packet that has a route.
        headers.set_slow_gro(1);
        let field = self.field::<usize>(bindings::RUST_OFFSETOF_sk_buff__skb_refdst);
        // SAFETY: The field is at that offset; the packet takes the reference over.
        unsafe { field.write(dst.into_raw().expose_provenance()) };
    }

    /// The room before the data, bytes: `skb_headroom()`.
    #[inline]
    pub fn headroom(&self) -> u32 {
        let skb = self.fields();
        skb.data.addr().wrapping_sub(skb.head.addr()) as u32
    }

    /// Makes `more` bytes more room before the data: `pskb_expand_head()`. `ENOMEM`.
    pub fn expand_head(&mut self, more: u32) -> Result {
        // SAFETY: The packet is ours, and nothing borrows its data.
        to_result(unsafe {
            bindings::pskb_expand_head(self.as_raw(), more as i32, 0, bindings::GFP_ATOMIC)
        })
        .map_err(|_| ENOMEM)
    }

    /// The connection that conntrack attached, if the packet has this place in it.
    #[inline(always)]
    pub fn conntrack_as(&self, info: CtInfo) -> Option<&Conn> {
        // SAFETY: The packet holds a reference to its connection.
        unsafe { Conn::from_nfct_as(self.fields()._nfct, info) }
    }

    /// The layer's own data in the packet, `skb->cb`, as a `T`.
    #[inline]
    pub(crate) fn control_block<T>(&self) -> *const T {
        const { assert!(size_of::<T>() <= 48) };
        (&raw const self.fields().cb).cast()
    }

    /// The connection that conntrack attached, with the packet's place in it: `nf_ct_get()`.
    #[inline]
    pub fn conntrack(&self) -> (CtInfo, Option<&Conn>) {
        // SAFETY: The packet holds a reference to its connection.
        unsafe { Conn::from_nfct(self.fields()._nfct) }
    }
}

impl SkBuff {
    /// `N` bytes at `offset`, if they are in the linear part.
    #[inline(always)]
    fn linear_header<const N: usize>(&self, offset: u32) -> Option<&[u8; N]> {
        let skb = self.fields();
        let linear = skb.len.wrapping_sub(skb.data_len);

        // Signed, as C's: an offset beyond the linear part gives a negative room.
        if (linear.wrapping_sub(offset) as i32) < const { N as i32 } {
            return None;
        }
        let header = skb.data.wrapping_add(offset as usize).cast::<[u8; N]>();
        // SAFETY: `offset + N` bytes lie in the linear part, so this is no null pointer.
        unsafe { core::hint::assert_unchecked(!header.is_null()) };
        // SAFETY: As above; nothing moves the linear part while the packet is borrowed, and an
        // array of bytes has no alignment to keep.
        Some(unsafe { &*header })
    }

    /// The slow half of `skb_header_pointer()`: collects a header that is not in one piece.
    #[cold]
    #[inline(never)]
    fn copy_header<'a, const N: usize>(
        &'a self,
        offset: u32,
        scratch: &'a mut Scratch<N>,
    ) -> Option<&'a [u8; N]> {
        let room = scratch.room();
        // SAFETY: The packet is valid and there is room for `N` bytes.
        let err = unsafe {
            bindings::skb_copy_bits(
                self.as_raw(),
                offset as i32,
                room.as_mut_ptr().cast(),
                N as i32,
            )
        };
        if err < 0 {
            return None;
        }
        // SAFETY: `skb_copy_bits()` succeeded, so it wrote all `N` bytes.
        Some(unsafe { room.assume_init_ref() })
    }
}

impl Headers for SkBuff {
    #[inline(always)]
    fn header<'a, const N: usize>(
        &'a self,
        offset: u32,
        scratch: &'a mut Scratch<N>,
    ) -> Option<&'a [u8; N]> {
        match self.linear_header(offset) {
            Some(header) => Some(header),
            None => self.copy_header(offset, scratch),
        }
    }
}

/// The linear part of a packet alone: no header of it has to be collected. For a first try, after
/// which whatever needs a call and room on the stack can be left to a function of its own.
pub(crate) struct Linear<'a>(pub(crate) &'a SkBuff);

impl Headers for Linear<'_> {
    #[inline(always)]
    fn header<'a, const N: usize>(
        &'a self,
        offset: u32,
        _scratch: &'a mut Scratch<N>,
    ) -> Option<&'a [u8; N]> {
        self.0.linear_header(offset)
    }
}
