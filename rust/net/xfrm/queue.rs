// SPDX-License-Identifier: GPL-2.0

//! Packets that wait for the end of the driver's poll, to be received as a burst.
//!
//! C receives each packet by itself and then queues what is left of it, on a queue that each CPU
//! has, which is polled right after the driver's. Here the packets are queued before they are
//! received; there are as many hops, and a packet that comes alone waits for nothing but what C's
//! waits for.
//!
//! The queue takes packets without a lock from any context, so that it does not matter which CPU
//! polls it: when one goes offline, its NAPI goes on elsewhere.
//!
//! C header: [`include/net/gro_cells.h`](srctree/include/net/gro_cells.h), which does it for C

use super::{
    batch::{Batch, BATCH},
    family::Esp,
    input::Packet, //
};
use crate::{
    netdev::{DeviceRef, Dummy},
    rcu::Section,
    skb::OwnedSkb, //
};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    pin::Pin,
    ptr::{self, NonNull},
    sync::atomic::{AtomicPtr, AtomicU32, Ordering}, //
};
use kernel::{
    prelude::*,
    sync::rcu,
    types::Opaque, //
};
use nf_bindings as bindings;

/// Receives packets that waited.
pub trait Poll<V: Esp>: Sized + 'static {
    /// Receives a packet that waited alone. Softirq context.
    fn poll_one(packet: Packet<V>, napi: &Napi, rcu: Section<'_>);

    /// Receives all packets of the batch. Softirq context.
    fn poll(batch: &mut Batch<V>, napi: &Napi, rcu: Section<'_>);
}

/// A NAPI that is polled, to which packets can be given that were received.
#[repr(transparent)]
pub struct Napi(Opaque<bindings::napi_struct>);

impl Napi {
    /// Gives a packet to the stack, as one that its device received: `gro_cells_receive()` and
    /// what the poll of C's queue does.
    #[inline]
    pub(crate) fn receive(&self, mut skb: OwnedSkb) {
        if !skb.is_dev_up() {
            crate::seldom();
            skb.count_rx_dropped();
            return;
        }
        skb.unset_transport_header();
        if skb.is_cloned() || skb.is_dev_without_gro() {
            crate::seldom();
            // SAFETY: The packet is ours, and given away.
            unsafe { bindings::netif_rx(skb.into_raw()) };
            return;
        }
        let napi = self.0.get();
        // SAFETY: The NAPI is valid; only an address is taken.
        let gro = unsafe { &raw mut (*napi).gro };
        // SAFETY: The NAPI is being polled, here; the packet is ours, and given away.
        unsafe { bindings::gro_receive_skb(gro, skb.into_raw()) };
    }
}

/// The packets that came by one CPU, and the NAPI that polls them.
#[repr(C, align(64))]
struct Cell {
    /// First of all, so that it is found by its NAPI.
    napi: Opaque<bindings::napi_struct>,
    /// Those that came last, the last one first.
    head: AtomicPtr<bindings::sk_buff>,
    /// How many there are, in `head` and in `first`.
    len: AtomicU32,
    /// Those that are next, in order; the poll's alone.
    first: UnsafeCell<*mut bindings::sk_buff>,
}

/// What does not fit.
pub enum Full<V: Esp> {
    /// The device is down.
    Down(Packet<V>),
    /// There are as many packets as `net.core.netdev_max_backlog` says.
    Limit(Packet<V>),
}

/// A queue for each CPU, from its initialization to its drop. `P` receives what is in it.
#[pin_data(PinnedDrop)]
pub struct Queues<V: Esp, P: Poll<V>> {
    cells: KVec<KBox<Cell>>,
    dev: Dummy,
    _poll: PhantomData<(V, P)>,
}

// SAFETY: Packets are put into a cell atomically, and taken out by its poll alone, of which there
// is one at a time.
unsafe impl<V: Esp, P: Poll<V>> Send for Queues<V, P> {}
// SAFETY: As above.
unsafe impl<V: Esp, P: Poll<V>> Sync for Queues<V, P> {}

impl<V: Esp, P: Poll<V>> Queues<V, P> {
    /// Makes them. Process context; may sleep. `ENOMEM`.
    pub fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            dev: Dummy::new()?,
            cells: make_cells()?,
            _poll: PhantomData,
            _: {
                for cell in cells.iter() {
                    // SAFETY: The device and the cell stay until the NAPI is deleted.
                    unsafe {
                        bindings::nfrust_helper_napi_add(
                            dev.as_raw(),
                            cell.napi.get(),
                            Some(poll::<V, P>),
                        )
                    };
                }
            },
        })
    }

    /// The cell of this CPU.
    #[inline]
    fn cell(&self) -> Option<&Cell> {
        Some(self.cells.get(this_cpu())?)
    }

    /// Whether packets wait on this CPU. Softirq context.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.cell()
            .is_none_or(|cell| cell.len.load(Ordering::Relaxed) == 0)
    }

    /// Lets a packet wait. Softirq context.
    #[inline]
    pub fn push(&self, packet: Packet<V>) -> Result<(), Full<V>> {
        let Some(cell) = self.cell() else {
            return Err(Full::Limit(packet));
        };
        if !packet.skb().is_dev_up() {
            return Err(Full::Down(packet));
        }
        // SAFETY: Only an address is taken.
        let limit = unsafe { &raw const bindings::net_hotdata.max_backlog };
        // SAFETY: C writes it as one word.
        let limit = unsafe { limit.read_volatile() };
        if cell.len.load(Ordering::Relaxed) > limit as u32 {
            return Err(Full::Limit(packet));
        }
        // The packet keeps its device until it is taken out.
        packet.skb().hold_dev().into_packet();
        let skb = packet.into_raw();
        cell.len.fetch_add(1, Ordering::Relaxed);
        let mut head = cell.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: The packet is ours, and in no other list.
            unsafe { set_next(skb, head) };
            match cell
                .head
                .compare_exchange_weak(head, skb, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(other) => head = other,
            }
        }
        if head.is_null() {
            // SAFETY: The NAPI is enabled until the queues are dropped.
            unsafe { schedule(cell.napi.get()) };
        }
        Ok(())
    }
}

/// A packet from a queue, and the device that it waited for.
///
/// # Safety
///
/// The packet must be from a queue of such packets, and taken out of it.
#[inline]
unsafe fn taken<V: Esp>(skb: NonNull<bindings::sk_buff>) -> (Packet<V>, DeviceRef) {
    // SAFETY: It was put into the queue as such a packet.
    let packet = unsafe { Packet::<V>::from_raw(skb) };
    // SAFETY: The packet has had a reference to its device since then.
    let dev = unsafe { packet.skb().dev_from_packet() };
    (packet, dev)
}

impl Cell {
    /// Takes the next packet out.
    ///
    /// # Safety
    ///
    /// Only the poll may do this, or whoever knows that there is none.
    #[inline]
    unsafe fn pop(&self) -> Option<NonNull<bindings::sk_buff>> {
        let first = self.first.get();
        // SAFETY: By the requirement on this function nobody else uses it.
        let skb = match NonNull::new(unsafe { *first }) {
            Some(skb) => skb,
            None => {
                // Those that came last, turned around.
                let mut last = self.head.swap(ptr::null_mut(), Ordering::Acquire);
                let mut list = ptr::null_mut();
                while !last.is_null() {
                    // SAFETY: They are packets in this list, which was taken as a whole.
                    let next = unsafe { next(last) };
                    // SAFETY: As above.
                    unsafe { set_next(last, list) };
                    list = last;
                    last = next;
                }
                NonNull::new(list)?
            }
        };
        // SAFETY: The packet is the first one of the list.
        let rest = unsafe { next(skb.as_ptr()) };
        // SAFETY: As above.
        unsafe { *first = rest };
        // SAFETY: The packet is in no list any more.
        unsafe { set_next(skb.as_ptr(), ptr::null_mut()) };
        Some(skb)
    }
}

#[pinned_drop]
impl<V: Esp, P: Poll<V>> PinnedDrop for Queues<V, P> {
    fn drop(self: Pin<&mut Self>) {
        for cell in self.cells.iter() {
            // SAFETY: It was added in `new()`. This waits until it is not polled any more.
            unsafe { bindings::nfrust_helper_napi_del(cell.napi.get()) };
            // SAFETY: Nobody polls it, and nobody puts packets into it: whoever had the queues can
            // not reach them any more.
            while let Some(skb) = unsafe { cell.pop() } {
                // SAFETY: It was taken out just now.
                drop(unsafe { taken::<V>(skb) });
            }
        }
        // Netpoll looks through the NAPIs of a device in RCU read sections.
        // SAFETY: A module is unloaded in process context.
        unsafe { bindings::synchronize_rcu() };
    }
}

/// Makes a cell for each CPU there may ever be.
fn make_cells() -> Result<KVec<KBox<Cell>>> {
    let cpus = kernel::cpu::nr_cpu_ids() as usize;
    let mut cells = KVec::with_capacity(cpus, GFP_KERNEL)?;
    for _ in 0..cpus {
        let cell = Cell {
            napi: Opaque::zeroed(),
            head: AtomicPtr::new(ptr::null_mut()),
            len: AtomicU32::new(0),
            first: UnsafeCell::new(ptr::null_mut()),
        };
        cells.push(KBox::new(cell, GFP_KERNEL)?, GFP_KERNEL)?;
    }
    Ok(cells)
}

/// The number of this CPU, in a context in which it does not change.
#[inline(always)]
fn this_cpu() -> usize {
    let cpu: u32;
    // SAFETY: This reads a per-CPU variable of the kernel's, by one instruction.
    unsafe {
        core::arch::asm!(
            "mov {:e}, gs:[{}]",
            out(reg) cpu,
            sym bindings::cpu_number,
            options(nostack, readonly, preserves_flags),
        )
    };
    cpu as usize
}

/// Lets a NAPI be polled: `napi_schedule()`.
///
/// # Safety
///
/// The NAPI must be enabled.
#[inline]
unsafe fn schedule(napi: *mut bindings::napi_struct) {
    // SAFETY: By the requirement on this function.
    if unsafe { bindings::napi_schedule_prep(napi) } {
        // SAFETY: It may be scheduled, says the answer.
        unsafe { bindings::__napi_schedule(napi) };
    }
}

/// Where a packet keeps the one after it.
#[inline]
fn next_of(skb: *mut bindings::sk_buff) -> *mut *mut bindings::sk_buff {
    const { assert!(core::mem::offset_of!(bindings::sk_buff, __bindgen_anon_1) == 0) };
    skb.cast()
}

/// # Safety
///
/// `skb` must be a packet in a list that nobody else uses.
#[inline]
unsafe fn next(skb: *mut bindings::sk_buff) -> *mut bindings::sk_buff {
    // SAFETY: By the requirement on this function.
    unsafe { *next_of(skb) }
}

/// # Safety
///
/// `skb` must be a packet that nobody else uses.
#[inline]
unsafe fn set_next(skb: *mut bindings::sk_buff, next: *mut bindings::sk_buff) {
    // SAFETY: By the requirement on this function.
    unsafe { *next_of(skb) = next };
}

/// # Safety
///
/// NAPI calls this for the NAPI of a cell of a queue of such packets.
unsafe extern "C" fn poll<V: Esp, P: Poll<V>>(
    napi: *mut bindings::napi_struct,
    budget: c_int,
) -> c_int {
    const { assert!(core::mem::offset_of!(Cell, napi) == 0) };
    // SAFETY: The NAPI is the first field of a cell, which stays until the NAPI is deleted.
    let cell = unsafe { &*napi.cast::<Cell>() };
    let budget = usize::try_from(budget).unwrap_or(0).min(BATCH);
    // Without a budget, netpoll wants what was sent to be cleaned up, and nothing else.
    if budget == 0 {
        return 0;
    }
    let done = {
        let guard = rcu::read_lock();
        let rcu = Section::of(&guard);
        // SAFETY: The wrapper is transparent, the NAPI valid.
        let napi = unsafe { &*napi.cast::<Napi>() };
        // SAFETY: This is the poll.
        match unsafe { cell.pop() } {
            None => 0,
            // Each packet is counted before it is put in.
            Some(skb) if cell.len.load(Ordering::Relaxed) == 1 => {
                cell.len.fetch_sub(1, Ordering::Relaxed);
                // SAFETY: It was taken out just now.
                let (packet, _dev) = unsafe { taken::<V>(skb) };
                P::poll_one(packet, napi, rcu);
                1
            }
            // SAFETY: This is the poll, and it was taken out just now.
            Some(skb) => unsafe { poll_batch::<V, P>(cell, skb, budget, napi, rcu) },
        }
    };
    if done < budget {
        // SAFETY: The NAPI is being polled, here.
        unsafe { bindings::napi_complete_done(napi, done as c_int) };
    }
    done as c_int
}

/// Receives a packet together with those that wait with it. How many there were: at most `budget`.
/// By itself, as the batch takes a good part of the stack.
///
/// # Safety
///
/// Only the poll of the cell may do this; `first` must have been taken out of it.
#[inline(never)]
unsafe fn poll_batch<V: Esp, P: Poll<V>>(
    cell: &Cell,
    first: NonNull<bindings::sk_buff>,
    budget: usize,
    napi: &Napi,
    rcu: Section<'_>,
) -> usize {
    let mut batch = Batch::<V>::new();
    let mut next = Some(first);
    while let Some(skb) = next {
        // SAFETY: It was taken out just now.
        let (packet, dev) = unsafe { taken::<V>(skb) };
        batch.push(packet, dev);
        next = match batch.len() < budget {
            // SAFETY: This is the poll.
            true => unsafe { cell.pop() },
            false => None,
        };
    }
    let done = batch.len();
    cell.len.fetch_sub(done as u32, Ordering::Relaxed);
    P::poll(&mut batch, napi, rcu);
    // In place: to be dropped by value it would be copied first.
    batch.clear();
    done
}
