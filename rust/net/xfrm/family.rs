// SPDX-License-Identifier: GPL-2.0

//! What differs between ESP over IPv4 and over IPv6.

use crate::{
    netfilter::ip::{Ipv4, Ipv6, Version},
    skb::SkBuff, //
};
use core::mem::offset_of;
use kernel::prelude::*;
use nf_bindings as bindings;

/// An IP version with ESP.
///
/// The functions are C's, of modules of their own (`esp4`, `esp6`). All are inlined: a module then
/// needs C's module of the version that it serves, and no other.
pub trait Esp: Version {
    /// How long a header without options or extension headers is, bytes.
    const HEADER_LEN: u32;
    /// The ethertype, `ETH_P_*`, in the machine's byte order.
    const ETHERTYPE: u16;
    /// Where in the header the destination's address stands.
    #[doc(hidden)]
    const DADDR_OFFSET: u32;
    /// A handler for protocols of IPsec, as C lists them.
    #[doc(hidden)]
    type Handler: 'static;

    /// `inet_add_offload()`, negative where the protocol has one.
    ///
    /// # Safety
    ///
    /// What `offload` points to must stay until it is taken away again.
    #[doc(hidden)]
    unsafe fn add_offload(offload: *const bindings::net_offload) -> c_int;

    /// `inet_del_offload()`, which waits until none is called any more.
    ///
    /// # Safety
    ///
    /// `offload` must have been added.
    #[doc(hidden)]
    unsafe fn del_offload(offload: *const bindings::net_offload);

    /// Removes what ESP added around the payload: `esp_input_done2()`.
    ///
    /// # Safety
    ///
    /// `skb` must be a packet of this version behind whose header ESP's begins, decrypted, with
    /// a state of ESP as the last of its secpath, and the header and the initialization vector in
    /// its linear part.
    #[doc(hidden)]
    unsafe fn input_done2(skb: *mut bindings::sk_buff) -> c_int;

    /// Writes how long a packet is, from the beginning of its header, into that header. `EINVAL`
    /// where there is none.
    #[doc(hidden)]
    fn set_length(skb: &mut SkBuff, len: u32) -> Result;

    /// The byte that says how a packet is treated, from the first word of its header.
    #[doc(hidden)]
    fn dsfield(word: [u8; 4]) -> u8;

    /// Where in a header that ends where ESP begins the number stands that says so, bytes; any
    /// value where C does not ask.
    #[doc(hidden)]
    fn next_header_offset(header: &[u8]) -> Option<u16>;

    /// Tells C of that place, in the packet's control block.
    #[doc(hidden)]
    fn set_next_header_offset(skb: &mut SkBuff, offset: u16);

    /// A handler which passes everything on, to stand before all others.
    #[doc(hidden)]
    fn handler() -> Self::Handler;

    /// `xfrm4_protocol_register()`.
    ///
    /// # Safety
    ///
    /// What `handler` points to must stay until it is taken away again.
    #[doc(hidden)]
    unsafe fn register_handler(handler: *mut Self::Handler) -> c_int;

    /// `xfrm4_protocol_deregister()`, which waits until it is not called any more.
    ///
    /// # Safety
    ///
    /// `handler` must have been registered.
    #[doc(hidden)]
    unsafe fn deregister_handler(handler: *mut Self::Handler);

    /// Where the handler keeps the one after it.
    #[doc(hidden)]
    fn next_handler(handler: *mut Self::Handler) -> *mut *mut Self::Handler;

    /// The handler's function for packets that were received, or could not be.
    ///
    /// # Safety
    ///
    /// `handler` must be valid.
    #[doc(hidden)]
    unsafe fn callback(handler: *const Self::Handler) -> Option<Callback>;
}

/// `cb_handler` of `struct xfrm4_protocol`.
#[doc(hidden)]
pub type Callback = unsafe extern "C" fn(*mut bindings::sk_buff, c_int) -> c_int;

/// ESP's number.
pub(crate) const ESP: u8 = bindings::IPPROTO_ESP as u8;

/// Where a handler stands that no other is to stand before.
const FIRST: c_int = c_int::MAX;

/// # Safety
///
/// Touches nothing.
unsafe extern "C" fn not_mine(_skb: *mut bindings::sk_buff) -> c_int {
    EINVAL.to_errno()
}

/// # Safety
///
/// Touches nothing.
unsafe extern "C" fn input_not_mine(
    _skb: *mut bindings::sk_buff,
    _nexthdr: c_int,
    _spi: u32,
    _encap_type: c_int,
) -> c_int {
    EINVAL.to_errno()
}

/// # Safety
///
/// Touches nothing.
unsafe extern "C" fn callback_not_mine(_skb: *mut bindings::sk_buff, _err: c_int) -> c_int {
    // Positive: C asks the next one.
    1
}

/// # Safety
///
/// Touches nothing.
unsafe extern "C" fn error_not_mine_v4(_skb: *mut bindings::sk_buff, _info: u32) -> c_int {
    ENOENT.to_errno()
}

/// # Safety
///
/// Touches nothing.
unsafe extern "C" fn error_not_mine_v6(
    _skb: *mut bindings::sk_buff,
    _opt: *mut bindings::inet6_skb_parm,
    _type: u8,
    _code: u8,
    _offset: c_int,
    _info: u32,
) -> c_int {
    ENOENT.to_errno()
}

macro_rules! esp {
    ($version:ty, $header:ident, $ethertype:ident, $handler:ident, $error:ident,
     $add:ident, $del:ident, $done:ident, $register:ident, $deregister:ident,
     { $($next_header:item)* }) => {
        impl Esp for $version {
            const HEADER_LEN: u32 = size_of::<bindings::$header>() as u32;
            const ETHERTYPE: u16 = bindings::$ethertype as u16;
            const DADDR_OFFSET: u32 =
                (Self::SADDR_OFFSET + size_of::<<Self as Version>::Addr>()) as u32;
            type Handler = bindings::$handler;

            #[inline(always)]
            unsafe fn add_offload(offload: *const bindings::net_offload) -> c_int {
                // SAFETY: By the requirement on this function.
                unsafe { bindings::$add(offload, ESP) }
            }

            #[inline(always)]
            unsafe fn del_offload(offload: *const bindings::net_offload) {
                // SAFETY: By the requirement on this function.
                unsafe { bindings::$del(offload, ESP) };
            }

            #[inline(always)]
            unsafe fn input_done2(skb: *mut bindings::sk_buff) -> c_int {
                // SAFETY: By the requirement on this function.
                unsafe { bindings::$done(skb, 0) }
            }

            $($next_header)*

            #[inline(always)]
            fn handler() -> Self::Handler {
                bindings::$handler {
                    handler: Some(not_mine),
                    input_handler: Some(input_not_mine),
                    cb_handler: Some(callback_not_mine),
                    err_handler: Some($error),
                    next: core::ptr::null_mut(),
                    priority: FIRST,
                }
            }

            #[inline(always)]
            unsafe fn register_handler(handler: *mut Self::Handler) -> c_int {
                // SAFETY: By the requirement on this function.
                unsafe { bindings::$register(handler, ESP) }
            }

            #[inline(always)]
            unsafe fn deregister_handler(handler: *mut Self::Handler) {
                // SAFETY: By the requirement on this function.
                unsafe { bindings::$deregister(handler, ESP) };
            }

            #[inline(always)]
            fn next_handler(handler: *mut Self::Handler) -> *mut *mut Self::Handler {
                handler
                    .wrapping_byte_add(offset_of!(bindings::$handler, next))
                    .cast()
            }

            #[inline(always)]
            unsafe fn callback(handler: *const Self::Handler) -> Option<Callback> {
                // SAFETY: By the requirement on this function.
                unsafe { (*handler).cb_handler }
            }
        }
    };
}

esp!(
    Ipv4,
    iphdr,
    ETH_P_IP,
    xfrm4_protocol,
    error_not_mine_v4,
    inet_add_offload,
    inet_del_offload,
    esp_input_done2,
    xfrm4_protocol_register,
    xfrm4_protocol_deregister,
    {
        #[inline(always)]
        fn set_length(skb: &mut SkBuff, len: u32) -> Result {
            let place = skb.network_place().wrapping_add(2);
            *skb.bytes_at_mut(place).ok_or(EINVAL)? = (len as u16).to_be_bytes();
            Ok(())
        }

        #[inline(always)]
        fn dsfield(word: [u8; 4]) -> u8 {
            word[1]
        }

        #[inline(always)]
        fn next_header_offset(_header: &[u8]) -> Option<u16> {
            // It is always the same.
            Some(0)
        }

        #[inline(always)]
        fn set_next_header_offset(_skb: &mut SkBuff, _offset: u16) {}
    }
);
esp!(
    Ipv6,
    ipv6hdr,
    ETH_P_IPV6,
    xfrm6_protocol,
    error_not_mine_v6,
    inet6_add_offload,
    inet6_del_offload,
    esp6_input_done2,
    xfrm6_protocol_register,
    xfrm6_protocol_deregister,
    {
        #[inline(always)]
        fn set_length(skb: &mut SkBuff, len: u32) -> Result {
            let place = skb.network_place().wrapping_add(4);
            let len = len.wrapping_sub(Self::HEADER_LEN) as u16;
            *skb.bytes_at_mut(place).ok_or(EINVAL)? = len.to_be_bytes();
            Ok(())
        }

        #[inline(always)]
        fn dsfield(word: [u8; 4]) -> u8 {
            logic::dsfield::of_v6(word)
        }

        #[inline(always)]
        fn next_header_offset(header: &[u8]) -> Option<u16> {
            logic::esp::next_header_offset(header)
        }

        #[inline(always)]
        fn set_next_header_offset(skb: &mut SkBuff, offset: u16) {
            let cb = skb.control_block_mut::<bindings::inet6_skb_parm>();
            // SAFETY: In an IPv6 packet that is received, this is what the control block holds.
            unsafe { (*cb).nhoff = offset };
        }
    }
);
