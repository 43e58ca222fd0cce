// SPDX-License-Identifier: GPL-2.0

//! State in each network namespace. run.sh sees to it that there are several.

use core::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};
use kernel::prelude::*;
use net::{
    netns::Net,
    pernet::{Id, PerNet, Registration}, //
};

/// How many states there are, were made, and after how many making one fails.
static ALIVE: AtomicI32 = AtomicI32::new(0);
static MADE: AtomicU32 = AtomicU32::new(0);
static LIMIT: AtomicU32 = AtomicU32::new(u32::MAX);

#[pin_data(PinnedDrop)]
struct State {
    pattern: u64,
}

const PATTERN: u64 = 0x5ca1_ab1e_0ddb_a115;

impl PerNet for State {
    fn id() -> &'static Id {
        static ID: Id = Id::new();
        &ID
    }

    fn init(_net: &Net) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _: {
                if MADE.load(Relaxed) >= LIMIT.load(Relaxed) {
                    return Err(ENOSPC);
                }
                MADE.fetch_add(1, Relaxed);
                ALIVE.fetch_add(1, Relaxed);
            },
            pattern: PATTERN,
        })
    }
}

#[pinned_drop]
impl PinnedDrop for State {
    fn drop(self: Pin<&mut Self>) {
        // What was never made, or dropped before, has no such pattern.
        if self.pattern == PATTERN {
            ALIVE.fetch_sub(1, Relaxed);
        } else {
            pr_err!("dropped what is not there\n");
            ALIVE.fetch_add(1 << 16, Relaxed);
        }
        *self.project().pattern = 0;
    }
}

/// Registers, and gives what came of it: how many were made, and are alive while registered.
fn register(limit: u32) -> (Result, u32, i32) {
    MADE.store(0, Relaxed);
    LIMIT.store(limit, Relaxed);
    match KBox::pin_init(Registration::<State>::new(), GFP_KERNEL) {
        Ok(registration) => {
            let seen = (Ok(()), MADE.load(Relaxed), ALIVE.load(Relaxed));
            drop(registration);
            seen
        }
        Err(err) => (Err(err), MADE.load(Relaxed), ALIVE.load(Relaxed)),
    }
}

#[kernel::macros::kunit_tests(nfrust_pernet)]
mod tests {
    use super::*;

    #[test]
    fn every_namespace_has_one() {
        let (result, made, alive) = register(u32::MAX);
        assert_eq!(result, Ok(()));
        assert!(made >= 3);
        assert_eq!(alive, made as i32);
        assert_eq!(ALIVE.load(Relaxed), 0);
    }

    #[test]
    fn a_failure_undoes_those_before() {
        let (_, namespaces, _) = register(u32::MAX);
        for limit in 0..namespaces {
            let (result, made, alive) = register(limit);
            assert_eq!(result, Err(ENOSPC));
            assert_eq!(made, limit);
            assert_eq!(alive, 0);
        }
        assert_eq!(register(namespaces).0, Ok(()));
        assert_eq!(ALIVE.load(Relaxed), 0);
    }
}
