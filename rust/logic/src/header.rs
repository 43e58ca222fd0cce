// SPDX-License-Identifier: GPL-2.0

//! Bounds-checked access to the headers of a packet that may not be in one piece.

use core::mem::MaybeUninit;

/// Room for a header that is not in one piece; what is in the linear part never gets here.
pub struct Scratch<const N: usize>(MaybeUninit<[u8; N]>);

impl<const N: usize> Scratch<N> {
    /// Room that is not yet filled. Costs no instruction.
    #[inline]
    pub const fn new() -> Self {
        Self(MaybeUninit::uninit())
    }

    /// Fills it.
    #[inline]
    pub fn fill(&mut self, bytes: [u8; N]) -> &[u8; N] {
        self.0.write(bytes)
    }

    /// The room itself, for a filler that writes through a pointer.
    #[inline]
    pub fn room(&mut self) -> &mut MaybeUninit<[u8; N]> {
        &mut self.0
    }
}

impl<const N: usize> Default for Scratch<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// A packet whose headers are read by offset. The packet decides what offset 0 is; for an
/// `sk_buff` it is `skb->data`.
pub trait Headers {
    /// `N` bytes at `offset`: in place where they are linear, else copied to `scratch`. `None`
    /// where the packet ends earlier. The semantics of `skb_header_pointer()`.
    fn header<'a, const N: usize>(
        &'a self,
        offset: u32,
        scratch: &'a mut Scratch<N>,
    ) -> Option<&'a [u8; N]>;
}
