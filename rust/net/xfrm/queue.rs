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
    family::Esp,
    input::Packet,
    mib::Cause, //
};
use crate::{
    netdev::{DeviceRef, Dummy},
    rcu::Section,
    skb::OwnedSkb, //
};
use core::{
    cell::{Cell as ResultCell, UnsafeCell},
    marker::PhantomData,
    mem::MaybeUninit,
    ops::Range,
    pin::Pin,
    ptr::{self, NonNull},
    slice,
    sync::atomic::{AtomicPtr, AtomicU32, Ordering}, //
};
use kernel::{
    prelude::*,
    sync::rcu,
    types::Opaque, //
};
use nf_bindings as bindings;

/// How many packets a poll can have: what NAPI gives at most.
pub const BATCH: usize = bindings::NAPI_POLL_WEIGHT as usize;

/// Receives packets that waited.
pub trait Poll<V: Esp>: Sized + 'static {
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

/// Packets that waited, in the order in which they came.
///
/// # Invariants
///
/// The first `len` are initialized.
pub struct Batch<V: Esp> {
    // Not an array of single ones, which is made somewhere else and then copied to here.
    packets: MaybeUninit<[Option<Waiting<V>>; BATCH]>,
    len: usize,
}

/// A packet that waited, and the device that it waited for.
struct Waiting<V: Esp> {
    packet: Packet<V>,
    dev: DeviceRef,
    /// Which state it is for, to tell it from others; or 0.
    state: usize,
    result: ResultCell<Result<u8, Cause>>,
}

/// A device that is kept until a packet of it has gone its way.
pub struct KeepDevice(#[expect(dead_code)] DeviceRef);

impl<V: Esp> Batch<V> {
    #[inline]
    fn new() -> Self {
        // INVARIANT: None is.
        Self {
            packets: MaybeUninit::uninit(),
            len: 0,
        }
    }

    /// Adds a packet, for which there must be room.
    #[inline]
    fn push(&mut self, waiting: Waiting<V>) {
        if self.len < BATCH {
            let place = self.packets.as_mut_ptr().cast::<Option<Waiting<V>>>();
            let place = place.wrapping_add(self.len);
            // SAFETY: There is room for this one, and nothing in it that would have to be dropped.
            unsafe { place.write(Some(waiting)) };
            // INVARIANT: Now it is initialized, too.
            self.len += 1;
        }
    }

    /// How many packets there were.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there were none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn packets(&self) -> &[Option<Waiting<V>>] {
        let packets = (&raw const self.packets).cast();
        // SAFETY: By the type's invariants.
        unsafe { slice::from_raw_parts(packets, self.len) }
    }

    #[inline]
    fn packets_mut(&mut self) -> &mut [Option<Waiting<V>>] {
        let packets = (&raw mut self.packets).cast();
        // SAFETY: By the type's invariants.
        unsafe { slice::from_raw_parts_mut(packets, self.len) }
    }

    /// A packet, if it was not taken.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&Packet<V>> {
        Some(&self.packets().get(index)?.as_ref()?.packet)
    }

    /// A packet, if it is for this state and was not taken.
    #[inline]
    pub fn get_of(&self, index: usize, state: usize) -> Option<&Packet<V>> {
        let waiting = self.packets().get(index)?.as_ref()?;
        (waiting.state == state).then_some(&waiting.packet)
    }

    /// A packet, to be changed, if it was not taken.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Packet<V>> {
        Some(&mut self.packets_mut().get_mut(index)?.as_mut()?.packet)
    }

    /// Which state a packet is for, if it was not taken: the same number for the same one.
    #[inline]
    pub fn state_of(&self, index: usize) -> Option<usize> {
        Some(self.packets().get(index)?.as_ref()?.state)
    }

    /// What was noted for a packet.
    #[inline]
    pub fn result(&self, index: usize) -> Result<u8, Cause> {
        match self.packets().get(index) {
            Some(Some(waiting)) => waiting.result.get(),
            _ => Err(Cause::Protocol),
        }
    }

    /// Notes what became of a packet.
    #[inline]
    pub fn set_result(&self, index: usize, result: Result<u8, Cause>) {
        if let Some(Some(waiting)) = self.packets().get(index) {
            waiting.result.set(result);
        }
    }

    /// Notes for each packet of a state in the range, in order, what `with` makes of what was noted
    /// before.
    #[inline(always)]
    pub fn note(
        &self,
        range: Range<usize>,
        state: usize,
        mut with: impl FnMut(&Packet<V>, Result<u8, Cause>) -> Result<u8, Cause>,
    ) {
        let waiting = self.packets().get(range).unwrap_or_default().iter();
        for waiting in waiting.flatten().filter(|waiting| waiting.state == state) {
            let result = with(&waiting.packet, waiting.result.get());
            waiting.result.set(result);
        }
    }

    /// Takes a packet out.
    #[inline]
    pub fn take(&mut self, index: usize) -> Option<(Packet<V>, KeepDevice)> {
        let waiting = self.packets_mut().get_mut(index)?.take()?;
        Some((waiting.packet, KeepDevice(waiting.dev)))
    }

    /// Drops all packets that were not taken.
    #[inline]
    fn clear(&mut self) {
        for waiting in self.packets_mut() {
            *waiting = None;
        }
        self.len = 0;
    }
}

impl<V: Esp> Drop for Batch<V> {
    #[inline]
    fn drop(&mut self) {
        self.clear();
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

/// A packet that was given up by [`Packet::into_raw()`], if there is one.
///
/// # Safety
///
/// The packet must be from a queue, and taken out of it.
#[inline]
unsafe fn waiting<V: Esp>(skb: NonNull<bindings::sk_buff>) -> Waiting<V> {
    // SAFETY: It was put into the queue as such a packet.
    let packet = unsafe { Packet::<V>::from_raw(skb) };
    // SAFETY: The packet has had a reference to its device since then.
    let dev = unsafe { packet.skb().dev_from_packet() };
    let state = packet.state().map_or(0, |x| ptr::from_ref(x).addr());
    Waiting {
        packet,
        dev,
        state,
        result: ResultCell::new(Err(Cause::Protocol)),
    }
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
                drop(unsafe { waiting::<V>(skb) });
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
    let mut batch = Batch::<V>::new();
    while batch.len < budget {
        // SAFETY: This is the poll.
        let Some(skb) = (unsafe { cell.pop() }) else {
            break;
        };
        // SAFETY: It was taken out just now.
        batch.push(unsafe { waiting::<V>(skb) });
    }
    let done = batch.len;
    cell.len.fetch_sub(done as u32, Ordering::Relaxed);
    if done > 0 {
        let guard = rcu::read_lock();
        // SAFETY: The wrapper is transparent, the NAPI valid.
        let napi = unsafe { &*napi.cast::<Napi>() };
        P::poll(&mut batch, napi, Section::of(&guard));
        // In place: to be dropped by value it would be copied first.
        batch.clear();
    }
    if done < budget {
        // SAFETY: The NAPI is being polled, here.
        unsafe { bindings::napi_complete_done(napi, done as c_int) };
    }
    done as c_int
}
