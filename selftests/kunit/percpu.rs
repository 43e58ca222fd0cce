// SPDX-License-Identifier: GPL-2.0

//! Per-CPU counters.

use net::{
    count,
    percpu::Event as _, //
    percpu_counters,
};

#[derive(Clone, Copy)]
#[repr(usize)]
enum Event {
    First,
    Second,
    Last,
}

impl net::percpu::Event for Event {
    const NAMES: &'static [&'static str] = &["first", "second", "last"];

    fn index(self) -> usize {
        self as usize
    }
}

percpu_counters! {
    struct Stats: Event;
}

#[kernel::macros::kunit_tests(nfrust_percpu)]
mod tests {
    use super::*;
    use net::percpu::Counters;

    fn sums() -> [u64; 3] {
        [Event::First, Event::Second, Event::Last].map(|event| Stats::sum(event.index()))
    }

    #[test]
    fn counts_what_it_is_told_and_nothing_beside() {
        let before = sums();
        for _ in 0..1000 {
            count!(Stats, Event::Second);
        }
        count!(Stats, Event::Last);
        let after = sums();
        assert_eq!(after[0], before[0]);
        assert_eq!(after[1], before[1] + 1000);
        assert_eq!(after[2], before[2] + 1);
    }

    #[test]
    fn known_and_unknown_events_count_alike() {
        let before = sums();
        Stats::count(core::hint::black_box(Event::First));
        count!(Stats, Event::First);
        assert_eq!(sums()[0], before[0] + 2);
        assert_eq!(sums()[1], before[1]);
    }
}
