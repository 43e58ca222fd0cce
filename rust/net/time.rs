// SPDX-License-Identifier: GPL-2.0

//! Clocks.
//!
//! C header: [`include/linux/timekeeping.h`](srctree/include/linux/timekeeping.h)

use nf_bindings as bindings;

/// The real time, seconds since 1970: `ktime_get_real_seconds()`. Any context.
#[inline]
pub fn real_seconds() -> i64 {
    // SAFETY: The function has no requirements.
    unsafe { bindings::ktime_get_real_seconds() }
}
