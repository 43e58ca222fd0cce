// SPDX-License-Identifier: GPL-2.0

//! A plugin for QEMU's TCG that counts contended writes: stores and atomic operations on cache
//! lines that more than one vCPU writes. It also counts the instructions that each function takes,
//! and those between where a lock is taken and where it is released.
//!
//! `-plugin file=libcontended.so,out=DIR`. The guest opens and closes the window in which things
//! are counted, by two instructions that do nothing (see [`MARKS`]), and says which lock is meant
//! by a store of its address (see [`WATCH`]). When the window closes, the counts go
//! to `DIR/window.N`, N from 0, before the instruction is over. [`window::report`] says what is in
//! the file.
//!
//! There is no time in here, and none is needed: how often CPUs take a line from each other is
//! bounded by how often they write it.

mod qemu;
mod window;

use std::fs::{rename, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock};

use qemu::{Access, Gate, Instruction, Place, Site, TranslationBlock};
use window::{Block, Blocks, Vcpu};

/// `nopl DISPLACEMENT(%rax)`, whose displacement no compiler would choose: opens, and closes.
const MARKS: [[u8; 7]; 2] = [
    [0x0f, 0x1f, 0x80, 0x01, b'n', b'f', 0x5a],
    [0x0f, 0x1f, 0x80, 0x02, b'n', b'f', 0x5a],
];
const OPENS: usize = 0;
/// `mov %rdi, DISPLACEMENT(%rsi)`, likewise: a spinlock's address is stored, which is watched.
const WATCH: [u8; 7] = [0x48, 0x89, 0xbe, 0x03, b'n', b'f', 0x5a];

/// As many as fit into a mask of those that wrote a line.
const MAX_VCPUS: usize = 64;

/// A line of the machine that runs this for each, so that vCPUs do not wait for each other here.
#[repr(align(128))]
struct Padded(Mutex<Vcpu>);

struct State {
    dir: PathBuf,
    open: AtomicBool,
    /// The address of the lock that is watched; 0 for none.
    lock: AtomicU64,
    windows: Mutex<usize>,
    blocks: Mutex<Blocks>,
    vcpus: Vec<Padded>,
}

static STATE: OnceLock<State> = OnceLock::new();

fn state() -> &'static State {
    STATE.get().expect("installed")
}

impl State {
    fn vcpu(&self, number: usize) -> MutexGuard<'_, Vcpu> {
        self.vcpus[number]
            .0
            .lock()
            .expect("no panic while it was locked")
    }

    fn close(&self) -> std::io::Result<()> {
        let mut windows = self.windows.lock().expect("no panic while it was locked");
        let path = self.dir.join(format!("window.{windows}"));
        let new = self.dir.join("window.new");
        let mut out = BufWriter::new(File::create(&new)?);
        let vcpus: Vec<_> = (0..MAX_VCPUS).map(|number| self.vcpu(number)).collect();
        let vcpus: Vec<_> = vcpus.iter().map(|vcpu| &**vcpu).collect();
        let blocks = self.blocks.lock().expect("no panic while it was locked");
        window::report(&vcpus, &blocks, &mut out)?;
        out.flush()?;
        rename(new, path)?;
        *windows += 1;
        Ok(())
    }
}

/// QEMU loads the plugin.
fn install(arguments: &[String]) -> Result<(), String> {
    let [argument] = arguments else {
        return Err("one argument is needed, out=DIR".into());
    };
    let dir = argument
        .strip_prefix("out=")
        .ok_or("the argument has to be out=DIR")?;
    let state = State {
        dir: dir.into(),
        open: AtomicBool::new(false),
        lock: AtomicU64::new(0),
        windows: Mutex::default(),
        blocks: Mutex::default(),
        vcpus: (0..MAX_VCPUS).map(|_| Padded(Mutex::default())).collect(),
    };
    STATE.set(state).map_err(|_| "installed twice")?;
    Gate::get();
    Ok(())
}

fn mark(instruction: &Instruction<'_>) -> Option<usize> {
    let bytes = instruction.bytes();
    MARKS.iter().position(|mark| bytes.starts_with(mark))
}

/// Instructions have been translated, and will be executed.
fn translated(tb: &TranslationBlock<'_>) {
    let block = Block {
        pc: tb.address(),
        instructions: tb.len() as u64,
    };
    let number = state()
        .blocks
        .lock()
        .expect("no panic while it was locked")
        .number(block);
    tb.when_executed(Gate::get(), number);
    for (index, instruction) in tb.instructions().enumerate() {
        if instruction.bytes().starts_with(&WATCH) {
            instruction.when_it_names_a_lock();
            continue;
        }
        instruction.when_it_writes(index);
        if let Some(what) = mark(&instruction) {
            instruction.when_executed(what);
        }
    }
}

/// A block of so many instructions begins, in the window.
fn executed(vcpu: usize, number: usize, instructions: u64) {
    state().vcpu(vcpu).block(number, instructions);
}

/// A lock is named, to be watched.
fn named(access: &Access<'_>) {
    state().lock.store(access.value(), Relaxed);
}

/// Memory is written, in the window or not.
fn written(vcpu: usize, access: &Access<'_>, site: Site) {
    let state = state();
    if !state.open.load(Relaxed) {
        return;
    }
    if access.address == state.lock.load(Relaxed) {
        let releases = access.size() == 1 && access.value() == 0;
        state.vcpu(vcpu).lock(site.index, releases);
    }
    match access.place() {
        Place::Memory(physical) => {
            state
                .vcpu(vcpu)
                .write(access.address, physical, access.size(), site.pc);
        }
        Place::Unknown => state.vcpu(vcpu).unresolved(),
        Place::Device => {}
    }
}

/// The window opens or closes.
fn marked(_vcpu: usize, what: usize) {
    let state = state();
    if what == OPENS {
        for number in 0..MAX_VCPUS {
            state.vcpu(number).clear();
        }
        state.open.store(true, Relaxed);
        Gate::get().set(true);
        return;
    }
    state.open.store(false, Relaxed);
    Gate::get().set(false);
    if let Err(error) = state.close() {
        eprintln!(
            "contended: cannot write to {}: {error}",
            state.dir.display()
        );
    }
}
