// SPDX-License-Identifier: GPL-2.0

//! The fuzz target for the parsers: whatever the bytes, parsers and model agree.
//!
//! An input is a packet behind five bytes that say how to read it:
//!
//! | bytes | meaning |
//! | --- | --- |
//! | 0, 1 | the offset of the header, signed, big endian; below 0 it is one right below 2^32 |
//! | 2 | the number of the first extension header |
//! | 3, 4 | the lengths of the linear part and of the first fragment |
//! | 5 and more | the packet |
//!
//! With the lowest offset that there is, which is none, the rest is what a receiver of IPsec gets:
//!
//! | bytes | meaning |
//! | --- | --- |
//! | 2 | the format of its window |
//! | 3, 4 | the window, less one, big endian |
//! | 5 to 12 | where its numbers begin, big endian |
//! | 13 and more, by two | numbers, by how much they are higher than the highest one, signed |

#[path = "../../tests/logic/check.rs"]
pub mod check;
#[path = "../../tests/logic/make.rs"]
pub mod make;
#[path = "../../tests/logic/model.rs"]
pub mod model;
#[path = "../../tests/logic/packet.rs"]
pub mod packet;
pub mod seeds;
#[path = "../../tests/logic/seen.rs"]
pub mod seen;

use core::ffi::c_int;

/// A decoded input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Where the parsers begin.
    pub offset: i16,
    /// What they take the first extension header for.
    pub next: u8,
    /// Where the packet is cut.
    pub lengths: [u8; 2],
    /// The packet.
    pub packet: Vec<u8>,
}

impl Input {
    /// Takes an input of the fuzzer apart. `None` if it is too short to be one.
    pub fn decode(input: &[u8]) -> Option<Self> {
        let (&[high, low, next, linear, fragment], packet) = input.split_first_chunk()?;
        Some(Self {
            offset: i16::from_be_bytes([high, low]),
            next,
            lengths: [linear, fragment],
            packet: packet.to_vec(),
        })
    }

    /// Makes an input of the fuzzer.
    pub fn encode(&self) -> Vec<u8> {
        let [high, low] = self.offset.to_be_bytes();
        let [linear, fragment] = self.lengths;
        let mut input = vec![high, low, self.next, linear, fragment];
        input.extend(&self.packet);
        input
    }

    /// The offset as the parsers take it.
    pub fn offset(&self) -> u32 {
        0u32.wrapping_add_signed(self.offset.into())
    }

    /// Lets a receiver of IPsec and the model get the same; panics where they differ.
    fn check_replay(&self) {
        let mode = match self.next % 3 {
            0 => seen::Mode::Legacy,
            1 => seen::Mode::Bitmap,
            _ => seen::Mode::Esn,
        };
        let window = u32::from(u16::from_be_bytes(self.lengths)) % 1024 + 1;
        let Some((top, steps)) = self.packet.split_first_chunk() else {
            return;
        };
        // Without the highest bit: C's counting has an end there, and so has the model's.
        let mut receiver = seen::Receiver::new(mode, window, u64::from_be_bytes(*top) >> 1);
        for step in steps.chunks_exact(2) {
            let seq = receiver.ahead(i16::from_be_bytes([step[0], step[1]]).into());
            let _ = receiver.receive(seq);
        }
    }

    /// Asks the parsers and the model; panics where they differ.
    pub fn check(&self) {
        if self.offset == i16::MIN {
            return self.check_replay();
        }
        let lengths = self.lengths.map(usize::from);
        check::all(&self.packet, &lengths, self.offset(), self.next);
    }
}

/// What libFuzzer calls with each input. A panic aborts, after its message, and libFuzzer then
/// saves the input.
#[no_mangle]
extern "C" fn LLVMFuzzerTestOneInput(data: *const u8, size: usize) -> c_int {
    if size > 0 {
        // SAFETY: libFuzzer passes `size` bytes that stay as they are until this returns, and are
        // more than none.
        let input = unsafe { core::slice::from_raw_parts(data, size) };
        if let Some(input) = Input::decode(input) {
            input.check();
            return 0;
        }
    }
    // Not to be kept: nothing was tried.
    -1
}
