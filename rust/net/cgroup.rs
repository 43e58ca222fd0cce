// SPDX-License-Identifier: GPL-2.0

//! Control groups, version 2.
//!
//! C header: [`include/linux/cgroup.h`](srctree/include/linux/cgroup.h)

use kernel::{
    error::from_err_ptr,
    prelude::*, //
};
use nf_bindings as bindings;

/// The level, below the root of the hierarchy, of the root of the current task's cgroup namespace.
///
/// Process context; may sleep. Fails with the errno of `cgroup_get_from_path()`, or `ERANGE` if
/// the level does not fit into 8 bits.
pub fn namespace_level() -> Result<u8> {
    // SAFETY: The path is a string, and this is process context.
    let cgrp = from_err_ptr(unsafe { bindings::cgroup_get_from_path(c"/".as_char_ptr()) })?;
    // SAFETY: We hold a reference, and a cgroup's level never changes.
    let level = unsafe { (*cgrp).level };
    // SAFETY: This releases the reference taken above.
    unsafe { bindings::nfrust_helper_cgroup_put(cgrp) };

    u8::try_from(level).map_err(|_| if level < 0 { EINVAL } else { ERANGE })
}

/// The id of the ancestor of `cgrp` at `level`, or of `cgrp` itself: `cgroup_ancestor()` and
/// `cgroup_id()`. `None` if `cgrp` is not that deep.
///
/// # Safety
///
/// `cgrp` must point to a cgroup that somebody keeps.
#[inline]
pub(crate) unsafe fn ancestor_id(cgrp: *const bindings::cgroup, level: u8) -> Option<u64> {
    // SAFETY: By the requirement on this function; a cgroup's level never changes.
    let own = unsafe { (*cgrp).level };
    if i32::from(level) > own {
        return None;
    }
    let ancestors = cgrp
        .cast::<u8>()
        .wrapping_add(bindings::RUST_OFFSETOF_cgroup_ancestors)
        .cast::<*const bindings::cgroup>();
    // SAFETY: A cgroup lists its ancestors, and then itself, by level; and `level` is not beyond
    // its own.
    let ancestor = unsafe { ancestors.wrapping_add(usize::from(level)).read() };
    // SAFETY: A cgroup keeps its ancestors.
    let node = unsafe { (*ancestor).kn };
    // SAFETY: A cgroup keeps its kernfs node.
    Some(unsafe { (*node).id })
}
