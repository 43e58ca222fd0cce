// SPDX-License-Identifier: GPL-2.0

//! Packets of ESP on their way in.
//!
//! C header: [`include/net/xfrm.h`](srctree/include/net/xfrm.h)

use super::{
    family::{self, Esp},
    handler::Handlers,
    mib::{self, Cause},
    mode,
    queue::Napi,
    state::{OwnedState, State}, //
};
use crate::{
    netns::Net,
    rcu::Section,
    skb::{OwnedSkb, SkBuff}, //
};
use core::{
    marker::PhantomData,
    mem::offset_of,
    ptr::NonNull, //
};
use kernel::prelude::*;
use logic::byteorder::Be32;
use nf_bindings as bindings;

/// What the first bytes of ESP's header say.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// The number of the state.
    pub spi: Be32,
    /// The packet's number, or the lower half of it.
    pub seq: Be32,
}

/// What the control block of a packet holds while it is ours.
#[repr(C)]
struct Control {
    /// What C expects in the control block of any packet that it receives.
    header: bindings::xfrm_tunnel_skb_cb,
    spi: u32,
    encap_type: u16,
    /// Some of this is where C expects what is behind ESP.
    _unused: u16,
    /// Where C expects it, too.
    seq: u32,
}

const _: () = {
    assert!(offset_of!(Control, seq) == offset_of!(bindings::xfrm_spi_skb_cb, seq));
    assert!(offset_of!(Control, _unused) <= offset_of!(bindings::xfrm_mode_skb_cb, protocol));
    assert!(offset_of!(bindings::xfrm_mode_skb_cb, protocol) < offset_of!(Control, seq));
};

/// ESP's header without the initialization vector, bytes.
const HEADER_LEN: u32 = 8;

/// A packet that GRO has, whose data begins with ESP's header.
///
/// It is still GRO's: [`take()`](Self::take) makes it ours, [`pass()`](Self::pass) leaves it.
pub struct Arrived<'a, V: Esp> {
    skb: &'a mut SkBuff,
    /// What was pulled so that it begins there, bytes.
    offset: u32,
    /// What ESP is in, `UDP_ENCAP_*`, or 0.
    encap_type: u16,
    /// Where the number of ESP's header stands, where C wants to know it.
    next_header_offset: u16,
    /// Whether the last state of the path is from us.
    found_state: bool,
    _version: PhantomData<V>,
}

/// What became of a packet that GRO had.
pub struct Outcome(*mut bindings::sk_buff);

impl Outcome {
    /// What C's function returns.
    #[inline]
    pub(crate) fn into_raw(self) -> *mut bindings::sk_buff {
        self.0
    }
}

impl<'a, V: Esp> Arrived<'a, V> {
    /// A packet from GRO; `None` if it is too short, and is left as it was.
    ///
    /// # Safety
    ///
    /// GRO must have called us with this packet of version `V`, whose next header is ESP's.
    #[inline]
    pub(crate) unsafe fn new(skb: *mut bindings::sk_buff) -> Option<Self> {
        // SAFETY: By the requirement on this function.
        let skb = unsafe { SkBuff::from_raw_mut(skb) };
        let cb = skb.control_block::<bindings::napi_gro_cb>();
        // SAFETY: In a packet that GRO has, this is what the control block holds.
        let offset = unsafe { (*cb).data_offset } as u32;
        // SAFETY: As above.
        let proto = unsafe { (*cb).proto };
        if !skb.pull(offset) {
            return None;
        }
        let encap_type = match u32::from(proto) == bindings::IPPROTO_UDP {
            true => bindings::UDP_ENCAP_ESPINUDP as u16,
            false => 0,
        };
        Some(Self {
            skb,
            offset,
            encap_type,
            next_header_offset: 0,
            found_state: false,
            _version: PhantomData,
        })
    }

    /// What ESP's header says, if there is a whole one: `xfrm_parse_spi()`.
    #[inline]
    pub fn header(&mut self) -> Option<Header> {
        if !self.skb.may_pull(HEADER_LEN) {
            return None;
        }
        let place = self.skb.transport_place();
        let &mut [a, b, c, d, e, f, g, h] = self.skb.bytes_at_mut(place)?;
        Some(Header {
            spi: Be32::from_bytes([a, b, c, d]),
            seq: Be32::from_bytes([e, f, g, h]),
        })
    }

    /// The packet.
    #[inline]
    pub fn skb(&self) -> &SkBuff {
        self.skb
    }

    /// Whether the header that leads to ESP is understood. What is not is left to C. Before
    /// anything is changed: C's `esp6` forgets to undo that.
    #[inline]
    pub fn find_way(&mut self) -> bool {
        let from = self.skb.network_place();
        let len = self.skb.data_place().wrapping_sub(from);
        if self.skb.data_place() < from {
            return false;
        }
        // SAFETY: GRO got here by this header, which therefore is in the linear part, and ends
        // where the data begins.
        let header =
            unsafe { core::slice::from_raw_parts(self.skb.network_header(), usize::from(len)) };
        match V::next_header_offset(header) {
            Some(offset) => {
                self.next_header_offset = offset;
                true
            }
            None => false,
        }
    }

    /// Finds the state of a packet that no device decrypted, and notes it in the packet's path, as
    /// if a device would. False where there is none, or no room; the packet has no path then.
    #[inline]
    pub fn find_state(&mut self, header: Header) -> bool {
        let mark = self.skb.mark();
        let daddr = self
            .skb
            .network_header()
            .wrapping_add(V::DADDR_OFFSET as usize);
        // SAFETY: A packet of version `V` has such an address there; GRO looked at it.
        let x = unsafe { OwnedState::lookup::<V>(self.skb.dev_net(), mark, daddr, header.spi) };
        // What is not for input is left to C, which counts it.
        let Some(x) = x.filter(|x| x.is_for_input()) else {
            self.skb.reset_secpath();
            return false;
        };
        let mark = x.output_mark(mark);
        if self.skb.push_state(x).is_err() {
            self.skb.reset_secpath();
            return false;
        }
        self.skb.set_mark(mark);
        self.found_state = true;
        true
    }

    /// Leaves the packet to the protocol's own handler, and not to be merged with others.
    #[inline]
    pub fn pass(self) -> Outcome {
        let offset = self.offset;
        // There is room: this much was pulled.
        self.skb.push(offset);
        let cb = self.skb.control_block_mut::<bindings::napi_gro_cb>();
        // SAFETY: In a packet that GRO has, this is what the control block holds.
        let cb = unsafe { &mut *cb };
        cb.flush = 1;
        // SAFETY: The union is a group of fields under two names.
        unsafe { cb.__bindgen_anon_2.zeroed.as_mut() }.set_same_flow(0);
        Outcome(core::ptr::null_mut())
    }

    /// Takes the packet from GRO, which must have its state in its path. Where that fails, for want
    /// of memory, it is passed.
    #[inline]
    pub fn take(self, header: Header) -> Result<(Packet<V>, Outcome), Outcome> {
        if !self.skb.set_xfrm_gro() {
            // Our own state is taken back, the device's is not.
            if self.found_state {
                self.skb.reset_secpath();
            }
            return Err(self.pass());
        }
        V::set_next_header_offset(self.skb, self.next_header_offset);
        let cb = self.skb.control_block_mut::<Control>();
        // SAFETY: GRO's own data is not needed any more, and all of this is plain data.
        let cb = unsafe { &mut *cb };
        cb.header.tunnel = pin_init::zeroed();
        cb.spi = header.spi.raw();
        cb.encap_type = self.encap_type;
        cb.seq = header.seq.raw();

        // SAFETY: GRO gives the packet up where it is told that it is in progress, which the
        // result, to be returned to it, does.
        let skb = unsafe { OwnedSkb::from_raw(NonNull::from(self.skb).cast()) };
        // INVARIANT: The control block was written above.
        let packet = Packet {
            skb,
            _version: PhantomData,
        };
        Ok((packet, Outcome(EINPROGRESS.to_ptr())))
    }
}

/// A packet of ESP over `V` that is ours, and has its state as the last of its path.
///
/// # Invariants
///
/// The control block is a [`Control`].
pub struct Packet<V: Esp> {
    skb: OwnedSkb,
    _version: PhantomData<V>,
}

/// What is left of a packet when the state's mode removed what it had added.
pub enum Inner<V: Esp> {
    /// A packet, or a payload behind its header.
    Left(Packet<V>),
    /// Nothing: the mode keeps the packet until more of it arrives.
    Kept,
}

impl<V: Esp> Packet<V> {
    /// Takes a packet back.
    ///
    /// # Safety
    ///
    /// `skb` must be from [`into_raw()`](Self::into_raw), and not have been taken back.
    #[inline]
    pub(crate) unsafe fn from_raw(skb: NonNull<bindings::sk_buff>) -> Self {
        // INVARIANT: As when it was given up.
        Self {
            // SAFETY: By the requirement on this function.
            skb: unsafe { OwnedSkb::from_raw(skb) },
            _version: PhantomData,
        }
    }

    /// Gives the packet up, for [`from_raw()`](Self::from_raw).
    #[inline]
    pub(crate) fn into_raw(self) -> *mut bindings::sk_buff {
        self.skb.into_raw()
    }

    #[inline]
    fn control(&self) -> &Control {
        // SAFETY: By the type's invariants.
        unsafe { &*self.skb.control_block() }
    }

    /// The packet's number, or the lower half of it.
    #[inline]
    pub fn seq(&self) -> Be32 {
        Be32::from_raw(self.control().seq)
    }

    /// The number of the state, as ESP's header said.
    #[inline]
    fn spi(&self) -> u32 {
        self.control().spi
    }

    /// What ESP is in, `UDP_ENCAP_*`, or 0.
    #[inline]
    pub fn encap_type(&self) -> u16 {
        self.control().encap_type
    }

    /// The packet.
    #[inline]
    pub fn skb(&self) -> &SkBuff {
        &self.skb
    }

    /// The state of the packet, the last of its path, if it is one of ESP over `V`: a device may
    /// have put any there.
    #[inline]
    pub fn state(&self) -> Option<&State> {
        self.skb.input_state().filter(|x| x.is_esp::<V>())
    }

    /// Whether the packet can wait until the poll of its device is over: it has nothing that only
    /// the RCU read section keeps, and is in the state's namespace, by which it will be seen
    /// whether the device went to another one.
    #[inline]
    pub fn can_wait(&self) -> bool {
        self.skb.dst().is_none() && self.is_at_home()
    }

    /// Whether the packet's device is in the namespace of its state.
    #[inline]
    pub fn is_at_home(&self) -> bool {
        self.state().is_some_and(|x| x.is_in(self.net()))
    }

    /// Drops the packet, and counts that its device had to: `rx_dropped`.
    #[cold]
    pub fn discard_at_device(self) {
        self.skb.count_rx_dropped();
    }

    /// The namespace that the packet arrived in.
    #[inline]
    pub fn net(&self) -> &Net {
        self.skb.dev_net()
    }

    /// Leaves the packet to C: `xfrm_input()`. It must be as it was.
    #[inline]
    pub fn leave(mut self) {
        let (spi, encap_type) = (self.spi(), self.encap_type());
        self.fill_for_lookup();
        // SAFETY: The control block is what C expects. C takes the packet over, and answers
        // nothing.
        unsafe {
            bindings::xfrm_input(self.into_raw(), family::ESP.into(), spi, encap_type.into())
        };
    }

    /// Fills the control block with what C needs to find a state, or to have one found.
    #[inline]
    fn fill_for_lookup(&mut self) {
        let cb = self.skb.control_block_mut::<bindings::xfrm_spi_skb_cb>();
        // SAFETY: This is of the same size, and plain data.
        let cb = unsafe { &mut *cb };
        cb.daddroff = V::DADDR_OFFSET;
        cb.family = V::ADDRESS_FAMILY;
    }

    /// Removes what ESP added around the payload. The number of the next header, or what is to be
    /// counted where it cannot be removed, or the packet is a dummy.
    #[inline]
    pub fn remove_esp(&mut self) -> Result<u8, Cause> {
        let x = core::ptr::from_ref(self.state().ok_or(Cause::Protocol)?);
        // SAFETY: The packet keeps its path, and that the state.
        let x = unsafe { &*x };
        u8::try_from(tail::<V>(x, &mut self.skb)).map_err(|_| Cause::Protocol)
    }

    /// Removes what the state's mode added.
    #[inline]
    pub fn remove_mode(mut self, next_header: u8) -> Result<Inner<V>, Self> {
        let Some(x) = self.state().map(core::ptr::from_ref) else {
            return Err(self);
        };
        // SAFETY: The packet keeps its path, and that the state.
        let x = unsafe { &*x };
        let seq = self.seq();
        let cb = self.skb.control_block_mut::<bindings::xfrm_mode_skb_cb>();
        // SAFETY: From here on C expects this in the control block.
        unsafe { (*cb).protocol = next_header };
        match mode::remove::<V>(x, &mut self.skb, seq) {
            Ok(mode::Removed::Left) => Ok(Inner::Left(self)),
            Ok(mode::Removed::Kept) => {
                // The mode has the packet.
                let _ = self.into_raw();
                Ok(Inner::Kept)
            }
            Err(_) => Err(self),
        }
    }

    /// Delivers what is left: `xfrm_input()` resumes there.
    #[inline]
    pub fn resume(self, next_header: u8) {
        if self.is_nested(next_header) {
            return self.find_next(next_header);
        }
        let spi = self.spi();
        // SAFETY: -2 is for packets that are left when the mode removed what it added; the control
        // block says which. C takes the packet over, and answers nothing.
        unsafe { bindings::xfrm_input(self.into_raw(), next_header.into(), spi, RESUME) };
    }

    /// Delivers what is left, to be received by a NAPI that is polled: what `xfrm_input()` does
    /// from there on.
    #[inline]
    pub fn deliver(
        mut self,
        next_header: u8,
        handlers: &Handlers<V>,
        napi: &Napi,
        rcu: Section<'_>,
    ) {
        if self.is_nested(next_header) {
            return self.find_next(next_header);
        }
        let leaves_packet = self.state().is_some_and(State::leaves_packet);
        if handlers.tell(rcu, &mut self.skb, 0) != 0 {
            crate::seldom();
            // The handler does not want it.
            handlers.tell(rcu, &mut self.skb, DROPPED);
            return;
        }
        self.skb.reset_conntrack();
        if !leaves_packet {
            // The handler may have taken the packet's path from it, and so that GRO has it.
            let is_gro = self.skb.offload().is_some_and(|offload| offload.is_gro());
            // SAFETY: The RCU read lock is held.
            let afinfo = unsafe { bindings::xfrm_state_afinfo_get_rcu(V::ADDRESS_FAMILY) };
            let finish = NonNull::new(afinfo).and_then(|afinfo| {
                // SAFETY: What was found is valid in the RCU read section.
                unsafe { (*afinfo.as_ptr()).transport_finish }
            });
            let Some(finish) = finish else {
                return;
            };
            if !is_gro {
                crate::seldom();
                // SAFETY: The packet is one of this family, and given away.
                unsafe { finish(self.into_raw(), 0) };
                return;
            }
            // SAFETY: The packet is one of this family. It is GRO's, and so comes back.
            unsafe { finish(self.skb.as_raw(), 1) };
        }
        self.skb.end_offload();
        self.skb.drop_valid_dst();
        napi.receive(self.skb);
    }

    /// Whether what is left belongs to another state: C would go on with this one's encapsulation
    /// if it resumed there.
    #[inline]
    fn is_nested(&self, next_header: u8) -> bool {
        is_transformed(next_header) && !self.state().is_some_and(State::leaves_packet)
    }

    /// Lets C find the state of what is left.
    #[cold]
    fn find_next(mut self, next_header: u8) {
        self.skb.end_offload();
        self.fill_for_lookup();
        // SAFETY: The control block is what C expects. C takes the packet over, and answers
        // nothing.
        unsafe { bindings::xfrm_input(self.into_raw(), next_header.into(), 0, 0) };
    }

    /// Drops the packet, counts why, and tells those who want to know.
    #[cold]
    pub fn discard(mut self, handlers: &Handlers<V>, cause: Cause, rcu: Section<'_>) {
        mib::count(self.net(), cause);
        handlers.tell(rcu, &mut self.skb, DROPPED);
    }
}

/// `encap_type` for packets that the mode is through with.
const RESUME: c_int = -2;
/// What those who want to know are told of packets that could not be received.
const DROPPED: c_int = -1;

/// Whether another state is to be found by this header: AH, ESP or IPComp.
#[inline]
fn is_transformed(next_header: u8) -> bool {
    matches!(
        u32::from(next_header),
        bindings::IPPROTO_AH | bindings::IPPROTO_ESP | bindings::IPPROTO_COMP
    )
}

/// Removes what ESP added around the payload: `input_tail` of `struct xfrm_type_offload`. The
/// number of the next header, or an errno.
#[inline(always)]
fn tail<V: Esp>(x: &State, skb: &mut SkBuff) -> c_int {
    if !skb.may_pull(HEADER_LEN.wrapping_add(x.iv_len())) {
        return EINVAL.to_errno();
    }
    if !skb.offload().is_some_and(|offload| offload.is_done()) {
        skb.forget_checksum();
    }
    // SAFETY: The packet was received by the state, which is the last of its path; header and
    // initialization vector are in the linear part.
    unsafe { V::input_done2(skb.as_raw()) }
}

/// The same for C, which calls it for packets that are not ours.
///
/// # Safety
///
/// C calls this for a decrypted packet whose state is one of ours.
pub(crate) unsafe extern "C" fn tail_for_c<V: Esp>(
    x: *mut bindings::xfrm_state,
    skb: *mut bindings::sk_buff,
) -> c_int {
    // SAFETY: The state is valid during the call.
    let x = unsafe { State::from_raw(x) };
    // SAFETY: The packet is valid, and ours during the call.
    tail::<V>(x, unsafe { SkBuff::from_raw_mut(skb) })
}
