// SPDX-License-Identifier: GPL-2.0

//! Packets of ESP on their way out: what is done to one before a device encrypts it, or C does.
//!
//! C header: [`include/net/esp.h`](srctree/include/net/esp.h)

use super::{
    family::{self, Esp},
    secpath,
    state::{Mode, State}, //
};
use crate::{
    gso::Features,
    netfilter::ip::{Ipv4, Ipv6},
    skb::SkBuff, //
};
use core::{
    marker::PhantomData,
    ptr::{addr_of, NonNull}, //
};
use kernel::prelude::*;
use logic::{
    byteorder::Be32,
    checksum,
    esp, //
};
use nf_bindings as bindings;

/// What differs between sending over IPv4 and over IPv6.
///
/// The functions are C's, of `esp4` and `esp6`. All are inlined: a module then needs C's module of
/// the version that it serves, and no other.
pub trait Output: Esp {
    /// Whether features count that a device has for the last of a chain of headers only:
    /// `gso_partial_features`.
    const USES_PARTIAL_FEATURES: bool;
    /// Whether [`output_head()`](Self::output_head) writes that UDP follows to the link layer's
    /// header, which for packets that are not segmented stands for the number of what follows.
    #[doc(hidden)]
    const WRITES_UDP_TO_MAC: bool;
    /// Where in the header it stands what the header carries.
    #[doc(hidden)]
    const PROTOCOL_OFFSET: u16;

    /// Puts a trailer at the end, and UDP's header in front where the state says so:
    /// `esp_output_head()`. Negative where it fails.
    ///
    /// # Safety
    ///
    /// As for [`Outgoing`]; `info` must say where ESP's header is, in the packet's buffer.
    #[doc(hidden)]
    unsafe fn output_head(
        x: *mut bindings::xfrm_state,
        skb: *mut bindings::sk_buff,
        info: *mut bindings::esp_info,
    ) -> c_int;

    /// Encrypts: `esp_output_tail()`. The packet is C's where that returns `-EINPROGRESS`.
    ///
    /// # Safety
    ///
    /// As for [`Outgoing`]; `info` must be what [`output_head()`](Self::output_head) left.
    #[doc(hidden)]
    unsafe fn output_tail(
        x: *mut bindings::xfrm_state,
        skb: *mut bindings::sk_buff,
        info: *mut bindings::esp_info,
    ) -> c_int;

    /// What the header in front says that it carries, past extension headers where `skip` says so.
    #[doc(hidden)]
    fn carries(skb: &SkBuff, skip: bool) -> Option<u8>;

    /// Lets the header say that UDP follows it.
    #[doc(hidden)]
    #[inline(always)]
    fn set_udp(skb: &mut SkBuff) -> Result {
        let place = skb.network_place().wrapping_add(Self::PROTOCOL_OFFSET);
        *skb.bytes_at_mut(place).ok_or(EINVAL)? = [bindings::IPPROTO_UDP as u8];
        Ok(())
    }

    /// Completes the header, where the data begins: its length and its checksum.
    #[doc(hidden)]
    fn finish_header(skb: &mut SkBuff) -> Result;
}

impl Output for Ipv4 {
    const USES_PARTIAL_FEATURES: bool = true;
    const WRITES_UDP_TO_MAC: bool = false;
    const PROTOCOL_OFFSET: u16 = 9;

    #[inline(always)]
    unsafe fn output_head(
        x: *mut bindings::xfrm_state,
        skb: *mut bindings::sk_buff,
        info: *mut bindings::esp_info,
    ) -> c_int {
        // SAFETY: By the requirement on this function.
        unsafe { bindings::esp_output_head(x, skb, info) }
    }

    #[inline(always)]
    unsafe fn output_tail(
        x: *mut bindings::xfrm_state,
        skb: *mut bindings::sk_buff,
        info: *mut bindings::esp_info,
    ) -> c_int {
        // SAFETY: By the requirement on this function.
        unsafe { bindings::esp_output_tail(x, skb, info) }
    }

    #[inline(always)]
    fn carries(skb: &SkBuff, _skip: bool) -> Option<u8> {
        let place = skb.network_place().wrapping_add(Self::PROTOCOL_OFFSET);
        skb.bytes_at(place, 1)?.first().copied()
    }

    #[inline]
    fn finish_header(skb: &mut SkBuff) -> Result {
        let place = skb.network_place();
        let len = (skb.len() as u16).to_be_bytes();
        let header = skb.bytes_at_mut::<20>(place).ok_or(EINVAL)?;
        header[2..4].copy_from_slice(&len);
        header[10..12].copy_from_slice(&[0; 2]);
        let header_len = usize::from(header[0] & 0x0f) * 4;
        let check = skb.bytes_at(place, header_len).map(checksum::of_header);
        let header = skb.bytes_at_mut::<20>(place).ok_or(EINVAL)?;
        header[10..12].copy_from_slice(&check.ok_or(EINVAL)?);
        Ok(())
    }
}

impl Output for Ipv6 {
    const USES_PARTIAL_FEATURES: bool = false;
    const WRITES_UDP_TO_MAC: bool = true;
    const PROTOCOL_OFFSET: u16 = 6;

    #[inline(always)]
    unsafe fn output_head(
        x: *mut bindings::xfrm_state,
        skb: *mut bindings::sk_buff,
        info: *mut bindings::esp_info,
    ) -> c_int {
        // SAFETY: By the requirement on this function.
        unsafe { bindings::esp6_output_head(x, skb, info) }
    }

    #[inline(always)]
    unsafe fn output_tail(
        x: *mut bindings::xfrm_state,
        skb: *mut bindings::sk_buff,
        info: *mut bindings::esp_info,
    ) -> c_int {
        // SAFETY: By the requirement on this function.
        unsafe { bindings::esp6_output_tail(x, skb, info) }
    }

    #[inline]
    fn carries(skb: &SkBuff, skip: bool) -> Option<u8> {
        let place = skb.network_place().wrapping_add(Self::PROTOCOL_OFFSET);
        let mut next = skb.bytes_at(place, 1)?.first().copied()?;
        if skip {
            // What it cannot skip, C takes for what is carried, too.
            let _ = skip_extensions(skb, Self::HEADER_LEN, &mut next);
        }
        Some(next)
    }

    #[inline]
    fn finish_header(skb: &mut SkBuff) -> Result {
        // More than the field can say is a jumbogram, and 0 here.
        let len = skb.len().wrapping_sub(Self::HEADER_LEN);
        let len = u16::try_from(len).unwrap_or(0).to_be_bytes();
        let place = skb.network_place().wrapping_add(4);
        *skb.bytes_at_mut(place).ok_or(EINVAL)? = len;
        Ok(())
    }
}

/// Where what follows IPv6's extension headers begins, which begin at `start`, bytes from the
/// beginning of the data: `ipv6_skip_exthdr()`. `next` is what the first of them is, and then what
/// follows.
#[inline]
pub(super) fn skip_extensions(skb: &SkBuff, start: u32, next: &mut u8) -> Option<u32> {
    let mut fragment = 0;
    // SAFETY: The packet is valid.
    let offset =
        unsafe { bindings::ipv6_skip_exthdr(skb.as_raw(), start as c_int, next, &mut fragment) };
    u32::try_from(offset).ok()
}

/// What sending needs to know of a state. None of it ever changes.
impl State {
    /// The mode, of `x->outer_mode`.
    #[inline]
    pub fn outer_mode(&self) -> Mode {
        // SAFETY: The state is valid.
        Mode::from_raw(unsafe { (*self.as_raw()).outer_mode.encap })
    }

    /// Whether packets go in UDP besides.
    #[inline]
    pub fn is_in_udp(&self) -> bool {
        u32::from(self.encap_type()) == bindings::UDP_ENCAP_ESPINUDP
    }

    /// Whether its selector is for IPv6.
    #[inline]
    pub fn selects_v6(&self) -> bool {
        // SAFETY: The state is valid.
        let family = unsafe { addr_of!((*self.as_raw()).sel.family) };
        // SAFETY: As above.
        let family = unsafe { family.read() };
        u32::from(family) == bindings::AF_INET6
    }

    /// The SPI.
    #[inline]
    pub(super) fn spi(&self) -> Be32 {
        // SAFETY: The state is valid.
        Be32::from_raw(unsafe { (*self.as_raw()).id.spi })
    }

    /// How much comes in front of a packet, bytes.
    #[inline]
    pub(super) fn header_len(&self) -> i32 {
        // SAFETY: The state is valid.
        unsafe { (*self.as_raw()).props.header_len }
    }

    /// The family of what the state carries, if that is `protocol`: `xfrm_ip2inner_mode()`.
    #[inline]
    pub(super) fn inner_family(&self, protocol: u8) -> u32 {
        let x = self.as_raw();
        // SAFETY: The state is valid.
        let selected = unsafe { addr_of!((*x).sel.family) };
        // SAFETY: As above.
        let selects_one = unsafe { selected.read() } != 0;
        // SAFETY: As above.
        let family = u32::from(unsafe { (*x).props.family });
        let same = match u32::from(protocol) {
            bindings::IPPROTO_IPIP => family == bindings::AF_INET,
            bindings::IPPROTO_IPV6 => family == bindings::AF_INET6,
            _ => false,
        };
        // SAFETY: As above.
        let own = unsafe { (*x).inner_mode.family };
        // SAFETY: As above.
        let other = unsafe { (*x).inner_mode_iaf.family };
        u32::from(if selects_one || same { own } else { other })
    }
}

/// A packet that a state of ESP over `V` is about to transform.
///
/// # Invariants
///
/// The packet has a path whose last state is `x`, with room for what a device does for that state,
/// which is where `offload` points to. The transport header is in its buffer.
pub struct Outgoing<'a, V: Esp> {
    pub(super) skb: &'a mut SkBuff,
    x: &'a State,
    offload: NonNull<bindings::xfrm_offload>,
    _version: PhantomData<V>,
}

impl<'a, V: Esp> Outgoing<'a, V> {
    /// Takes what C's functions are called with. `None` where nothing is to be done by a device.
    ///
    /// # Safety
    ///
    /// `x` must be the last state of the packet's path, one of ESP over `V`.
    #[inline]
    pub(crate) unsafe fn new(x: &'a State, skb: &'a mut SkBuff) -> Option<Self> {
        let offload = secpath::find_offload(skb)?;
        // INVARIANT: By the requirement on this function; the place was found in the path.
        Some(Self {
            skb,
            x,
            offload,
            _version: PhantomData,
        })
    }

    /// The same, with the state that the path has.
    ///
    /// # Safety
    ///
    /// That must be one of ESP over `V`, and the path must keep it during `'a`.
    #[inline]
    pub(crate) unsafe fn from_path(skb: &'a mut SkBuff) -> Option<Self> {
        let x = skb.input_state()?.as_raw();
        // SAFETY: By the requirement on this function.
        let x = unsafe { State::from_raw(x) };
        // SAFETY: As above.
        unsafe { Self::new(x, skb) }
    }

    /// The state.
    #[inline]
    pub fn state(&self) -> &'a State {
        self.x
    }

    /// The packet, to be looked at.
    #[inline]
    pub fn skb(&self) -> &SkBuff {
        self.skb
    }

    /// What a device is to do. All segments of a packet have it in common until one gets its own,
    /// and they are sent one after the other by one CPU.
    #[inline]
    fn offload(&mut self) -> &mut bindings::xfrm_offload {
        // SAFETY: By the type's invariants. While a packet is on its way out, only the CPU that
        // sends it, or a segment of it, uses this; and it does so through this borrow.
        unsafe { self.offload.as_mut() }
    }

    /// What is carried, `IPPROTO_*`.
    #[inline]
    pub fn protocol(&mut self) -> u8 {
        self.offload().proto
    }

    /// Notes that C encrypts: `CRYPTO_FALLBACK`.
    #[inline]
    pub fn set_fallback(&mut self) {
        self.offload().flags |= bindings::CRYPTO_FALLBACK;
    }

    /// Notes that the packet, and so the segments, were segmented here: `XFRM_GSO_SEGMENT`.
    #[inline]
    pub fn set_segmented(&mut self) {
        self.offload().flags |= bindings::XFRM_GSO_SEGMENT;
    }

    /// Whether it leaves by the device that has the state.
    #[inline]
    pub fn leaves_by_own_device(&self) -> bool {
        // SAFETY: The state is valid. C reads this without a lock, too.
        let dev = unsafe { addr_of!((*self.x.as_raw()).xso.dev) };
        // SAFETY: As above.
        let dev = unsafe { dev.read_volatile() };
        dev == self.skb.dev()
    }

    /// What the device can do for the last of a chain of headers only: `gso_partial_features`.
    #[inline]
    pub fn partial_features(&self) -> Features {
        // SAFETY: A packet on its way out has a device.
        Features::from_raw(unsafe { (*self.skb.dev()).gso_partial_features })
    }

    /// Lets the data begin earlier, with the header in front.
    #[inline]
    fn push_header(&mut self) -> Result {
        let place = u32::from(self.skb.network_place());
        let earlier = self.skb.headroom().checked_sub(place).ok_or(EINVAL)?;
        // So much is there.
        self.skb.push(earlier);
        Ok(())
    }

    /// Writes the SPI and a number to a place.
    #[inline]
    fn write_numbers(&mut self, place: u16, seq: u32) -> Result {
        let spi = self.x.spi().raw().to_ne_bytes();
        let header = self.skb.bytes_at_mut::<8>(place).ok_or(EINVAL)?;
        header[..4].copy_from_slice(&spi);
        header[4..].copy_from_slice(&seq.to_be_bytes());
        Ok(())
    }
}

impl<'a, V: Output> Outgoing<'a, V> {
    /// Writes ESP's header behind the one in front, which says so then, for a packet that waits to
    /// be segmented; notes what is carried.
    #[inline]
    pub fn write_esp(&mut self) -> Result {
        self.push_header()?;
        let skip = self.x.outer_mode() == Mode::Transport;
        let protocol = V::carries(self.skb, skip).ok_or(EINVAL)?;
        // While a packet is transformed, this is where the header in front says what it carries.
        let next_header = self.skb.mac_place().ok_or(EINVAL)?;
        *self.skb.bytes_at_mut(next_header).ok_or(EINVAL)? = [family::ESP];

        let cb = self.skb.control_block::<bindings::xfrm_skb_cb>();
        // SAFETY: On the way out, this is what the control block holds.
        let output = unsafe { &(*cb).seq.output };
        // SAFETY: As above.
        let seq = unsafe { output.as_ref() }.low;
        self.write_numbers(self.skb.transport_place(), seq)?;
        self.offload().proto = protocol;
        Ok(())
    }

    /// Begins to transform the packet, whose data is all that ESP is to carry.
    #[inline]
    pub fn prepare(mut self) -> Prepared<'a, V> {
        // SAFETY: The state is valid.
        let aead = unsafe { (*self.x.as_raw()).data }.cast::<bindings::crypto_aead>();
        // SAFETY: A state of ESP keeps its cipher here, from before it can be found.
        let icv = unsafe { (*aead).authsize };
        // SAFETY: As above.
        let alg = unsafe { (*aead).base.__crt_alg };
        // SAFETY: The cipher keeps its algorithm.
        let block = unsafe { (*alg).cra_blocksize };
        let trailer = esp::trailer(self.skb.len(), block, icv);

        let info = bindings::esp_info {
            // INVARIANT: By the packet's invariants that is in the buffer.
            esph: self.skb.at_place(self.skb.transport_place()).cast(),
            clen: trailer.encrypted as c_int,
            plen: trailer.padding as c_int,
            tailen: trailer.total as c_int,
            proto: self.protocol(),
            inplace: true,
            seqno: 0,
            tfclen: 0,
            len: 0,
            nfrags: 0,
        };
        Prepared { packet: self, info }
    }
}

/// A packet that is being transformed, with what C's functions for that are told of it.
///
/// # Invariants
///
/// `info.esph` points into the packet's buffer. (Nothing here moves that but C's functions, which
/// keep this so.)
pub struct Prepared<'a, V: Output> {
    packet: Outgoing<'a, V>,
    info: bindings::esp_info,
}

impl<V: Output> Prepared<'_, V> {
    /// Puts a trailer at the end, and UDP's header in front where the state says so.
    ///
    /// `EMSGSIZE` where UDP cannot carry so much, `ENOMEM`.
    #[inline]
    pub fn add_trailer(&mut self) -> Result {
        let mac = self.mac_byte();
        let (x, skb) = (self.packet.x.as_raw(), self.packet.skb.as_raw());
        // SAFETY: By the types' invariants.
        let pieces = unsafe { V::output_head(x, skb, &mut self.info) };
        crate::errno::check(pieces)?;
        self.info.nfrags = pieces;
        self.restore_mac_byte(mac);
        Ok(())
    }

    /// The first byte of the link layer's header, if C is going to write to it.
    #[inline]
    fn mac_byte(&self) -> Option<u8> {
        if !V::WRITES_UDP_TO_MAC || !self.packet.x.is_in_udp() {
            return None;
        }
        let skb = &self.packet.skb;
        skb.bytes_at(skb.mac_place()?, 1)?.first().copied()
    }

    /// Puts it back.
    #[inline]
    fn restore_mac_byte(&mut self, byte: Option<u8>) {
        let (Some(byte), Some(place)) = (byte, self.packet.skb.mac_place()) else {
            return;
        };
        if let Some(at) = self.packet.skb.bytes_at_mut(place) {
            *at = [byte];
        }
    }

    /// The packet's number, and what is above its lower 32 bits.
    #[inline]
    pub fn number(&mut self) -> (u32, u32) {
        let number = &self.packet.offload().seq;
        (number.low, number.hi)
    }

    /// Whether it is a segment that was made by GSO, and not one that waits to be made by a device.
    #[inline]
    pub fn is_segmented(&mut self) -> bool {
        self.packet.offload().flags & bindings::XFRM_GSO_SEGMENT != 0
    }

    /// Counts the numbers that it takes, for the segments that come after it.
    #[inline]
    pub fn advance_number(&mut self) {
        let by = match self.packet.skb.is_gso() {
            true => u32::from(self.packet.skb.gso_segments()),
            false => 1,
        };
        let number = &mut self.packet.offload().seq;
        let (low, wrapped) = number.low.overflowing_add(by);
        number.low = low;
        number.hi = number.hi.wrapping_add(wrapped.into());
    }

    /// Writes the SPI into ESP's header, and the number where there is one.
    #[inline]
    pub fn write_esp(&mut self, seq: Option<u32>) -> Result {
        let place = self.packet.skb.place_of(self.info.esph.cast());
        if let Some(seq) = seq {
            return self.packet.write_numbers(place, seq);
        }
        let spi = self.packet.x.spi().raw().to_ne_bytes();
        *self.packet.skb.bytes_at_mut(place).ok_or(EINVAL)? = spi;
        Ok(())
    }

    /// Lets the data begin with the header in front.
    #[inline]
    pub fn push_header(&mut self) -> Result {
        self.packet.push_header()
    }

    /// Completes the header in front: its length and its checksum, and that UDP follows it where
    /// the state says so.
    #[inline]
    pub fn finish_header(&mut self) -> Result {
        if self.packet.x.is_in_udp() {
            V::set_udp(self.packet.skb)?;
        }
        V::finish_header(self.packet.skb)
    }

    /// Hands the packet over to a device, which has only to encrypt it: `XFRM_XMIT`. `ENOMEM`;
    /// `EINVAL` where nothing is to be done by a device any more.
    #[inline]
    pub fn leave_to_device(mut self) -> Result {
        const SEC_PATH: u32 = bindings::skb_ext_id_SKB_EXT_SEC_PATH;
        // Not with other segments any more.
        // SAFETY: The packet is ours, and has this extension.
        if unsafe { bindings::skb_ext_add(self.packet.skb.as_raw(), SEC_PATH) }.is_null() {
            return Err(ENOMEM);
        }
        // INVARIANT: A copy has the same states.
        self.packet.offload = secpath::find_offload(self.packet.skb).ok_or(EINVAL)?;
        self.packet.offload().flags |= bindings::XFRM_XMIT;
        Ok(())
    }

    /// Encrypts, with that as the 64-bit number. `EINPROGRESS` where that goes on; the packet is
    /// C's then. Else what the cipher fails with.
    #[inline]
    pub fn encrypt(mut self, (low, high): (u32, u32)) -> Result {
        self.info.seqno = ((u64::from(high) << 32) | u64::from(low)).to_be();
        let (x, skb) = (self.packet.x.as_raw(), self.packet.skb.as_raw());
        // SAFETY: By the types' invariants. If it is in progress, nothing of the packet is touched
        // below.
        match unsafe { V::output_tail(x, skb, &mut self.info) } {
            0 => {}
            // `NET_XMIT_DROP`, which C's caller takes for an error like any other.
            1.. => return Err(ENOBUFS),
            err => return Err(Error::from_errno(err)),
        }
        let skb = self.packet.skb;
        skb.reset_secpath();
        // SAFETY: A packet on its way out has a device.
        let features = Features::from_raw(unsafe { (*skb.dev()).features });
        if skb.needs_linearize(features) && !skb.may_pull(skb.len()) {
            return Err(ENOMEM);
        }
        Ok(())
    }
}
