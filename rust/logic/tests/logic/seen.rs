// SPDX-License-Identifier: GPL-2.0

//! A receiver that knows each number it accepted: what the windows of [`logic::replay`] have to
//! agree with, packet by packet.

use logic::replay::{Bitmap, Esn, Legacy, Place, Refused, Window};
use std::collections::HashSet;

/// Which format a window has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Legacy,
    Bitmap,
    Esn,
}

/// A window as it lies in a state's memory, and beside it the numbers that were accepted.
#[derive(Clone, Debug)]
pub struct Receiver {
    mode: Mode,
    window: u32,
    seq: u32,
    seq_hi: u32,
    bitmap: Vec<u32>,
    /// The highest number that was accepted, or where it began.
    top: i128,
    seen: HashSet<i128>,
}

impl Receiver {
    /// One that has accepted nothing yet; the next number to be expected is the one after `top`,
    /// the upper half of which only ESN has.
    pub fn new(mode: Mode, window: u32, top: u64) -> Self {
        let (window, words, top) = match mode {
            Mode::Legacy => (window.min(32), 1, top & 0xffff_ffff),
            Mode::Bitmap => (window, window.div_ceil(32), top & 0xffff_ffff),
            Mode::Esn => (window, window.div_ceil(32), top),
        };
        Self {
            mode,
            window,
            seq: top as u32,
            seq_hi: (top >> 32) as u32,
            bitmap: vec![0; words as usize],
            top: i128::from(top),
            seen: HashSet::new(),
        }
    }

    fn with<T>(&mut self, then: impl FnOnce(&mut Window<'_>) -> T) -> T {
        then(&mut match self.mode {
            Mode::Legacy => Window::Legacy(Legacy {
                seq: &mut self.seq,
                bitmap: &mut self.bitmap[0],
                window: self.window,
            }),
            Mode::Bitmap => Window::Bitmap(Bitmap {
                seq: &mut self.seq,
                window: self.window,
                bitmap: &mut self.bitmap,
            }),
            Mode::Esn => Window::Esn(Esn {
                numbers: Bitmap {
                    seq: &mut self.seq,
                    window: self.window,
                    bitmap: &mut self.bitmap,
                },
                seq_hi: &mut self.seq_hi,
            }),
        })
    }

    /// The lowest number of the window.
    fn bottom(&self) -> i128 {
        self.top - i128::from(self.window) + 1
    }

    /// The number that a packet with this lower half has.
    fn number(&self, seq: u32) -> i128 {
        if self.mode != Mode::Esn {
            return seq.into();
        }
        // The one that is not below the window, and less than 2^32 above its lowest number.
        let bottom = self.bottom();
        bottom + (i128::from(seq) - bottom).rem_euclid(1 << 32)
    }

    /// What has to become of a packet.
    fn expect(&self, seq: u32) -> Result<(), Refused> {
        if self.window == 0 {
            return Ok(());
        }
        let number = self.number(seq);
        // With ESN, C asks for this only while the window reaches below 0.
        if number == 0 && (self.mode != Mode::Esn || self.bottom() < 0) {
            return Err(Refused::Zero);
        }
        if number < self.bottom() {
            return Err(Refused::Left);
        }
        match self.seen.contains(&number) {
            true => Err(Refused::Seen),
            false => Ok(()),
        }
    }

    /// A packet arrives. Panics where window and model differ, in the answer or afterwards.
    pub fn receive(&mut self, seq: u32) -> Result<(), Refused> {
        let expected = self.expect(seq);
        let before = format!("{self:?}");
        let found = self.with(|window| window.check(seq));
        assert_eq!(found.map(|_| ()), expected, "{seq:#x} to {before}");
        // In short, for some of those that are next; where it is not asked or not that one, or may
        // not be, nothing changes.
        let may = seq & 1 != 0;
        let taken = self.with(|window| window.accept_next(seq, || may));
        assert!(!taken || may, "{seq:#x} to {before}");
        let Ok(place) = found else {
            assert!(!taken, "{seq:#x} to {before}");
            return expected;
        };
        let is_next = matches!(place, Place::Ahead { by: 1, .. });
        assert!(!taken || is_next, "{seq:#x} to {before}");
        if !taken {
            assert_eq!(format!("{self:?}"), before);
        }
        if may && is_next && seq > 1 && self.window.is_power_of_two() {
            assert!(taken, "{seq:#x} to {before}");
        }
        let watched = taken || self.with(|window| window.accept(seq, place));
        assert_eq!(watched, self.window != 0);
        assert_eq!(watched, place != Place::Unwatched);
        if watched {
            let number = self.number(seq);
            self.seen.insert(number);
            self.top = self.top.max(number);
            self.check_memory(seq, &before);
        }
        expected
    }

    /// A number that is so much higher than the highest one.
    pub fn ahead(&self, by: i64) -> u32 {
        (self.top + i128::from(by)) as u32
    }

    /// Whether C would read from the memory what the model knows.
    fn check_memory(&self, seq: u32, before: &str) {
        assert_eq!(self.seq, self.top as u32);
        if self.mode == Mode::Esn {
            assert_eq!(self.seq_hi, (self.top >> 32) as u32);
        }
        for by in 0..self.window {
            let bit = match self.mode {
                Mode::Legacy => by,
                _ => {
                    let top = self.seq.wrapping_sub(1) % self.window;
                    (top + self.window - by) % self.window
                }
            };
            assert_eq!(
                self.bitmap[bit as usize / 32] >> (bit % 32) & 1 != 0,
                self.seen.contains(&(self.top - i128::from(by))),
                "{by} before the highest number, after {seq:#x} to {before}"
            );
        }
    }
}
