// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of what needs a kernel and no packets: per-CPU counters, and registrations, above
//! all of those that fail half-way. Built for kernels with KUnit only; run.sh runs them.
//!
//! Much of what they look for is found by the kernel: a chain type that is registered twice is a
//! warning, a type whose memory was freed while it was in a list is KASAN's.

mod percpu;
mod pernet;
mod register;

use kernel::prelude::*;

module! {
    type: Tests,
    name: "nfrust_kunit",
    authors: ["The nfrust authors"],
    description: "KUnit tests of the network abstractions in Rust",
    license: "GPL",
}

struct Tests;

impl kernel::Module for Tests {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
