// SPDX-License-Identifier: GPL-2.0

//! Transformations of one security association, `struct xfrm_state`.
//!
//! What changes with each packet (the window of sequence numbers, the lifetime, whether the state
//! is valid) is under its lock, and can be reached through the guard of the lock alone.
//!
//! C header: [`include/net/xfrm.h`](srctree/include/net/xfrm.h)

use super::{
    family::{self, Esp},
    mib::Cause, //
};
use crate::{
    netns::Net,
    skb::SkBuff, //
};
use core::{
    ptr::{addr_of, addr_of_mut, NonNull},
    slice, //
};
use kernel::{
    sync::lock::{spinlock::SpinLockBackend, Guard, Lock},
    types::Opaque, //
};
use logic::{
    byteorder::Be32,
    replay::{self, Place, Refused}, //
};
use nf_bindings as bindings;

/// A state. Something else keeps it: the packet's path, or the caller of a function.
#[repr(transparent)]
pub struct State(Opaque<bindings::xfrm_state>);

/// What a state makes of a packet's headers, `XFRM_MODE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The header stays, and ESP comes behind it.
    Transport,
    /// A packet in a packet.
    Tunnel,
    /// A packet in a packet whose header is made up from the state.
    Beet,
    /// Functions of the mode's own module, where there are any.
    Other,
}

impl Mode {
    #[inline]
    pub(super) fn from_raw(mode: u8) -> Self {
        match u32::from(mode) {
            bindings::XFRM_MODE_TRANSPORT => Self::Transport,
            bindings::XFRM_MODE_TUNNEL => Self::Tunnel,
            bindings::XFRM_MODE_BEET => Self::Beet,
            _ => Self::Other,
        }
    }
}

impl State {
    /// Wraps a pointer from C.
    ///
    /// # Safety
    ///
    /// `ptr` must point to a state that outlives `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut bindings::xfrm_state) -> &'a Self {
        // SAFETY: By the requirement on this function; the wrapper is transparent.
        unsafe { &*ptr.cast() }
    }

    /// The pointer for C.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::xfrm_state {
        self.0.get()
    }

    /// Whether it transforms ESP over `V`.
    #[inline]
    pub fn is_esp<V: Esp>(&self) -> bool {
        // SAFETY: The state is valid; these are never changed.
        let proto = unsafe { (*self.as_raw()).id.proto };
        // SAFETY: As above.
        let family = unsafe { (*self.as_raw()).props.family };
        proto == family::ESP && u32::from(family) == V::ADDRESS_FAMILY
    }

    /// Whether it was valid a moment ago: only under its lock is that sure.
    #[inline]
    pub fn was_valid(&self) -> bool {
        // SAFETY: The state is valid; only an address is taken.
        let state = unsafe { addr_of!((*self.as_raw()).km.state) };
        // SAFETY: C reads this without a lock, too.
        let state = unsafe { state.read_volatile() };
        u32::from(state) == bindings::XFRM_STATE_VALID
    }

    /// Whether packets may be received with it, as far as it says.
    #[inline]
    pub(crate) fn is_for_input(&self) -> bool {
        // SAFETY: The state is valid; the direction is never changed.
        let dir = unsafe { (*self.as_raw()).dir };
        dir == 0 || u32::from(dir) == bindings::xfrm_sa_dir_XFRM_SA_DIR_IN
    }

    /// The mode.
    #[inline]
    pub fn mode(&self) -> Mode {
        // SAFETY: The state is valid; the mode is never changed.
        Mode::from_raw(unsafe { (*self.as_raw()).props.mode })
    }

    /// What packets are encapsulated in besides, `UDP_ENCAP_*`, or 0.
    #[inline]
    pub(super) fn encap_type(&self) -> u16 {
        // SAFETY: The state is valid.
        let encap = unsafe { (*self.as_raw()).encap };
        if encap.is_null() {
            return 0;
        }
        // SAFETY: It stays as long as the state.
        unsafe { (*encap).encap_type }
    }

    /// Flags of the state, `XFRM_STATE_*`.
    #[inline]
    pub(crate) fn flags(&self) -> u8 {
        // SAFETY: The state is valid; these are never changed.
        unsafe { (*self.as_raw()).props.flags }
    }

    /// Which packets it is for.
    #[inline]
    pub(crate) fn selector(&self) -> bindings::xfrm_selector {
        // SAFETY: The state is valid; only an address is taken.
        let selector = unsafe { addr_of!((*self.as_raw()).sel) };
        // SAFETY: C reads this without a lock, too.
        unsafe { selector.read() }
    }

    /// Whether the packet that is left is one by itself: `XFRM_MODE_FLAG_TUNNEL`.
    #[inline]
    pub fn leaves_packet(&self) -> bool {
        // SAFETY: The state is valid; the mode is never changed.
        let flags = unsafe { (*self.as_raw()).outer_mode.flags };
        u32::from(flags) & bindings::XFRM_MODE_FLAG_TUNNEL != 0
    }

    /// Whether it is in this namespace. (The state does not keep its namespace.)
    #[inline]
    pub fn is_in(&self, net: &Net) -> bool {
        // SAFETY: The state is valid, and never moves to another namespace.
        let own = unsafe { (*self.as_raw()).xs_net.net };
        core::ptr::eq(own, net.as_raw())
    }

    /// How long the initialization vector behind ESP's header is, bytes: `crypto_aead_ivsize()`.
    ///
    /// The state must be one of ESP.
    #[inline]
    pub(crate) fn iv_len(&self) -> u32 {
        // SAFETY: The state is valid.
        let aead = unsafe { (*self.as_raw()).data }.cast::<bindings::crypto_aead>();
        // SAFETY: A state of ESP keeps its cipher here, from before it can be found.
        let alg = unsafe { (*aead).base.__crt_alg };
        // The algorithm of such a cipher is part of this.
        let alg = alg
            .wrapping_byte_sub(bindings::RUST_OFFSETOF_aead_alg_base)
            .cast::<bindings::aead_alg>();
        // SAFETY: The cipher keeps its algorithm.
        unsafe { (*alg).ivsize }
    }

    /// The state's lock.
    #[inline]
    fn spin_lock(&self) -> &Lock<(), SpinLockBackend> {
        // SAFETY: The state is valid; only the address is taken.
        let lock = unsafe { addr_of_mut!((*self.as_raw()).lock) };
        // SAFETY: C initialized the lock when it made the state, which outlives this borrow.
        unsafe { Lock::from_raw(lock) }
    }

    /// Takes the lock, for packets that were received at `now` (seconds of the real time). Softirq
    /// context, or with softirqs disabled: C takes it there.
    #[inline]
    pub fn lock(&self, now: i64) -> Locked<'_> {
        // SAFETY: The state is valid; what its device does is never changed.
        let xso = unsafe { &(*self.as_raw()).xso };
        let is_device_asked = u32::from(xso.type_()) == bindings::XFRM_DEV_OFFLOAD_PACKET;
        let guard = self.spin_lock().lock();
        // INVARIANT: The guard is that of this state's lock.
        let mut locked = Locked {
            x: self,
            now,
            is_device_asked,
            lifetime: Lifetime::default(),
            _guard: guard,
        };
        locked.read_lifetime();
        locked
    }
}

/// A reference to a state. Dropping it releases the reference.
///
/// # Invariants
///
/// The pointer is to a valid state, and one of its references is ours.
pub(crate) struct OwnedState(NonNull<bindings::xfrm_state>);

impl OwnedState {
    /// Finds the state for a packet of ESP over `V` that arrived: `xfrm_input_state_lookup()`.
    ///
    /// # Safety
    ///
    /// `daddr` must point to an address of version `V`.
    #[inline]
    pub(crate) unsafe fn lookup<V: Esp>(
        net: &Net,
        mark: u32,
        daddr: *const u8,
        spi: Be32,
    ) -> Option<Self> {
        // SAFETY: The namespace is valid. An address of this family has as many bytes as are read.
        let x = unsafe {
            bindings::xfrm_input_state_lookup(
                net.as_raw(),
                mark,
                daddr.cast(),
                spi.raw(),
                family::ESP,
                V::ADDRESS_FAMILY as u16,
            )
        };
        // INVARIANT: What was found comes with a reference.
        NonNull::new(x).map(Self)
    }

    /// The mark of packets that the state was found for: `xfrm_smark_get()`.
    #[inline]
    pub(crate) fn output_mark(&self, mark: u32) -> u32 {
        // SAFETY: By the type's invariants the state is valid; only an address is taken.
        let smark = unsafe { addr_of!((*self.0.as_ptr()).props.smark) };
        // SAFETY: C reads this without a lock, too.
        let smark = unsafe { smark.read_volatile() };
        (smark.v & smark.m) | (mark & !smark.m)
    }

    /// Hands the reference over to C.
    #[inline]
    pub(crate) fn into_raw(self) -> *mut bindings::xfrm_state {
        core::mem::ManuallyDrop::new(self).0.as_ptr()
    }
}

impl core::ops::Deref for OwnedState {
    type Target = State;

    #[inline]
    fn deref(&self) -> &State {
        // SAFETY: By the type's invariants.
        unsafe { State::from_raw(self.0.as_ptr()) }
    }
}

impl Drop for OwnedState {
    fn drop(&mut self) {
        // SAFETY: By the type's invariants a reference is ours to give back.
        unsafe { bindings::nfrust_helper_xfrm_state_put(self.0.as_ptr()) };
    }
}

/// A state whose lock is held, until this is dropped.
///
/// The packets of a burst are counted here, and in the state when the lock is released or C looks.
///
/// # Invariants
///
/// `_guard` is of `x`'s lock.
pub struct Locked<'a> {
    x: &'a State,
    now: i64,
    /// Whether a device receives the packets as a whole, and has to be asked what it counted.
    is_device_asked: bool,
    lifetime: Lifetime,
    // Dropped after what `drop()` does.
    _guard: Guard<'a, (), SpinLockBackend>,
}

/// What a state has received, and from where on C is asked whether it may receive more.
#[derive(Default)]
struct Lifetime {
    bytes: u64,
    packets: u64,
    byte_limit: u64,
    packet_limit: u64,
}

/// The window of a state, and where in it a packet's number goes.
pub struct Accepted {
    seq: u32,
    place: Place,
}

impl Lifetime {
    /// Whether C need not be asked.
    #[inline(always)]
    fn lasts(&self) -> bool {
        self.bytes < self.byte_limit && self.packets < self.packet_limit
    }
}

impl Locked<'_> {
    /// Whether the state may be used, or what is counted where it may not.
    #[inline(always)]
    pub fn check_valid(&self) -> Result<(), Cause> {
        // SAFETY: The state is valid, and its lock held.
        let state = unsafe { (*self.x.as_raw()).km.state };
        if u32::from(state) == bindings::XFRM_STATE_VALID {
            return Ok(());
        }
        crate::seldom();
        match u32::from(state) {
            bindings::XFRM_STATE_ACQ => Err(Cause::Acquire),
            _ => Err(Cause::Invalid),
        }
    }

    /// What packets are encapsulated in besides, `UDP_ENCAP_*`, or 0.
    #[inline(always)]
    pub fn encap_type(&self) -> u16 {
        self.x.encap_type()
    }

    /// Whether a number may be received: `xfrm_replay_check()` without the record for audit.
    #[inline(always)]
    pub fn check_replay(&mut self, seq: Be32) -> Result<Accepted, Cause> {
        let seq = seq.to_host();
        match self.window().check(seq) {
            Ok(place) => Ok(Accepted { seq, place }),
            Err(refused) => {
                self.count_refused(refused);
                Err(Cause::Sequence)
            }
        }
    }

    #[cold]
    fn count_refused(&mut self, refused: Refused) {
        // SAFETY: The state is valid, and its lock held.
        let stats = unsafe { &mut (*self.x.as_raw()).stats };
        match refused {
            Refused::Zero => {}
            Refused::Left => stats.replay_window = stats.replay_window.wrapping_add(1),
            Refused::Seen => stats.replay = stats.replay.wrapping_add(1),
        }
    }

    /// Receives a packet of `len` bytes whose number is the next one, if the state's lifetime lasts
    /// without asking C: in short, what [`check_replay()`](Self::check_replay) and all that comes
    /// after it would do. False, and nothing is changed, for any other packet.
    #[inline(always)]
    pub fn receive_next(&mut self, seq: Be32, len: u32) -> bool {
        let lasts = self.lifetime.lasts();
        if !self.window().accept_next(seq.to_host(), || lasts) {
            return false;
        }
        self.notice_advance();
        self.account(len);
        true
    }

    /// Whether the state's lifetime lasts: `xfrm_state_check_expire()`. That is called only if it
    /// has something to do.
    #[inline]
    pub fn check_expire(&mut self) -> Result<(), Cause> {
        if self.lifetime.lasts() {
            return Ok(());
        }
        self.ask_expire()
    }

    /// Asks C.
    #[cold]
    #[inline(never)]
    fn ask_expire(&mut self) -> Result<(), Cause> {
        self.write_lifetime();
        // SAFETY: The state is valid, and its lock held.
        let result = unsafe { bindings::xfrm_state_check_expire(self.x.as_raw()) };
        self.read_lifetime();
        match result {
            0 => Ok(()),
            _ => Err(Cause::Expired),
        }
    }

    /// Takes over what the state has counted. C is asked for each packet while it has something to
    /// do: to note when the state was first used, to tell that a limit was reached, or to ask the
    /// device that receives packets as a whole.
    #[inline]
    fn read_lifetime(&mut self) {
        let x = self.x.as_raw();
        // SAFETY: The state is valid, and its lock held.
        let cur = unsafe { &(*x).curlft };
        // SAFETY: As above.
        let lft = unsafe { &(*x).lft };
        self.lifetime = Lifetime {
            bytes: cur.bytes,
            packets: cur.packets,
            byte_limit: lft.soft_byte_limit.min(lft.hard_byte_limit),
            packet_limit: lft.soft_packet_limit.min(lft.hard_packet_limit),
        };
        if cur.use_time == 0 || self.is_device_asked {
            self.lifetime.packet_limit = 0;
        }
    }

    /// Gives the state what was counted since then.
    #[inline]
    fn write_lifetime(&mut self) {
        let x = self.x.as_raw();
        // SAFETY: The state is valid, and its lock held.
        let cur = unsafe { &mut (*x).curlft };
        if cur.packets == self.lifetime.packets {
            return;
        }
        cur.packets = self.lifetime.packets;
        cur.bytes = self.lifetime.bytes;
        // SAFETY: As above.
        unsafe { (*x).lastused = self.now };
    }

    /// Notes a number as received: `xfrm_replay_advance()`, which also notifies listeners; those
    /// are the caller's.
    #[inline(always)]
    pub fn advance(&mut self, accepted: Accepted) {
        if self.window().accept(accepted.seq, accepted.place) {
            self.notice_advance();
        }
    }

    /// Tells the device, where that is to know, that the window advanced.
    #[inline(always)]
    fn notice_advance(&mut self) {
        // SAFETY: The state is valid.
        let mode = unsafe { (*self.x.as_raw()).repl_mode };
        if mode == bindings::xfrm_replay_mode_XFRM_REPLAY_MODE_ESN {
            self.advance_device();
        }
    }

    /// Tells the device: `xfrm_dev_state_advance_esn()`.
    #[inline(always)]
    fn advance_device(&mut self) {
        let x = self.x.as_raw();
        // SAFETY: The state is valid; only an address is taken.
        let dev = unsafe { addr_of!((*x).xso.dev) };
        // SAFETY: As above.
        let dev = unsafe { dev.read_volatile() };
        if dev.is_null() {
            return;
        }
        // SAFETY: The state has a reference to the device, which has these functions, or C would
        // not have given the state to it.
        let ops = unsafe { (*dev).xfrmdev_ops };
        // SAFETY: As above.
        if let Some(advance) = unsafe { (*ops).xdo_dev_state_advance_esn } {
            // SAFETY: The state is one that the device was given, and its lock is held.
            unsafe { advance(x) };
        }
    }

    /// Counts a packet of `len` bytes.
    #[inline(always)]
    pub fn account(&mut self, len: u32) {
        self.lifetime.bytes = self.lifetime.bytes.wrapping_add(u64::from(len));
        self.lifetime.packets = self.lifetime.packets.wrapping_add(1);
    }

    /// The window of the numbers that were received.
    #[inline(always)]
    fn window(&mut self) -> replay::Window<'_> {
        let x = self.x.as_raw();
        // SAFETY: The state is valid; its mode is never changed.
        let mode = unsafe { (*x).repl_mode };
        if mode == bindings::xfrm_replay_mode_XFRM_REPLAY_MODE_LEGACY {
            // SAFETY: The state is valid, and its lock, which keeps all others away, is held.
            let replay = unsafe { &mut (*x).replay };
            return replay::Window::Legacy(replay::Legacy {
                seq: &mut replay.seq,
                bitmap: &mut replay.bitmap,
                // SAFETY: As above; the window is never changed.
                window: u32::from(unsafe { (*x).props.replay_window }),
            });
        }
        // SAFETY: As above.
        let esn = unsafe { (*x).replay_esn };
        // SAFETY: In the other modes there is one, which only holders of the lock use. It is
        // followed by as many words as it says, which are not part of the structure.
        let words = unsafe { (*esn).bmp_len } as usize;
        // SAFETY: As above; this is where they are.
        let bitmap = unsafe { addr_of_mut!((*esn).bmp).cast::<u32>() };
        // SAFETY: As above.
        let bitmap = unsafe { slice::from_raw_parts_mut(bitmap, words) };
        // SAFETY: As above.
        let esn = unsafe { &mut *esn };
        let numbers = replay::Bitmap {
            seq: &mut esn.seq,
            window: esn.replay_window,
            bitmap,
        };
        match mode {
            bindings::xfrm_replay_mode_XFRM_REPLAY_MODE_ESN => replay::Window::Esn(replay::Esn {
                numbers,
                seq_hi: &mut esn.seq_hi,
            }),
            _ => replay::Window::Bitmap(numbers),
        }
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.write_lifetime();
    }
}

/// The record that a packet was refused by its number: `xfrm_audit_state_replay()`.
#[cold]
pub fn audit_replay(x: &State, skb: &SkBuff, seq: Be32) {
    // SAFETY: Both are valid.
    unsafe { bindings::xfrm_audit_state_replay(x.as_raw(), skb.as_raw(), seq.raw()) };
}
