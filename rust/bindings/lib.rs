// SPDX-License-Identifier: GPL-2.0

//! Bindings to the C networking code that the kernel crate's own bindings lack.
//!
//! A type that `kernel::bindings` has is taken from there, so that there is one `sk_buff` and one
//! `net`; the glob import below brings those in, and what bindgen generated here comes on top.
//!
//! Only `net`, the crate of the safe abstractions, may use this crate.

#![allow(unknown_lints)]
#![allow(
    clippy::all,
    clippy::cast_lossless,
    clippy::multiple_unsafe_ops_per_block,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unnecessary_transmutes,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]

mod raw {
    pub use kernel::bindings::*;

    use kernel::ffi;
    use pin_init::{MaybeZeroable, Zeroable};

    type __kernel_size_t = usize;
    type __kernel_ssize_t = isize;
    type __kernel_ptrdiff_t = isize;

    // SAFETY: `__BindgenBitfieldUnit<Storage>` is a newtype around `Storage`.
    unsafe impl<Storage> Zeroable for __BindgenBitfieldUnit<Storage> where Storage: Zeroable {}

    // Kbuild sets the path.
    include!(concat!(env!("NFRUST_BINDINGS"), "/generated.rs"));
}

pub use raw::*;
