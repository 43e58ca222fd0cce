// SPDX-License-Identifier: GPL-2.0

//! Event counters with a copy on each CPU.
//!
//! Counting is one increment of this CPU's copy: no lock, no shared cache line, and no moment in
//! which the task could be moved between a read and a write, so preemptible context is fine.
//!
//! C header: [`include/linux/percpu-defs.h`](srctree/include/linux/percpu-defs.h)

use core::cell::UnsafeCell;
use kernel::fmt;
use nf_bindings as bindings;

/// The number of counters in a [`Block`].
pub const SLOTS: usize = 32;

/// The counters of one module, as they lie in the per-CPU section.
///
/// Only [`percpu_counters!`](crate::percpu_counters) makes one: the address of a `Block` is no
/// pointer that can be followed, it is what the CPU's own base is added to.
#[repr(C, align(64))]
pub struct Block([UnsafeCell<u64>; SLOTS]);

// SAFETY: No copy is reached through a reference; see `increment()` and `sum()`.
unsafe impl Sync for Block {}

impl Block {
    /// All counters at zero.
    ///
    /// # Safety
    ///
    /// The value must initialize a `static` in the section `.data..percpu` of a module.
    pub const unsafe fn zero() -> Self {
        Self([const { UnsafeCell::new(0) }; SLOTS])
    }
}

/// An event that can be counted.
pub trait Event: Copy + 'static {
    /// What the counters are called, in the order of [`index()`](Self::index).
    const NAMES: &'static [&'static str];

    /// Which counter it is; smaller than `NAMES.len()`.
    fn index(self) -> usize;
}

/// A module's counters for the events `E`. [`percpu_counters!`](crate::percpu_counters)
/// implements it.
///
/// # Safety
///
/// `block()` points to a per-CPU variable.
pub unsafe trait Counters<E: Event> {
    /// The per-CPU address of the counters.
    fn block() -> *const Block;

    /// Counts the event of this index on this CPU. Any context. [`count!`](crate::count) is how
    /// to call it.
    fn count_at<const INDEX: usize>();

    /// Counts an event that is not known before, on this CPU. Any context.
    #[inline(always)]
    fn count(event: E) {
        const { assert!(E::NAMES.len() <= SLOTS) };
        // SAFETY: The counter lies in a per-CPU variable, by the requirement on this trait.
        unsafe { increment(slot(Self::block(), event.index())) };
    }

    /// The number of times the event of this index was counted, on all CPUs together. Not a
    /// snapshot: packets may pass meanwhile.
    fn sum(index: usize) -> u64 {
        let counter = slot(Self::block(), index);
        // SAFETY: The counter lies in a per-CPU variable, by the requirement on this trait, and
        // the shim reads each CPU's copy once.
        unsafe { bindings::nfrust_helper_percpu_sum(counter) }
    }
}

/// Counts an event that is known at compile time: `count!(Stats, Event::Hit)`. One instruction.
#[macro_export]
macro_rules! count {
    ($stats:ty, $event:expr) => {
        <$stats as $crate::percpu::Counters<_>>::count_at::<{ $event as usize }>()
    };
}

/// The per-CPU address of a counter.
#[inline(always)]
fn slot(block: *const Block, index: usize) -> *const u64 {
    // The mask keeps a wrong `Event` implementation inside the block; where the event is a
    // constant the compiler has computed the address.
    block.cast::<u64>().wrapping_add(index & (SLOTS - 1))
}

#[cfg(not(target_arch = "x86_64"))]
compile_error!("per-CPU counters are written for x86-64 only");

/// Adds one to this CPU's copy of a counter. Any context.
///
/// # Safety
///
/// `counter` must be the per-CPU address of one.
#[inline(always)]
pub(crate) unsafe fn increment(counter: *const u64) {
    // SAFETY: By the requirement on this function; and the segment register holds this CPU's
    // base. One instruction: neither an interrupt nor a migration can split it.
    unsafe { core::arch::asm!("inc qword ptr gs:[{}]", in(reg) counter, options(nostack)) };
}

/// Adds one to this CPU's copy of a count of 32 bits. Any context.
///
/// # Safety
///
/// `count` must be the per-CPU address of one.
#[cfg(CONFIG_PCPU_DEV_REFCNT)]
#[inline(always)]
pub(crate) unsafe fn increment_int(count: *mut i32) {
    // SAFETY: As in `increment()`.
    unsafe { core::arch::asm!("inc dword ptr gs:[{}]", in(reg) count, options(nostack)) };
}

/// Takes one from this CPU's copy of a count of 32 bits. Any context.
///
/// # Safety
///
/// `count` must be the per-CPU address of one.
#[cfg(CONFIG_PCPU_DEV_REFCNT)]
#[inline(always)]
pub(crate) unsafe fn decrement_int(count: *mut i32) {
    // SAFETY: As in `increment()`.
    unsafe { core::arch::asm!("dec dword ptr gs:[{}]", in(reg) count, options(nostack)) };
}

/// Writes a line for each counter, its name and its value.
pub fn write<E: Event, C: Counters<E>>(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, name) in E::NAMES.iter().enumerate() {
        writeln!(f, "{name} {}", C::sum(index))?;
    }
    Ok(())
}

/// Defines a module's counters: `percpu_counters!(struct Stats: Event);` makes a type `Stats` that
/// implements [`Counters`] for the events `Event`, and is what a file in debugfs can show.
#[macro_export]
macro_rules! percpu_counters {
    ($(#[$attr:meta])* $vis:vis struct $name:ident: $event:ty;) => {
        $(#[$attr])*
        $vis struct $name;

        const _: () = {
            // The module loader gives this section a copy on each CPU, as DEFINE_PER_CPU()'s.
            #[link_section = ".data..percpu"]
            static BLOCK: $crate::percpu::Block =
                // SAFETY: This is a `static` in that section.
                unsafe { $crate::percpu::Block::zero() };

            // SAFETY: `BLOCK` is a per-CPU variable.
            unsafe impl $crate::percpu::Counters<$event> for $name {
                #[inline(always)]
                fn block() -> *const $crate::percpu::Block {
                    &raw const BLOCK
                }

                #[inline(always)]
                fn count_at<const INDEX: usize>() {
                    const { assert!(INDEX < $crate::percpu::SLOTS) };
                    // SAFETY: The counter lies in a per-CPU variable, and the segment register
                    // holds this CPU's base. One instruction: neither an interrupt nor a
                    // migration can split it.
                    unsafe {
                        ::core::arch::asm!(
                            "inc qword ptr gs:[{block} + 8 * {index}]",
                            block = sym BLOCK,
                            index = const INDEX,
                            options(nostack),
                        )
                    };
                }
            }

            impl ::kernel::debugfs::Writer for $name {
                fn write(
                    &self,
                    f: &mut ::kernel::fmt::Formatter<'_>,
                ) -> ::kernel::fmt::Result {
                    $crate::percpu::write::<$event, Self>(f)
                }
            }
        };
    };
}
