// SPDX-License-Identifier: GPL-2.0

//! Types of base chains.

use crate::{
    netfilter::{
        hook::RawHook,
        ip::{Ipv4, Ipv6, Packet},
        nat::Chain,
        Family, //
    },
    netns::Net,
    pernet::{self, PerNet},
    skb::SkBuff, //
};
use core::{
    marker::PhantomData,
    pin::Pin, //
};
use kernel::{
    error::from_result,
    prelude::*,
    types::Opaque, //
};
use nf_bindings as bindings;

/// What a module that implements the chain type "nat" keeps for a namespace.
///
/// nf_tables calls the functions in process context, for chains that it has made.
pub trait NatState: PerNet {
    /// Adds a chain of a table of this family. What it fails with, adding the chain fails with.
    fn add(self: Pin<&Self>, family: Family, net: &Net, chain: &Chain) -> Result;

    /// Removes a chain that was added.
    fn remove(self: Pin<&Self>, family: Family, net: &Net, chain: &Chain);
}

/// A function that runs a chain for a packet: made by [`chain_function!`](crate::chain_function).
#[derive(Clone, Copy)]
pub struct ChainFn(bindings::nf_hookfn);

impl ChainFn {
    /// Wraps a function.
    ///
    /// # Safety
    ///
    /// `function` must do nothing but to pass its arguments on to [`do_chain()`].
    #[doc(hidden)]
    pub const unsafe fn new(function: RawHook) -> Self {
        Self(Some(function))
    }
}

/// Defines a function that runs a chain, under a name that C's tools can show:
/// `chain_function! { const FN = name; }`.
#[macro_export]
macro_rules! chain_function {
    ($(#[$attr:meta])* $vis:vis const $konst:ident = $name:ident;) => {
        $(#[$attr])*
        $vis const $konst: $crate::netfilter::nft::ChainFn = {
            // The name is the module's own: it ends in what no C function's ends in.
            #[no_mangle]
            unsafe extern "C" fn $name(
                private: *mut ::kernel::ffi::c_void,
                skb: *mut $crate::netfilter::hook::sk_buff,
                state: *const $crate::netfilter::hook::nf_hook_state,
            ) -> ::kernel::ffi::c_uint {
                // SAFETY: Netfilter calls this function with these arguments.
                unsafe { $crate::netfilter::nft::do_chain(private, skb, state) }
            }
            // SAFETY: The function does nothing else.
            unsafe { $crate::netfilter::nft::ChainFn::new($name) }
        };
    };
}

/// Runs a chain for a packet.
///
/// # Safety
///
/// Netfilter calls this, with a chain of a table of the IP families as the hook's own pointer.
#[doc(hidden)]
#[inline(always)]
pub unsafe fn do_chain(
    chain: *mut c_void,
    skb: *mut bindings::sk_buff,
    state: *const bindings::nf_hook_state,
) -> c_uint {
    // SAFETY: The state is valid during the call.
    let pf = u32::from(unsafe { (*state).pf });
    // SAFETY: So is the packet.
    let packet = unsafe { SkBuff::from_raw_mut(skb) };
    let ethertype = packet.protocol();
    let mut info = bindings::nft_pktinfo {
        skb,
        state,
        ethertype,
        ..pin_init::zeroed()
    };
    let payload = match pf {
        // SAFETY: A hook of this family sees IPv4 packets.
        bindings::NFPROTO_IPV4 => unsafe { Packet::<Ipv4>::new(packet) }.payload(),
        // SAFETY: A hook of this family sees IPv6 packets.
        bindings::NFPROTO_IPV6 => unsafe { Packet::<Ipv6>::new(packet) }.payload_before_auth(),
        _ => None,
    };
    // What was not found stays zero, as C leaves it.
    if let Some((protocol, offset, fragment_offset)) = payload {
        if let Ok(offset) = u16::try_from(offset) {
            info.flags = bindings::NFT_PKTINFO_L4PROTO as u8;
            info.tprot = protocol;
            info.thoff = offset;
            info.fragoff = fragment_offset;
        }
    }
    // SAFETY: The information is complete, and the chain is one.
    unsafe { bindings::nft_do_chain(&mut info, chain) }
}

/// The chain type "nat", for tables of the families ip, ip6 and inet, from its initialization to
/// its drop; and the state that it needs in each namespace.
///
/// Chains hold a reference to the module, so that it cannot be dropped under them. A family has
/// room for one type "nat": see [`is_loaded()`](crate::module::is_loaded).
#[pin_data]
pub struct NatChains<S: NatState> {
    // Dropped from top to bottom: the state goes when no chain can be added any more.
    #[pin]
    ip: ChainType<S, IPV4>,
    #[pin]
    ip6: ChainType<S, IPV6>,
    #[pin]
    inet: ChainType<S, INET>,
    #[pin]
    namespaces: pernet::Registration<S>,
}

const IPV4: u8 = Family::Ipv4 as u8;
const IPV6: u8 = Family::Ipv6 as u8;
const INET: u8 = Family::Inet as u8;

impl<S: NatState> NatChains<S> {
    /// Registers it: `register_pernet_subsys()`, `nft_register_chain_type()`. Process context; may
    /// sleep.
    pub fn new(module: &'static ThisModule, do_chain: ChainFn) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            namespaces <- pernet::Registration::new(),
            ip <- ChainType::new(module, do_chain),
            ip6 <- ChainType::new(module, do_chain),
            inet <- ChainType::new(module, do_chain),
        })
    }
}

/// The chain type for one family.
#[pin_data(PinnedDrop)]
struct ChainType<S: NatState, const FAMILY: u8> {
    #[pin]
    chain_type: Opaque<bindings::nft_chain_type>,
    _state: PhantomData<S>,
}

// SAFETY: C synchronizes all access to the type.
unsafe impl<S: NatState, const FAMILY: u8> Send for ChainType<S, FAMILY> {}
// SAFETY: Nothing can be done with a shared reference.
unsafe impl<S: NatState, const FAMILY: u8> Sync for ChainType<S, FAMILY> {}

impl<S: NatState, const FAMILY: u8> ChainType<S, FAMILY> {
    fn new(module: &'static ThisModule, do_chain: ChainFn) -> impl PinInit<Self, Error> {
        const HOOKS: [u32; 4] = [
            bindings::nf_inet_hooks_NF_INET_PRE_ROUTING,
            bindings::nf_inet_hooks_NF_INET_POST_ROUTING,
            bindings::nf_inet_hooks_NF_INET_LOCAL_OUT,
            bindings::nf_inet_hooks_NF_INET_LOCAL_IN,
        ];

        try_pin_init!(Self {
            chain_type <- Opaque::try_ffi_init(move |slot: *mut bindings::nft_chain_type| {
                let mut chain_type = bindings::nft_chain_type {
                    name: c"nat".as_char_ptr(),
                    type_: bindings::nft_chain_types_NFT_CHAIN_T_NAT,
                    family: i32::from(FAMILY),
                    owner: module.as_ptr(),
                    ops_register: Some(register::<S, FAMILY>),
                    ops_unregister: Some(unregister::<S, FAMILY>),
                    ..pin_init::zeroed()
                };
                for hook in HOOKS {
                    chain_type.hook_mask |= 1 << hook;
                    if let Some(entry) = chain_type.hooks.get_mut(hook as usize) {
                        *entry = do_chain.0;
                    }
                }
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(chain_type) };
                // SAFETY: The type is complete, and pinned until it is unregistered.
                unsafe { bindings::nft_register_chain_type(slot) };
                Ok::<(), Error>(())
            }),
            _state: PhantomData,
        })
    }
}

#[pinned_drop]
impl<S: NatState, const FAMILY: u8> PinnedDrop for ChainType<S, FAMILY> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The type was registered in `new()`, or there would be no value to drop.
        unsafe { bindings::nft_unregister_chain_type(self.chain_type.get()) };
    }
}

/// The family of a chain type.
const fn family(number: u8) -> Family {
    match number {
        IPV4 => Family::Ipv4,
        IPV6 => Family::Ipv6,
        _ => Family::Inet,
    }
}

/// # Safety
///
/// nf_tables calls this for a chain that exists.
unsafe extern "C" fn register<S: NatState, const FAMILY: u8>(
    net: *mut bindings::net,
    ops: *const bindings::nf_hook_ops,
) -> c_int {
    from_result(|| {
        // SAFETY: The namespace outlives its chains.
        let net = unsafe { Net::from_raw(net) };
        // SAFETY: `NatChains` has the state registered while it has chain types. nf_tables removes
        // all chains of a namespace before the state there is dropped.
        let state = unsafe { pernet::get::<S>(net) };
        // SAFETY: The chain exists until it is removed.
        state.add(family(FAMILY), net, unsafe { Chain::from_raw(ops) })?;
        Ok(0)
    })
}

/// # Safety
///
/// nf_tables calls this for a chain that exists.
unsafe extern "C" fn unregister<S: NatState, const FAMILY: u8>(
    net: *mut bindings::net,
    ops: *const bindings::nf_hook_ops,
) {
    // SAFETY: As in `register()`.
    let net = unsafe { Net::from_raw(net) };
    // SAFETY: As in `register()`.
    let state = unsafe { pernet::get::<S>(net) };
    // SAFETY: The chain exists during the call.
    state.remove(family(FAMILY), net, unsafe { Chain::from_raw(ops) });
}
