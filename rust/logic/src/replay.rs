// SPDX-License-Identifier: GPL-2.0

//! Which sequence numbers a receiver of IPsec accepts: each once, and none that is too old.
//!
//! The receiver knows the highest number it accepted, and for some numbers before it, the window,
//! which were. C keeps that in three formats, all of which are kept here as C reads them: 32 bits
//! in one word; any number of bits (`struct xfrm_replay_state_esn`); and the same with numbers of
//! 64 bits (extended sequence numbers, ESN), of which packets carry the lower half.
//!
//! In a bitmap of `window` bits, the highest number `top` stands at bit `(top - 1) % window`, and
//! the ones before it at the bits before, around the end. Where `top` gets from the end of the 32
//! bits to their beginning, that is no step to the next bit, unless the window is a power of two.
//! C goes to the next one, and afterwards looks for all numbers at the wrong places: it accepts a
//! number again. It begins with `top` 0, so that this happens to the first number of all, too.
//! Here the bitmap is turned to where it has to be.
//!
//! All arithmetic wraps: the numbers come from the network, and the kernel checks for overflow.

/// Why a number is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is 0, the one that no sender begins with.
    Zero,
    /// It left the window.
    Left,
    /// It was accepted before.
    Seen,
}

/// Where a number that can be accepted is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Anywhere: there is no window.
    Unwatched,
    /// So much higher than the highest one.
    Ahead {
        /// How much, at least 1.
        by: u32,
        /// Whether the upper half of the number grows.
        carry: bool,
    },
    /// In the window.
    Within {
        /// How much lower than the highest one.
        by: u32,
    },
}

/// A window, in the format that its state has.
pub enum Window<'a> {
    /// `XFRM_REPLAY_MODE_LEGACY`.
    Legacy(Legacy<'a>),
    /// `XFRM_REPLAY_MODE_BMP`.
    Bitmap(Bitmap<'a>),
    /// `XFRM_REPLAY_MODE_ESN`.
    Esn(Esn<'a>),
}

impl Window<'_> {
    /// Whether a number can be accepted: `xfrm_replay_check()`.
    #[inline(always)]
    pub fn check(&self, seq: u32) -> Result<Place, Refused> {
        match self {
            Self::Legacy(window) => window.check(seq),
            Self::Bitmap(window) => window.check(seq),
            Self::Esn(window) => window.check(seq),
        }
    }

    /// Notes a number as accepted, which [`check()`](Self::check) found at this place, with
    /// nothing noted since: `xfrm_replay_advance()`. Whether there is a window to note it in.
    #[inline(always)]
    pub fn accept(&mut self, seq: u32, place: Place) -> bool {
        match self {
            Self::Legacy(window) => window.accept(seq, place),
            Self::Bitmap(window) => window.accept(seq, place),
            Self::Esn(window) => window.accept(seq, place),
        }
        place != Place::Unwatched
    }

    /// Notes a number as accepted if it is the one after the highest one, and there is a window: in
    /// short, what [`check()`](Self::check) and [`accept()`](Self::accept) would. `may` is asked
    /// before. False, and nothing is noted, where it says no, or the number is another one, or
    /// takes longer.
    #[inline(always)]
    pub fn accept_next(&mut self, seq: u32, may: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Legacy(window) => {
                let is_next = window.is_next(seq) && may();
                if is_next {
                    window.accept(
                        seq,
                        Place::Ahead {
                            by: 1,
                            carry: false,
                        },
                    );
                }
                is_next
            }
            Self::Bitmap(numbers) | Self::Esn(Esn { numbers, .. }) => {
                // Its bit is the next one, and there is nothing in between.
                let position = numbers.next(seq).filter(|_| may());
                if let Some(position) = position {
                    *numbers.seq = seq;
                    numbers.set(position);
                }
                position.is_some()
            }
        }
    }
}

/// Whether a number of 32 bits can be accepted. `within` tells, of one that is so much lower than
/// the highest one, `top`.
#[inline(always)]
fn check(
    window: u32,
    top: u32,
    seq: u32,
    within: impl FnOnce(u32) -> Result<Place, Refused>,
) -> Result<Place, Refused> {
    if window == 0 {
        return Ok(Place::Unwatched);
    }
    if seq == 0 {
        return Err(Refused::Zero);
    }
    if seq > top {
        let by = seq.wrapping_sub(top);
        return Ok(Place::Ahead { by, carry: false });
    }
    within(top.wrapping_sub(seq))
}

/// `struct xfrm_replay_state`: a window in one word. Bit `n` is for the number `seq - n`.
pub struct Legacy<'a> {
    /// The highest number.
    pub seq: &'a mut u32,
    /// Which of those before it were accepted.
    pub bitmap: &'a mut u32,
    /// How many are watched, at most 32; or none, 0.
    pub window: u32,
}

impl Legacy<'_> {
    /// Whether the number is the one after the highest one.
    #[inline(always)]
    fn is_next(&self, seq: u32) -> bool {
        seq != 0 && seq == self.seq.wrapping_add(1) && self.window != 0
    }

    /// Whether a number can be accepted.
    #[inline]
    pub fn check(&self, seq: u32) -> Result<Place, Refused> {
        check(self.window, *self.seq, seq, |by| {
            if by >= self.window {
                return Err(Refused::Left);
            }
            if *self.bitmap & bit(by) != 0 {
                return Err(Refused::Seen);
            }
            Ok(Place::Within { by })
        })
    }

    /// Notes a number as accepted.
    #[inline]
    pub fn accept(&mut self, seq: u32, place: Place) {
        match place {
            Place::Unwatched => {}
            Place::Ahead { by, .. } => {
                let kept = match by < self.window {
                    true => self.bitmap.checked_shl(by).unwrap_or(0),
                    false => 0,
                };
                *self.bitmap = kept | 1;
                *self.seq = seq;
            }
            Place::Within { by } => *self.bitmap |= bit(by),
        }
    }
}

/// One bit of a word, the lowest is 0.
#[inline]
fn bit(number: u32) -> u32 {
    1u32.checked_shl(number).unwrap_or(0)
}

/// The part of `struct xfrm_replay_state_esn` that is for numbers of 32 bits.
pub struct Bitmap<'a> {
    /// The highest number.
    pub seq: &'a mut u32,
    /// How many numbers are watched, the highest one among them; or none, 0.
    pub window: u32,
    /// A bit for each of them, and perhaps more.
    pub bitmap: &'a mut [u32],
}

impl Bitmap<'_> {
    /// Whether a number can be accepted.
    #[inline]
    pub fn check(&self, seq: u32) -> Result<Place, Refused> {
        check(self.window, *self.seq, seq, |by| self.check_within(by))
    }

    /// Notes a number as accepted.
    #[inline(always)]
    pub fn accept(&mut self, seq: u32, place: Place) {
        match place {
            Place::Unwatched => {}
            Place::Ahead { by, .. } => self.go_ahead(seq, by),
            Place::Within { by } => self.set(self.position(by)),
        }
    }

    /// Where the bit of a number is that is the one after the highest one, without a carry. What
    /// comes in order is most of what comes. `None` for other numbers, and for windows that take
    /// longer: what is no power of two, or none.
    #[inline(always)]
    fn next(&self, seq: u32) -> Option<u32> {
        let mask = self.window.wrapping_sub(1);
        if seq == 0 || seq != self.seq.wrapping_add(1) || self.window == 0 {
            return None;
        }
        self.is_power_of_two().then_some(seq.wrapping_sub(1) & mask)
    }

    /// Whether the window, of which there is one, is a power of two: then one less has all bits
    /// below it. (In the usual words the compiler takes this for a count of bits, which the
    /// kernel's CPUs need not have an instruction for.)
    #[inline(always)]
    fn is_power_of_two(&self) -> bool {
        let mask = self.window.wrapping_sub(1);
        self.window ^ mask == mask << 1 | 1
    }

    /// Whether the number that is so much lower than the highest one can be accepted.
    #[inline]
    fn check_within(&self, by: u32) -> Result<Place, Refused> {
        if by >= self.window {
            return Err(Refused::Left);
        }
        if self.is_set(self.position(by)) {
            return Err(Refused::Seen);
        }
        Ok(Place::Within { by })
    }

    /// Makes a number the highest one, which is so much higher than the one that was.
    #[inline]
    fn go_ahead(&mut self, seq: u32, by: u32) {
        let window = self.window;
        if by >= window {
            // Nothing of what was watched still is.
            let words = (window.wrapping_sub(1) >> 5) as usize + 1;
            if let Some(bitmap) = self.bitmap.get_mut(..words) {
                bitmap.fill(0);
            }
            *self.seq = seq;
        } else {
            let from = self.position(0);
            self.clear_behind(from, by.wrapping_sub(1));
            *self.seq = seq;
            if !self.is_power_of_two() {
                self.turn(from, by);
            }
        }
        self.set(self.position(0));
    }

    /// Turns the bitmap, the bit at `from + by` of which is that of the highest number, so that
    /// this one is where it is looked for.
    #[inline]
    fn turn(&mut self, from: u32, by: u32) {
        let window = self.window;
        let reached = modulo(u64::from(from) + u64::from(by), window);
        let due = self.position(0);
        if reached == due {
            return;
        }
        // The last `turn` bits become the first ones: what three reversals do.
        let turn = u64::from(due) + u64::from(window);
        let turn = modulo(turn.wrapping_sub(u64::from(reached)), window);
        self.reverse(0, window);
        self.reverse(0, turn);
        self.reverse(turn, window);
    }

    /// Reverses the order of the bits from one on and before another.
    #[inline]
    fn reverse(&mut self, mut from: u32, mut before: u32) {
        while from < before {
            before = before.wrapping_sub(1);
            let (first, last) = (self.is_set(from), self.is_set(before));
            self.write(from, last);
            self.write(before, first);
            from = from.wrapping_add(1);
        }
    }

    /// Clears so many bits behind one, around the end; fewer than the window has.
    #[inline]
    fn clear_behind(&mut self, from: u32, count: u32) {
        if count == 0 {
            return;
        }
        let first = from.wrapping_add(1);
        let end = first.wrapping_add(count);
        let around = end.saturating_sub(self.window);
        self.clear(first, end.wrapping_sub(around));
        // Where `first` was at the end itself, all of it is around.
        self.clear(0, around);
    }

    /// Clears the bits from one on and before another.
    #[inline]
    fn clear(&mut self, from: u32, before: u32) {
        let mut at = from;
        while at < before {
            // To the end of the word, or of the bits.
            let left = before.wrapping_sub(at);
            let in_word = (32u32.wrapping_sub(at & 31)).min(left);
            let mask = (u32::MAX >> (32u32.wrapping_sub(in_word) & 31)) << (at & 31);
            if let Some(word) = self.bitmap.get_mut((at >> 5) as usize) {
                *word &= !mask;
            }
            at = at.wrapping_add(in_word);
        }
    }

    /// Which bit is that of the number that is so much lower than the highest one, less than the
    /// window.
    #[inline]
    fn position(&self, by: u32) -> u32 {
        let window = self.window;
        let top = self.seq.wrapping_sub(1);
        if self.is_power_of_two() {
            return top.wrapping_sub(by) & window.wrapping_sub(1);
        }
        let top = top.checked_rem(window).unwrap_or(0);
        match top >= by {
            true => top.wrapping_sub(by),
            false => top.wrapping_add(window).wrapping_sub(by),
        }
    }

    #[inline]
    fn is_set(&self, position: u32) -> bool {
        let word = self.bitmap.get((position >> 5) as usize);
        // There is always one: C makes the bitmap large enough.
        word.is_none_or(|word| word & bit(position & 31) != 0)
    }

    #[inline]
    fn set(&mut self, position: u32) {
        if let Some(word) = self.bitmap.get_mut((position >> 5) as usize) {
            *word |= bit(position & 31);
        }
    }

    #[inline]
    fn write(&mut self, position: u32, value: bool) {
        if value {
            return self.set(position);
        }
        if let Some(word) = self.bitmap.get_mut((position >> 5) as usize) {
            *word &= !bit(position & 31);
        }
    }
}

/// The rest of a division by something that is not zero.
#[inline]
fn modulo(number: u64, by: u32) -> u32 {
    number.checked_rem(u64::from(by)).unwrap_or(0) as u32
}

/// `struct xfrm_replay_state_esn`: numbers of 64 bits, of which packets carry the lower half.
///
/// The upper half is the one that brings the number into the window, or less than one lower half
/// ahead of it.
pub struct Esn<'a> {
    /// The lower halves.
    pub numbers: Bitmap<'a>,
    /// The upper half of the highest number.
    pub seq_hi: &'a mut u32,
}

impl Esn<'_> {
    /// Whether a number can be accepted.
    #[inline(always)]
    pub fn check(&self, seq: u32) -> Result<Place, Refused> {
        let top = *self.numbers.seq;
        let window = self.numbers.window;
        if window == 0 {
            return Ok(Place::Unwatched);
        }
        let last = window.wrapping_sub(1);
        let bottom = top.wrapping_sub(last);
        let by = seq.wrapping_sub(top);
        if top >= last {
            // The whole window has one upper half.
            if seq > top {
                return Ok(Place::Ahead { by, carry: false });
            }
            if seq < bottom {
                return Ok(Place::Ahead { by, carry: true });
            }
        } else {
            if seq == 0 && *self.seq_hi == 0 {
                return Err(Refused::Zero);
            }
            // The window began when the upper half was one less.
            if seq > top && seq < bottom {
                return Ok(Place::Ahead { by, carry: false });
            }
        }
        self.numbers.check_within(top.wrapping_sub(seq))
    }

    /// Notes a number as accepted.
    #[inline(always)]
    pub fn accept(&mut self, seq: u32, place: Place) {
        if let Place::Ahead { carry: true, .. } = place {
            *self.seq_hi = self.seq_hi.wrapping_add(1);
        }
        self.numbers.accept(seq, place);
    }
}
