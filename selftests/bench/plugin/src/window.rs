// SPDX-License-Identifier: GPL-2.0

//! What is counted while the window is open, and what is told about it when it closes.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::io;

/// Bytes of a cache line: what CPUs take from each other.
const LINE: u64 = 64;

/// A hash for addresses. What is hashed millions of times a second needs a cheap one.
#[derive(Default)]
pub struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 29;
    }
}

type Map<K, V> = HashMap<K, V, BuildHasherDefault<AddressHasher>>;

/// A place in memory that is written, and the instruction that does it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Write {
    physical: u64,
    pc: u64,
}

#[derive(Clone, Copy)]
struct Seen {
    /// The address that the instruction used.
    address: u64,
    count: u64,
}

/// What one vCPU did in the window.
#[derive(Default)]
pub struct Vcpu {
    writes: Map<Write, Seen>,
    /// How often each block was begun, by its number.
    blocks: Vec<u64>,
    /// Instructions before the block that is being executed, and in it.
    before: u64,
    instructions: u64,
    lock: Lock,
    stores: u64,
    unresolved: u64,
}

/// The lock that is watched, as one vCPU uses it.
#[derive(Default)]
struct Lock {
    /// Instructions before it was taken, where it is.
    taken: Option<u64>,
    /// How often it was held for so many instructions.
    holds: Map<u64, u64>,
    /// How often each block was begun meanwhile, by its number.
    blocks: Vec<u64>,
}

fn increment(counts: &mut Vec<u64>, number: usize) {
    if number >= counts.len() {
        counts.resize(number + 1, 0);
    }
    counts[number] += 1;
}

impl Vcpu {
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// A store or an atomic read-modify-write of `size` bytes. Counts for each line it touches.
    pub fn write(&mut self, address: u64, physical: u64, size: u64, pc: u64) {
        self.stores += 1;
        self.write_line(address, physical, pc);
        let into_next = (physical % LINE + size).saturating_sub(LINE);
        // Beyond the page it would be another one, whose physical address is not known here.
        if into_next > 0 && physical % 4096 + size <= 4096 {
            let rest = size - into_next;
            self.write_line(address + rest, physical + rest, pc);
        }
    }

    fn write_line(&mut self, address: u64, physical: u64, pc: u64) {
        let seen = self
            .writes
            .entry(Write { physical, pc })
            .or_insert(Seen { address, count: 0 });
        seen.count += 1;
    }

    /// A store whose physical address could not be found out.
    pub fn unresolved(&mut self) {
        self.stores += 1;
        self.unresolved += 1;
    }

    /// A block of so many instructions begins.
    pub fn block(&mut self, number: usize, instructions: u64) {
        self.before += self.instructions;
        self.instructions = instructions;
        increment(&mut self.blocks, number);
        if self.lock.taken.is_some() {
            increment(&mut self.lock.blocks, number);
        }
    }

    /// The lock is written by an instruction with so many before it in its block. Whoever releases
    /// it writes a byte that is 0, and had taken it when it wrote before: what it writes while it
    /// waits comes earlier.
    pub fn lock(&mut self, index: u64, releases: bool) {
        let now = self.before + index;
        if !releases {
            self.lock.taken = Some(now);
        } else if let Some(taken) = self.lock.taken.take() {
            *self.lock.holds.entry(now - taken).or_default() += 1;
        }
    }
}

/// A block of instructions that are executed one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Block {
    pub pc: u64,
    pub instructions: u64,
}

/// All blocks that were ever translated, and their numbers.
#[derive(Default)]
pub struct Blocks {
    list: Vec<Block>,
    numbers: Map<(u64, u64), usize>,
}

impl Blocks {
    /// The number of a block; the same for the same one translated again.
    pub fn number(&mut self, block: Block) -> usize {
        let list = &mut self.list;
        *self
            .numbers
            .entry((block.pc, block.instructions))
            .or_insert_with(|| {
                list.push(block);
                list.len() - 1
            })
    }
}

/// The counts of all vCPUs, as the end of a line.
fn row(out: &mut impl io::Write, counts: &[u64]) -> io::Result<()> {
    for count in counts {
        write!(out, " {count}")?;
    }
    writeln!(out)
}

/// Everything about the window, as lines of text:
///
/// ```text
/// stores COUNT...                     by each vCPU
/// unresolved COUNT...                 of those, whose physical address is not known
/// write PHYSICAL ADDRESS PC COUNT...  to a line that more than one vCPU wrote
/// block PC INSTRUCTIONS COUNT...      how often each vCPU began it
/// locked PC INSTRUCTIONS COUNT...     the same, while it held the lock
/// hold INSTRUCTIONS COUNT...          how often each vCPU held the lock for so long: what comes
///                                     after the one that takes it, and the one that releases it
/// ```
///
/// Addresses are hexadecimal; trailing vCPUs that did nothing are left out.
pub fn report(vcpus: &[&Vcpu], blocks: &Blocks, out: &mut impl io::Write) -> io::Result<()> {
    let used = vcpus
        .iter()
        .rposition(|vcpu| vcpu.stores > 0)
        .map_or(0, |last| last + 1);
    let vcpus = &vcpus[..used];

    let counts: Vec<u64> = vcpus.iter().map(|vcpu| vcpu.stores).collect();
    write!(out, "stores")?;
    row(out, &counts)?;
    let counts: Vec<u64> = vcpus.iter().map(|vcpu| vcpu.unresolved).collect();
    write!(out, "unresolved")?;
    row(out, &counts)?;

    let mut writers: Map<u64, u64> = Map::default();
    for (number, vcpu) in vcpus.iter().enumerate() {
        for write in vcpu.writes.keys() {
            *writers.entry(write.physical / LINE).or_default() |= 1 << number;
        }
    }
    let mut shared: Map<Write, (u64, Vec<u64>)> = Map::default();
    for (number, vcpu) in vcpus.iter().enumerate() {
        for (write, seen) in &vcpu.writes {
            if writers[&(write.physical / LINE)].count_ones() < 2 {
                continue;
            }
            let (_, counts) = shared
                .entry(*write)
                .or_insert_with(|| (seen.address, vec![0; used]));
            counts[number] += seen.count;
        }
    }
    let mut shared: Vec<_> = shared.into_iter().collect();
    shared.sort_unstable_by_key(|(write, _)| *write);
    for (write, (address, counts)) in shared {
        write!(out, "write {:x} {address:x} {:x}", write.physical, write.pc)?;
        row(out, &counts)?;
    }

    for (kind, of) in [
        ("block", (|vcpu| &vcpu.blocks) as fn(&Vcpu) -> &Vec<u64>),
        ("locked", |vcpu| &vcpu.lock.blocks),
    ] {
        for (number, block) in blocks.list.iter().enumerate() {
            let counts: Vec<u64> = vcpus
                .iter()
                .map(|vcpu| of(vcpu).get(number).copied().unwrap_or(0))
                .collect();
            if counts.iter().any(|count| *count > 0) {
                write!(out, "{kind} {:x} {}", block.pc, block.instructions)?;
                row(out, &counts)?;
            }
        }
    }

    let holds: BTreeSet<u64> = vcpus
        .iter()
        .flat_map(|vcpu| vcpu.lock.holds.keys().copied())
        .collect();
    for instructions in holds {
        let counts: Vec<u64> = vcpus
            .iter()
            .map(|vcpu| vcpu.lock.holds.get(&instructions).copied().unwrap_or(0))
            .collect();
        write!(out, "hold {instructions}")?;
        row(out, &counts)?;
    }
    Ok(())
}
