// SPDX-License-Identifier: GPL-2.0

//! Packets on the host, for the parsers to read.

use logic::header::{Headers, Scratch};
use std::cell::Cell;

/// A packet in one piece.
pub struct Linear<'p>(pub &'p [u8]);

impl Headers for Linear<'_> {
    // As in the kernel, where the common case is a comparison and an addition.
    #[inline(always)]
    fn header<'a, const N: usize>(
        &'a self,
        offset: u32,
        _scratch: &'a mut Scratch<N>,
    ) -> Option<&'a [u8; N]> {
        self.0.get(offset as usize..)?.first_chunk()
    }
}

/// A packet of which only the first piece is linear, as an `sk_buff` with page fragments.
pub struct Pieces {
    pieces: Vec<Vec<u8>>,
    reads: Cell<usize>,
    copies: Cell<usize>,
}

impl Pieces {
    /// Cuts a packet: the linear part is of the first of these lengths, each fragment of the next
    /// one, and the last is what is left. Lengths may be 0 and may add up to more than there is.
    pub fn cut(mut bytes: &[u8], lengths: &[usize]) -> Self {
        let mut pieces = Vec::new();
        for length in lengths {
            let (piece, rest) = bytes.split_at((*length).min(bytes.len()));
            pieces.push(piece.to_vec());
            bytes = rest;
        }
        pieces.push(bytes.to_vec());
        Self {
            pieces,
            reads: Cell::new(0),
            copies: Cell::new(0),
        }
    }

    /// How many headers were asked for.
    pub fn reads(&self) -> usize {
        self.reads.get()
    }

    /// How many of them were not linear and therefore copied.
    pub fn copies(&self) -> usize {
        self.copies.get()
    }
}

impl Headers for Pieces {
    fn header<'a, const N: usize>(
        &'a self,
        offset: u32,
        scratch: &'a mut Scratch<N>,
    ) -> Option<&'a [u8; N]> {
        self.reads.set(self.reads.get() + 1);

        let offset = offset as usize;
        let linear = &self.pieces[0];
        if offset + N <= linear.len() {
            return linear[offset..].first_chunk();
        }

        let mut bytes = self.pieces.iter().flatten().skip(offset);
        let mut header = [0; N];
        for byte in &mut header {
            *byte = *bytes.next()?;
        }
        self.copies.set(self.copies.get() + 1);
        // Both ways to fill the room: as a value, and where the room is.
        if self.copies.get() % 2 == 0 {
            Some(scratch.fill(header))
        } else {
            Some(scratch.room().write(header))
        }
    }
}

/// A packet that goes on after its last byte with its first: all offsets there are can be read,
/// and behind the last one comes 0.
pub struct Endless<'p> {
    bytes: &'p [u8],
    reads: Cell<usize>,
}

impl<'p> Endless<'p> {
    /// Repeats these bytes, of which there must be some.
    pub fn new(bytes: &'p [u8]) -> Self {
        assert!(!bytes.is_empty());
        Self {
            bytes,
            reads: Cell::new(0),
        }
    }

    /// The byte at an offset.
    pub fn byte(&self, offset: u32) -> u8 {
        self.bytes[offset as usize % self.bytes.len()]
    }

    /// How many headers were asked for.
    pub fn reads(&self) -> usize {
        self.reads.get()
    }
}

impl Headers for Endless<'_> {
    fn header<'a, const N: usize>(
        &'a self,
        offset: u32,
        scratch: &'a mut Scratch<N>,
    ) -> Option<&'a [u8; N]> {
        self.reads.set(self.reads.get() + 1);
        assert!(self.reads.get() < 1000, "no end to the reads");
        let mut header = [0; N];
        for (at, byte) in (0..).zip(&mut header) {
            *byte = self.byte(offset.wrapping_add(at));
        }
        Some(scratch.fill(header))
    }
}
