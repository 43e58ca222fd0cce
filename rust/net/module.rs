// SPDX-License-Identifier: GPL-2.0

//! Other modules.
//!
//! C header: [`include/linux/module.h`](srctree/include/linux/module.h)

use kernel::prelude::*;
use nf_bindings as bindings;

/// Whether a module called `name` is loaded, or about to be. `this` is any module: its own.
///
/// The answer may be stale when it arrives, and code that is built into the kernel is not seen.
pub fn is_loaded(this: &'static ThisModule, name: &CStr) -> bool {
    // SAFETY: A module that runs is valid, and so is the set that it is in.
    let kset = unsafe { (*this.as_ptr()).mkobj.kobj.kset };
    // SAFETY: The set is valid, the name is a string.
    let kobj = unsafe { bindings::kset_find_obj(kset, name.as_char_ptr()) };
    if kobj.is_null() {
        return false;
    }
    // SAFETY: This releases the reference that the search took.
    unsafe { bindings::kobject_put(kobj) };
    true
}
