// SPDX-License-Identifier: GPL-2.0

//! Registers: where an expression leaves its result for the next.

use super::Ctx;
use crate::netlink::{Attrs, DumpMessage};
use core::marker::PhantomData;
use kernel::{
    error::to_result,
    prelude::*, //
};
use nf_bindings as bindings;

/// A value that fits registers: how it is stored in 32-bit words.
pub trait Value: Copy {
    /// The words that it takes.
    type Words: AsRef<[u32]>;

    /// The words, as C stores them.
    fn words(self) -> Self::Words;
}

impl Value for u8 {
    type Words = [u32; 1];

    /// All of the word is written: `nft_reg_store8()`.
    #[inline]
    fn words(self) -> [u32; 1] {
        [u32::from_ne_bytes([self, 0, 0, 0])]
    }
}

impl Value for u32 {
    type Words = [u32; 1];

    #[inline]
    fn words(self) -> [u32; 1] {
        [self]
    }
}

impl Value for u64 {
    type Words = [u32; 2];

    #[inline]
    fn words(self) -> [u32; 2] {
        let [a, b, c, d, e, f, g, h] = self.to_ne_bytes();
        [
            u32::from_ne_bytes([a, b, c, d]),
            u32::from_ne_bytes([e, f, g, h]),
        ]
    }
}

/// A destination register that nf_tables has checked: it has room for a `T`.
///
/// # Invariants
///
/// All words of a `T` at index `first` are data registers.
#[derive(Clone, Copy)]
pub struct DestReg<T> {
    first: u8,
    _value: PhantomData<T>,
}

impl<T: Value> DestReg<T> {
    /// The register that the attribute `attr` names. `EINVAL` if the attribute is missing; else
    /// the errno of `nft_parse_register_store()`: `EINVAL` for one that is none, `ERANGE` for one
    /// that has no room.
    pub fn parse(ctx: &Ctx<'_>, attrs: &Attrs<'_>, attr: u32) -> Result<Self> {
        let mut first = 0u8;
        // SAFETY: The context and the attribute are valid during the request; the expression
        // stores plain data of this size, of which nothing has to be known before.
        to_result(unsafe {
            bindings::nft_parse_register_store(
                ctx.as_raw(),
                attrs.required(attr)?,
                &mut first,
                core::ptr::null(),
                bindings::nft_data_types_NFT_DATA_VALUE,
                size_of::<T>() as u32,
            )
        })?;
        // INVARIANT: C has checked this register with this size.
        Ok(Self {
            first,
            _value: PhantomData,
        })
    }

    /// Adds the attribute that names the register.
    pub fn dump(&self, message: &mut DumpMessage<'_>, attr: u32) -> Result {
        // SAFETY: The message is valid.
        to_result(unsafe {
            bindings::nft_dump_register(message.as_raw(), attr, u32::from(self.first))
        })
    }
}

/// The registers of a rule under evaluation.
#[repr(transparent)]
pub struct Regs(bindings::nft_regs);

impl Regs {
    /// Wraps a pointer from C.
    ///
    /// # Safety
    ///
    /// `ptr` must point to registers that nobody else uses during `'a`.
    #[inline]
    pub(super) unsafe fn from_raw<'a>(ptr: *mut bindings::nft_regs) -> &'a mut Self {
        // SAFETY: By the requirement on this function; the wrapper is transparent.
        unsafe { &mut *ptr.cast() }
    }

    /// Stores a result.
    #[inline]
    pub fn store<T: Value>(&mut self, reg: DestReg<T>, value: T) {
        let data = (&raw mut self.0).cast::<u32>();
        let words = value.words();
        for (i, word) in words.as_ref().iter().enumerate() {
            let slot = data.wrapping_add(usize::from(reg.first)).wrapping_add(i);
            // SAFETY: By the invariants of `DestReg` these words are data registers.
            unsafe { slot.write(*word) };
        }
    }

    /// Ends the rule, as an [`eval()`](super::Expr::eval) does that returns
    /// [`Break`](super::Break): `NFT_BREAK`. For one with nothing left to do afterwards.
    #[inline]
    pub fn set_break(&mut self) {
        let verdict = (&raw mut self.0).cast::<bindings::nft_verdict>();
        // SAFETY: The registers are a union of the verdict and of data.
        unsafe { (*verdict).code = bindings::nft_verdicts_NFT_BREAK as u32 };
    }
}
