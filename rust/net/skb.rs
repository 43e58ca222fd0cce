// SPDX-License-Identifier: GPL-2.0

//! Packets, `struct sk_buff`.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use crate::{
    conntrack::{Conn, CtInfo},
    dst::{Dst, OwnedDst},
    netns::Net,
    sock::Sock, //
};
use core::{
    mem::ManuallyDrop,
    ops::{Deref, DerefMut},
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*,
    types::Opaque, //
};
use logic::{
    checksum,
    header::{Headers, Scratch}, //
};
use nf_bindings as bindings;

/// Set in `skb->_skb_refdst` where the packet has no reference to its route: `SKB_DST_NOREF`.
const REFDST_NOREF: usize = 1;

/// A packet.
///
/// A header is a borrow of the packet, and whatever may move a packet's data (a pull, a BPF
/// program that may pull) takes the packet mutably. So a header that was looked at before cannot
/// be used after.
#[repr(transparent)]
pub struct SkBuff(Opaque<bindings::sk_buff>);

impl SkBuff {
    /// Wraps a pointer from C.
    ///
    /// # Safety
    ///
    /// `ptr` must point to a valid packet whose data nobody else moves or frees during `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw_mut<'a>(ptr: *mut bindings::sk_buff) -> &'a mut Self {
        // SAFETY: By the requirement on this function; the wrapper is transparent.
        unsafe { &mut *ptr.cast() }
    }

    /// The pointer for C.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::sk_buff {
        self.0.get()
    }

    /// The C structure. All that is read through this is stable while we hold the packet.
    #[inline]
    fn fields(&self) -> &bindings::sk_buff {
        // SAFETY: The packet is valid by the type's construction, and it is ours: nobody writes
        // these fields meanwhile, except through `&mut self`.
        unsafe { &*self.as_raw() }
    }

    /// The C structure, to be written. Nothing borrows the packet's data meanwhile.
    #[inline]
    fn fields_mut(&mut self) -> &mut bindings::sk_buff {
        // SAFETY: The packet is valid by the type's construction, and it is ours.
        unsafe { &mut *self.as_raw() }
    }

    /// A field that C has in an anonymous union, by its offset.
    #[inline]
    fn field<T>(&self, offset: usize) -> *mut T {
        self.as_raw().cast::<u8>().wrapping_add(offset).cast()
    }

    /// The route, and in the lowest bit whether there is no reference to it.
    #[inline]
    fn refdst(&self) -> usize {
        // SAFETY: The field is at that offset, of this size, which C checked.
        unsafe {
            self.field::<usize>(bindings::RUST_OFFSETOF_sk_buff__skb_refdst)
                .read()
        }
    }

    /// The network header, `skb_network_header()`.
    #[inline]
    pub(crate) fn network_header(&self) -> *const u8 {
        let offset = self.field::<u16>(bindings::RUST_OFFSETOF_sk_buff_network_header);
        // SAFETY: The field is at that offset, of this size, which C checked.
        let offset = unsafe { offset.read() };
        self.fields().head.wrapping_add(usize::from(offset))
    }

    /// The socket that the packet belongs to, `skb->sk`.
    #[inline]
    pub fn sock(&self) -> Option<&Sock> {
        // SAFETY: NULL, or a socket that the packet keeps; the wrapper is transparent.
        unsafe { self.fields().sk.cast::<Sock>().as_ref() }
    }

    /// The ethertype, `skb->protocol`, network byte order.
    #[inline]
    pub(crate) fn protocol(&self) -> u16 {
        let field = self.field::<u16>(bindings::RUST_OFFSETOF_sk_buff_protocol);
        // SAFETY: The field is at that offset, of this size, which C checked.
        unsafe { field.read() }
    }

    /// Takes the packet from its socket: `skb_orphan()`.
    #[inline]
    pub fn orphan(&mut self) {
        let destructor = self.field::<Option<unsafe extern "C" fn(*mut bindings::sk_buff)>>(
            bindings::RUST_OFFSETOF_sk_buff_destructor,
        );
        // SAFETY: The field is at that offset, and the packet is ours.
        if let Some(destroy) = unsafe { destructor.read() } {
            // SAFETY: It was put there for this packet, and is called once.
            unsafe { destroy(self.as_raw()) };
            // SAFETY: As above.
            unsafe { destructor.write(None) };
            // SAFETY: The packet is ours.
            unsafe { (*self.as_raw()).sk = core::ptr::null_mut() };
        }
    }

    /// The packet's route, `skb_dst()`.
    #[inline]
    pub fn dst(&self) -> Option<&Dst> {
        let dst = core::ptr::with_exposed_provenance::<Dst>(self.refdst() & !REFDST_NOREF);
        // SAFETY: NULL, or a route that the packet keeps, by a reference or by the RCU section
        // that it is in; the wrapper is transparent.
        unsafe { dst.as_ref() }
    }

    /// Takes the packet's route from it: `skb_dst_drop()`.
    #[inline]
    pub fn drop_dst(&mut self) {
        let refdst = self.refdst();
        if refdst == 0 {
            return;
        }
        if refdst & REFDST_NOREF == 0 {
            // SAFETY: The packet has a reference to this route, which is given up here.
            unsafe { bindings::dst_release(core::ptr::with_exposed_provenance_mut(refdst)) };
        }
        let field = self.field::<usize>(bindings::RUST_OFFSETOF_sk_buff__skb_refdst);
        // SAFETY: The field is at that offset, and the packet is ours.
        unsafe { field.write(0) };
    }

    /// Gives the packet another route.
    #[inline]
    pub fn set_dst(&mut self, dst: OwnedDst) {
        self.drop_dst();
        // SAFETY: The packet is ours.
        let skb = unsafe { &mut *self.as_raw() };
        // SAFETY: The union is a group of fields under two names.
        let headers = unsafe { skb.__bindgen_anon_4.headers.as_mut() };
        // GRO may not take the short way with a packet that has a route.
        headers.set_slow_gro(1);
        let field = self.field::<usize>(bindings::RUST_OFFSETOF_sk_buff__skb_refdst);
        // SAFETY: The field is at that offset; the packet takes the reference over.
        unsafe { field.write(dst.into_raw().expose_provenance()) };
    }

    /// The room before the data, bytes: `skb_headroom()`.
    #[inline]
    pub fn headroom(&self) -> u32 {
        let skb = self.fields();
        skb.data.addr().wrapping_sub(skb.head.addr()) as u32
    }

    /// Makes `more` bytes more room before the data: `pskb_expand_head()`. `ENOMEM`.
    pub fn expand_head(&mut self, more: u32) -> Result {
        // SAFETY: The packet is ours, and nothing borrows its data.
        to_result(unsafe {
            bindings::pskb_expand_head(self.as_raw(), more as i32, 0, bindings::GFP_ATOMIC)
        })
        .map_err(|_| ENOMEM)
    }

    /// The connection that conntrack attached, if the packet has this place in it.
    #[inline(always)]
    pub fn conntrack_as(&self, info: CtInfo) -> Option<&Conn> {
        // SAFETY: The packet holds a reference to its connection.
        unsafe { Conn::from_nfct_as(self.fields()._nfct, info) }
    }

    /// The layer's own data in the packet, `skb->cb`, as a `T`.
    #[inline]
    pub(crate) fn control_block<T>(&self) -> *const T {
        const { assert!(size_of::<T>() <= 48) };
        (&raw const self.fields().cb).cast()
    }

    /// The connection that conntrack attached, with the packet's place in it: `nf_ct_get()`.
    #[inline]
    pub fn conntrack(&self) -> (CtInfo, Option<&Conn>) {
        // SAFETY: The packet holds a reference to its connection.
        unsafe { Conn::from_nfct(self.fields()._nfct) }
    }
}

impl SkBuff {
    /// `N` bytes at `offset`, if they are in the linear part.
    #[inline(always)]
    fn linear_header<const N: usize>(&self, offset: u32) -> Option<&[u8; N]> {
        let skb = self.fields();
        let linear = skb.len.wrapping_sub(skb.data_len);

        // Signed, as C's: an offset beyond the linear part gives a negative room.
        if (linear.wrapping_sub(offset) as i32) < const { N as i32 } {
            return None;
        }
        let header = skb.data.wrapping_add(offset as usize).cast::<[u8; N]>();
        // SAFETY: `offset + N` bytes lie in the linear part, so this is no null pointer.
        unsafe { core::hint::assert_unchecked(!header.is_null()) };
        // SAFETY: As above; nothing moves the linear part while the packet is borrowed, and an
        // array of bytes has no alignment to keep.
        Some(unsafe { &*header })
    }

    /// The slow half of `skb_header_pointer()`: collects a header that is not in one piece.
    #[cold]
    #[inline(never)]
    fn copy_header<'a, const N: usize>(
        &'a self,
        offset: u32,
        scratch: &'a mut Scratch<N>,
    ) -> Option<&'a [u8; N]> {
        let room = scratch.room();
        // SAFETY: The packet is valid and there is room for `N` bytes.
        let err = unsafe {
            bindings::skb_copy_bits(
                self.as_raw(),
                offset as i32,
                room.as_mut_ptr().cast(),
                N as i32,
            )
        };
        if err < 0 {
            return None;
        }
        // SAFETY: `skb_copy_bits()` succeeded, so it wrote all `N` bytes.
        Some(unsafe { room.assume_init_ref() })
    }
}

impl Headers for SkBuff {
    #[inline(always)]
    fn header<'a, const N: usize>(
        &'a self,
        offset: u32,
        scratch: &'a mut Scratch<N>,
    ) -> Option<&'a [u8; N]> {
        match self.linear_header(offset) {
            Some(header) => Some(header),
            None => self.copy_header(offset, scratch),
        }
    }
}

/// The linear part of a packet alone: no header of it has to be collected. For a first try, after
/// which whatever needs a call and room on the stack can be left to a function of its own.
pub(crate) struct Linear<'a>(pub(crate) &'a SkBuff);

impl Headers for Linear<'_> {
    #[inline(always)]
    fn header<'a, const N: usize>(
        &'a self,
        offset: u32,
        _scratch: &'a mut Scratch<N>,
    ) -> Option<&'a [u8; N]> {
        self.0.linear_header(offset)
    }
}

/// What GSO, GRO and devices say of a packet's checksum: `CHECKSUM_COMPLETE`, `skb->csum` is the
/// sum of all the data.
const CHECKSUM_COMPLETE: u8 = bindings::CHECKSUM_COMPLETE as u8;
/// `skb->mac_header` while there is none.
const NO_MAC_HEADER: u16 = u16::MAX;

/// What the data of a packet is, and where in it the headers are.
impl SkBuff {
    /// The packet's length, bytes.
    #[inline]
    pub fn len(&self) -> u32 {
        self.fields().len
    }

    /// Whether there is nothing in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length of the linear part, bytes: `skb_headlen()`.
    #[inline]
    fn head_len(&self) -> u32 {
        let skb = self.fields();
        skb.len.wrapping_sub(skb.data_len)
    }

    /// Whether some of the data is not in the linear part: `skb_is_nonlinear()`.
    #[inline]
    pub(crate) fn is_nonlinear(&self) -> bool {
        self.fields().data_len != 0
    }

    /// The end of the buffer, `skb_end_pointer()`.
    #[inline]
    pub(crate) fn end(&self) -> *mut u8 {
        let skb = self.fields();
        skb.head.wrapping_add(skb.end as usize)
    }

    /// Makes the linear part at least `len` bytes long, if the packet is: `pskb_may_pull()`.
    #[inline]
    pub fn may_pull(&mut self, len: u32) -> bool {
        let linear = self.head_len();
        if len <= linear {
            return true;
        }
        crate::seldom();
        if len > self.len() {
            return false;
        }
        // SAFETY: The packet is ours, and has this many bytes more.
        !unsafe { bindings::__pskb_pull_tail(self.as_raw(), len.wrapping_sub(linear) as i32) }
            .is_null()
    }

    /// Lets the data begin `len` bytes later: `pskb_pull()`. False where there is not so much.
    #[inline]
    pub(crate) fn pull(&mut self, len: u32) -> bool {
        if !self.may_pull(len) {
            return false;
        }
        let skb = self.fields_mut();
        skb.len = skb.len.wrapping_sub(len);
        skb.data = skb.data.wrapping_add(len as usize);
        true
    }

    /// Lets the data begin `len` bytes earlier, if there is room: `skb_push()`.
    #[inline]
    pub(crate) fn push(&mut self, len: u32) -> bool {
        if self.headroom() < len {
            return false;
        }
        let skb = self.fields_mut();
        skb.len = skb.len.wrapping_add(len);
        skb.data = skb.data.wrapping_sub(len as usize);
        true
    }

    /// Lets the data begin at a place, earlier or later. False where the linear part ends before
    /// it, or the buffer begins after it.
    #[inline]
    pub(crate) fn begin_at(&mut self, place: u16) -> bool {
        match u32::from(place).checked_sub(self.headroom()) {
            Some(later) => self.pull(later),
            None => {
                let earlier = self.headroom().wrapping_sub(place.into());
                self.push(earlier)
            }
        }
    }

    /// Reads a header's place, or another field of 16 bits.
    #[inline]
    fn read_u16(&self, offset: usize) -> u16 {
        // SAFETY: The callers pass offsets of fields of this size, which C checked.
        unsafe { self.field::<u16>(offset).read() }
    }

    /// Writes a header's place, or another field of 16 bits.
    #[inline]
    fn write_u16(&mut self, offset: usize, value: u16) {
        // SAFETY: The callers pass offsets of fields of this size, which C checked.
        unsafe { self.field::<u16>(offset).write(value) };
    }

    /// Where the network header is, bytes from the beginning of the buffer.
    #[inline]
    pub(crate) fn network_place(&self) -> u16 {
        self.read_u16(bindings::RUST_OFFSETOF_sk_buff_network_header)
    }

    /// Sets where the network header is.
    #[inline]
    pub(crate) fn set_network_place(&mut self, place: u16) {
        self.write_u16(bindings::RUST_OFFSETOF_sk_buff_network_header, place);
    }

    /// Where the transport header is, bytes from the beginning of the buffer.
    #[inline]
    pub(crate) fn transport_place(&self) -> u16 {
        self.read_u16(bindings::RUST_OFFSETOF_sk_buff_transport_header)
    }

    /// Notes that it is not known where the transport header is: `skb_unset_transport_header()`.
    #[inline]
    pub(crate) fn unset_transport_header(&mut self) {
        self.set_transport_place(u16::MAX);
    }

    /// Takes the packet's route from it, unless that is what a tunnel says of the packet:
    /// `skb_valid_dst()`, `skb_dst_drop()`.
    #[inline]
    pub(crate) fn drop_valid_dst(&mut self) {
        if self.dst().is_some_and(|dst| !dst.is_metadata()) {
            self.drop_dst();
        }
    }

    /// Sets where the transport header is.
    #[inline]
    pub(crate) fn set_transport_place(&mut self, place: u16) {
        self.write_u16(bindings::RUST_OFFSETOF_sk_buff_transport_header, place);
    }

    /// Where the link layer's header is, bytes from the beginning of the buffer, if there is one.
    #[inline]
    pub(crate) fn mac_place(&self) -> Option<u16> {
        let place = self.read_u16(bindings::RUST_OFFSETOF_sk_buff_mac_header);
        (place != NO_MAC_HEADER).then_some(place)
    }

    /// Where the data begins, bytes from the beginning of the buffer.
    #[inline]
    pub(crate) fn data_place(&self) -> u16 {
        // Buffers are short enough: the places of headers have 16 bits.
        self.headroom() as u16
    }

    /// Where a place is in memory.
    #[inline]
    pub(crate) fn at_place(&self, place: u16) -> *mut u8 {
        self.fields().head.wrapping_add(usize::from(place))
    }

    /// The place of something in the buffer.
    #[inline]
    pub(crate) fn place_of(&self, at: *mut u8) -> u16 {
        at.addr().wrapping_sub(self.fields().head.addr()) as u16
    }

    /// `N` bytes at a place, up to the end of the linear part, to be written.
    #[inline]
    pub(crate) fn bytes_at_mut<const N: usize>(&mut self, place: u16) -> Option<&mut [u8; N]> {
        let end = self.headroom().wrapping_add(self.head_len()) as usize;
        if usize::from(place) + N > end {
            return None;
        }
        let bytes = self.fields().head.wrapping_add(usize::from(place));
        // SAFETY: So many bytes are there before the end of the linear part, they are initialized,
        // and the packet is ours. An array of bytes has no alignment to keep.
        Some(unsafe { &mut *bytes.cast::<[u8; N]>() })
    }

    /// `len` bytes at a place, up to the end of the linear part.
    #[inline]
    pub(crate) fn bytes_at(&self, place: u16, len: usize) -> Option<&[u8]> {
        let end = self.headroom().wrapping_add(self.head_len()) as usize;
        if usize::from(place).wrapping_add(len) > end {
            return None;
        }
        let bytes = self.fields().head.wrapping_add(usize::from(place));
        // SAFETY: So many bytes are there before the end of the linear part, and initialized.
        Some(unsafe { core::slice::from_raw_parts(bytes, len) })
    }

    /// Moves `len` bytes from one place to another, neither of which reaches beyond the linear
    /// part; else nothing is done, and the result is false.
    #[inline]
    pub(crate) fn move_bytes(&mut self, from: u16, to: u16, len: u16) -> bool {
        let end = self.headroom().wrapping_add(self.head_len());
        if u32::from(from.max(to)) + u32::from(len) > end {
            return false;
        }
        let head = self.fields().head;
        let (from, to) = (
            head.wrapping_add(usize::from(from)),
            head.wrapping_add(usize::from(to)),
        );
        // SAFETY: Both are in the buffer, before the end of the linear part; the packet is ours.
        unsafe { core::ptr::copy(from, to, usize::from(len)) };
        true
    }

    /// Puts the link layer's header right before the data again: `skb_mac_header_rebuild()`.
    #[inline]
    pub(crate) fn rebuild_mac_header(&mut self) {
        let Some(old) = self.mac_place() else {
            return;
        };
        let len = self.fields().mac_len;
        let place = self.data_place().wrapping_sub(len);
        if self.move_bytes(old, place, len) {
            self.write_u16(bindings::RUST_OFFSETOF_sk_buff_mac_header, place);
        }
    }

    /// The length of the link layer's header as it was received, bytes, if there is one.
    #[inline]
    pub(crate) fn mac_len(&self) -> u16 {
        self.fields().mac_len
    }

    /// Sets the ethertype, in the machine's byte order.
    #[inline]
    pub(crate) fn set_protocol(&mut self, ethertype: u16) {
        self.write_u16(bindings::RUST_OFFSETOF_sk_buff_protocol, ethertype.to_be());
    }

    /// Writes the packet's ethertype to the link layer's header, which is Ethernet's.
    #[inline]
    pub(crate) fn write_mac_protocol(&mut self) {
        const PROTOCOL: u16 = 12;

        let protocol = self.protocol().to_ne_bytes();
        if let Some(mac) = self.mac_place() {
            if let Some(field) = self.bytes_at_mut(mac.wrapping_add(PROTOCOL)) {
                *field = protocol;
            }
        }
    }

    /// Makes room for `need` bytes before the data, and the header the packet's own:
    /// `skb_cow_head()`. `ENOMEM`.
    pub(crate) fn make_headroom(&mut self, need: u32) -> Result {
        let have = self.headroom();
        if have < need {
            return self.expand_head(need - have);
        }
        self.unclone()
    }

    /// The mark, `skb->mark`.
    #[inline]
    pub fn mark(&self) -> u32 {
        let field = self.field::<u32>(bindings::RUST_OFFSETOF_sk_buff_mark);
        // SAFETY: The field is at that offset, of this size, which C checked.
        unsafe { field.read() }
    }

    /// Sets the mark.
    #[inline]
    pub(crate) fn set_mark(&mut self, mark: u32) {
        let field = self.field::<u32>(bindings::RUST_OFFSETOF_sk_buff_mark);
        // SAFETY: As above, and the packet is ours.
        unsafe { field.write(mark) };
    }

    /// The device that the packet is at, `skb->dev`.
    #[inline]
    pub(crate) fn dev(&self) -> *mut bindings::net_device {
        let field = self.field::<*mut bindings::net_device>(bindings::RUST_OFFSETOF_sk_buff_dev);
        // SAFETY: The field is at that offset, of this size, which C checked.
        unsafe { field.read() }
    }

    /// The namespace of the packet's device: `dev_net()`.
    ///
    /// The packet must have a device, which all have that were received.
    #[inline]
    pub(crate) fn dev_net(&self) -> &Net {
        let dev = self.dev();
        // SAFETY: A packet that was received has a device, which stays while the packet is ours.
        let net = unsafe { (*dev).nd_net.net };
        // SAFETY: The namespace of a device outlives the device's stay in it.
        unsafe { Net::from_raw(net) }
    }

    /// Notes that the checksum was not looked at: `CHECKSUM_NONE`.
    #[inline]
    pub(crate) fn forget_checksum(&mut self) {
        // SAFETY: The union is a group of fields under two names.
        let headers = unsafe { self.fields_mut().__bindgen_anon_4.headers.as_mut() };
        headers.set_ip_summed(bindings::CHECKSUM_NONE as u8);
    }

    /// Notes that the checksum of a header in front is needed besides: `skb->encap_hdr_csum`.
    #[inline]
    pub(crate) fn want_outer_checksum(&mut self) {
        // SAFETY: The union is a group of fields under two names.
        let headers = unsafe { self.fields_mut().__bindgen_anon_4.headers.as_mut() };
        headers.set_encap_hdr_csum(1);
    }

    /// Adapts the sum of all the data, if it is known, to a word that was changed.
    #[inline]
    pub(crate) fn adapt_checksum(&mut self, from: [u8; 4], to: [u8; 4]) {
        // SAFETY: The union is a group of fields under two names.
        let headers = unsafe { self.fields().__bindgen_anon_4.headers.as_ref() };
        if headers.ip_summed() != CHECKSUM_COMPLETE {
            return;
        }
        let field = self.field::<u32>(bindings::RUST_OFFSETOF_sk_buff_csum);
        // SAFETY: The field is at that offset, of this size, which C checked.
        let csum = unsafe { field.read() };
        let csum = checksum::replace(csum, from, to);
        // SAFETY: As above, and the packet is ours.
        unsafe { field.write(csum) };
    }

    /// Whether others share the packet's data: `skb_cloned()`.
    #[inline]
    pub(crate) fn is_cloned(&self) -> bool {
        // SAFETY: The packet is valid.
        self.fields().cloned() != 0 && unsafe { bindings::nfrust_helper_skb_cloned(self.as_raw()) }
    }

    /// Makes the packet's header its own: `skb_unclone()`. `ENOMEM`.
    #[inline]
    pub(crate) fn unclone(&mut self) -> Result {
        if self.is_cloned() {
            return self.expand_head(0);
        }
        Ok(())
    }

    /// The extensions of the packet: which are there, and where.
    #[inline]
    pub(crate) fn extensions(&self) -> (u8, *mut bindings::skb_ext) {
        let skb = self.fields();
        (skb.active_extensions, skb.extensions)
    }

    /// The layer's own data in the packet, `skb->cb`, as a `T` to be written.
    #[inline]
    pub(crate) fn control_block_mut<T>(&mut self) -> *mut T {
        const { assert!(size_of::<T>() <= 48) };
        (&raw mut self.fields_mut().cb).cast()
    }

    /// Takes the packet from its connection: `nf_reset_ct()`.
    #[inline]
    pub(crate) fn reset_conntrack(&mut self) {
        if self.fields()._nfct != 0 {
            crate::seldom();
            // SAFETY: The packet is ours.
            unsafe { bindings::nfrust_helper_nf_reset_ct(self.as_raw()) };
        }
    }
}

/// A packet that is ours. Dropping it drops the packet: `kfree_skb()`.
///
/// # Invariants
///
/// The pointer is to a valid packet, which nobody else uses.
pub struct OwnedSkb(NonNull<bindings::sk_buff>);

// SAFETY: Nobody else uses it.
unsafe impl Send for OwnedSkb {}

impl OwnedSkb {
    /// Takes a packet over.
    ///
    /// # Safety
    ///
    /// `ptr` must point to a valid packet, which becomes the result's.
    #[inline]
    pub(crate) unsafe fn from_raw(ptr: NonNull<bindings::sk_buff>) -> Self {
        // INVARIANT: By the requirement on this function.
        Self(ptr)
    }

    /// Hands the packet over to C.
    #[inline]
    pub(crate) fn into_raw(self) -> *mut bindings::sk_buff {
        ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Deref for OwnedSkb {
    type Target = SkBuff;

    #[inline]
    fn deref(&self) -> &SkBuff {
        // SAFETY: By the type's invariants; the wrapper is transparent.
        unsafe { self.0.cast::<SkBuff>().as_ref() }
    }
}

impl DerefMut for OwnedSkb {
    #[inline]
    fn deref_mut(&mut self) -> &mut SkBuff {
        // SAFETY: By the type's invariants; the wrapper is transparent.
        unsafe { self.0.cast::<SkBuff>().as_mut() }
    }
}

impl Drop for OwnedSkb {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: By the type's invariants the packet is ours to give up.
        unsafe {
            bindings::sk_skb_reason_drop(
                core::ptr::null_mut(),
                self.0.as_ptr(),
                bindings::skb_drop_reason_SKB_DROP_REASON_NOT_SPECIFIED,
            )
        };
    }
}
