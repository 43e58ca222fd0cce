// SPDX-License-Identifier: GPL-2.0

//! Packets, `struct sk_buff`.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use crate::conntrack::{Conn, CtInfo};
use kernel::types::Opaque;
use logic::header::{Headers, Scratch};
use nf_bindings as bindings;

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

    /// The network header, `skb_network_header()`.
    #[inline]
    pub(crate) fn network_header(&self) -> *const u8 {
        let offset = self
            .as_raw()
            .cast::<u8>()
            .wrapping_add(bindings::RUST_OFFSETOF_sk_buff_network_header)
            .cast::<u16>();
        // SAFETY: The field is at that offset, a `u16`, which C checked.
        let offset = unsafe { offset.read() };
        self.fields().head.wrapping_add(usize::from(offset))
    }

    /// The connection that conntrack attached, with the packet's place in it: `nf_ct_get()`.
    #[inline]
    pub fn conntrack(&self) -> (CtInfo, Option<&Conn>) {
        // SAFETY: The packet holds a reference to its connection.
        unsafe { Conn::from_nfct(self.fields()._nfct) }
    }
}

impl Headers for SkBuff {
    #[inline(always)]
    fn header<'a, const N: usize>(
        &'a self,
        offset: u32,
        scratch: &'a mut Scratch<N>,
    ) -> Option<&'a [u8; N]> {
        let skb = self.fields();
        let linear = skb.len.wrapping_sub(skb.data_len);

        // Signed, as C's: an offset beyond the linear part gives a negative room.
        if (linear.wrapping_sub(offset) as i32) >= const { N as i32 } {
            let header = skb.data.wrapping_add(offset as usize).cast::<[u8; N]>();
            // SAFETY: `offset + N` bytes lie in the linear part, so this is no null pointer.
            unsafe { core::hint::assert_unchecked(!header.is_null()) };
            // SAFETY: As above; nothing moves the linear part while the packet is borrowed, and an
            // array of bytes has no alignment to keep.
            return Some(unsafe { &*header });
        }
        self.copy_header(offset, scratch)
    }
}

impl SkBuff {
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
