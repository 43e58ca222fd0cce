// SPDX-License-Identifier: GPL-2.0

//! Error codes from C, on a packet's path.
//!
//! What the kernel crate has for this, `to_result()` and `from_err_ptr()`, is a call each.

use core::ptr::NonNull;
use kernel::{
    error::code::EINVAL,
    prelude::*, //
};

/// `MAX_ERRNO`: pointers from `-MAX_ERRNO` on are error codes.
const MAX_ERRNO: usize = 4095;

/// A C function's result that is negative for an error.
#[inline(always)]
pub(crate) fn check(result: i32) -> Result {
    if result < 0 {
        return Err(Error::from_errno(result));
    }
    Ok(())
}

/// A C function's result that is a pointer or an error code: `IS_ERR()`, `PTR_ERR()`. NULL, which
/// functions that are used like this do not return, is `EINVAL`.
#[inline(always)]
pub(crate) fn check_ptr<T>(ptr: *mut T) -> Result<NonNull<T>> {
    let value = ptr.addr();
    if value >= MAX_ERRNO.wrapping_neg() {
        return Err(Error::from_errno(value as i32));
    }
    NonNull::new(ptr).ok_or(EINVAL)
}
