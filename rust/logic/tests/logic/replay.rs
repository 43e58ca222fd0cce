// SPDX-License-Identifier: GPL-2.0

//! Windows of sequence numbers against receivers that forget nothing.

use crate::{
    config,
    seen::{Mode, Receiver}, //
};
use logic::replay::Refused;
use proptest::prelude::*;

const MODES: [Mode; 3] = [Mode::Legacy, Mode::Bitmap, Mode::Esn];

/// Windows: none, powers of two, and others, at the borders of words.
fn window() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0),
        (0..10u32).prop_map(|bits| 1 << bits),
        1..200u32,
        Just(31),
        Just(33),
        Just(96),
    ]
}

/// Where it begins: at the start, and around each end of a half.
fn top() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        0..300u64,
        (0xffff_fe00..0x1_0000_0200u64),
        any::<u64>().prop_map(|top| top >> 1),
        (1..9u64, -300..300i64).prop_map(|(hi, by)| ((hi << 32) as i64 + by) as u64),
    ]
}

/// Numbers, by how much they are higher than the highest one.
fn steps() -> impl Strategy<Value = Vec<i64>> {
    let step = prop_oneof![
        6 => Just(1),
        4 => -70..70i64,
        2 => -600..600i64,
        1 => Just(0),
        1 => any::<i32>().prop_map(i64::from),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    #![proptest_config(config(3000))]

    #[test]
    fn window_agrees_with_model(
        mode in prop::sample::select(&MODES[..]),
        window in window(),
        top in top(),
        steps in steps(),
    ) {
        // ESN is not to be had without a window.
        let window = if mode == Mode::Esn { window.max(1) } else { window };
        let mut receiver = Receiver::new(mode, window, top);
        for by in steps {
            let seq = receiver.ahead(by);
            let _ = receiver.receive(seq);
        }
    }

    /// No number twice, in whatever order they come; the wrap is in the middle.
    #[test]
    fn each_once(
        window in 1..130u32,
        order in Just((0..200u32).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let mut receiver = Receiver::new(Mode::Esn, window, 0x4_ffff_ff9c);
        for seq in order.iter().chain(&order) {
            let _ = receiver.receive(0xffff_ff9cu32.wrapping_add(*seq));
        }
    }
}

/// The first number of a state, received twice. C accepts it twice where the window is no power
/// of two.
#[test]
fn first_number_once() {
    for mode in MODES {
        for window in 1..200 {
            for first in [1, 2, 5, 95, 96, 97, 0x8000_0000, u32::MAX] {
                let mut receiver = Receiver::new(mode, window, 0);
                let expected = match mode {
                    // So far ahead that with ESN it is before the window's beginning.
                    Mode::Esn if first.wrapping_neg() < window => continue,
                    _ => Ok(()),
                };
                assert_eq!(receiver.receive(first), expected, "{mode:?} {window}");
                assert_eq!(
                    receiver.receive(first),
                    Err(Refused::Seen),
                    "{mode:?} {window}"
                );
            }
        }
    }
}

/// Numbers around the end of the lower half, received twice each.
#[test]
fn wrap_once() {
    for window in 1..200 {
        let mut receiver = Receiver::new(Mode::Esn, window, 0x1_ffff_ff00);
        for by in 1..600u32 {
            let seq = 0xffff_ff00u32.wrapping_add(by);
            assert_eq!(receiver.receive(seq), Ok(()), "{window}, {seq:#x}");
            assert_eq!(
                receiver.receive(seq),
                Err(Refused::Seen),
                "{window}, {seq:#x}"
            );
            if window > 3 && by > 3 {
                let late = seq.wrapping_sub(3);
                assert_eq!(
                    receiver.receive(late),
                    Err(Refused::Seen),
                    "{window}, {late:#x}"
                );
            }
        }
    }
}

/// What left the window is told from what was seen in it.
#[test]
fn causes() {
    for mode in MODES {
        let mut receiver = Receiver::new(mode, 32, 0);
        assert_eq!(receiver.receive(0), Err(Refused::Zero));
        assert_eq!(receiver.receive(100), Ok(()));
        assert_eq!(receiver.receive(100), Err(Refused::Seen));
        assert_eq!(receiver.receive(69), Ok(()));
        if mode != Mode::Esn {
            // With ESN this is the number that comes 2^32 later.
            assert_eq!(receiver.receive(68), Err(Refused::Left));
            assert_eq!(receiver.receive(0), Err(Refused::Zero));
        }
    }
}
