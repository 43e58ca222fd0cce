// SPDX-License-Identifier: GPL-2.0

//! Address translation: C's engine, and the hooks that drive it.
//!
//! C header: [`include/net/netfilter/nf_nat.h`](srctree/include/net/netfilter/nf_nat.h)

use super::{
    hook::{Call, HookFn, Verdict},
    ip::{Ipv4, Ipv6, Version}, //
};
use crate::{
    conntrack::{Conn, CtInfo},
    netns::Net, //
};
use core::{
    mem::offset_of,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::rcu, //
};
use nf_bindings as bindings;

// ---- the engine ------------------------------------------------------------------------------

/// Translates the packet, after asking the chains of the hook if its connection is new:
/// `nf_nat_inet_fn()`.
#[inline(always)]
pub fn translate<V: Version>(call: &mut Call<'_, V>) -> Verdict {
    // SAFETY: These are a hook's arguments, and the hook's own pointer is that of a `LookupHooks`,
    // since only its registration makes NAT hooks.
    Verdict::from_raw(unsafe {
        bindings::nf_nat_inet_fn(call.private(), call.packet.skb_mut().as_raw(), call.state())
    })
}

/// The IP versions, as far as translation differs between them.
pub trait Translation: Version {
    /// Translates an ICMP error and what it quotes. False: it is to be dropped.
    ///
    /// `offset` is where the ICMP header begins.
    fn translate_error(
        call: &mut Call<'_, Self>,
        info: CtInfo,
        conn: NonNull<Conn>,
        offset: u32,
    ) -> bool
    where
        Self: Sized;

    /// Routes a packet that was sent from here anew, after its destination changed:
    /// `ip_route_me_harder()`, `ip6_route_me_harder()`. An error means that it is to be dropped.
    fn route_again(call: &mut Call<'_, Self>) -> Result
    where
        Self: Sized;

    /// Adds a chain to C's own hooks: `nf_nat_ipv4_register_fn()`, `nf_nat_ipv6_register_fn()`.
    #[doc(hidden)]
    const C_REGISTER: unsafe extern "C" fn(
        *mut bindings::net,
        *const bindings::nf_hook_ops,
    ) -> i32;
    /// Removes it again.
    #[doc(hidden)]
    const C_UNREGISTER: unsafe extern "C" fn(*mut bindings::net, *const bindings::nf_hook_ops);
    /// The hooks of this version in a namespace.
    #[doc(hidden)]
    fn hook_entries(net: &Net, hook: usize) -> *const *mut bindings::nf_hook_entries;
}

impl Translation for Ipv4 {
    #[inline]
    fn translate_error(
        call: &mut Call<'_, Self>,
        info: CtInfo,
        conn: NonNull<Conn>,
        _offset: u32,
    ) -> bool {
        // SAFETY: The state is valid during the call.
        let hook = u32::from(unsafe { (*call.state()).hook });
        let skb = call.packet.skb_mut().as_raw();
        // SAFETY: The packet carries this connection, which is related to it.
        unsafe {
            bindings::nf_nat_icmp_reply_translation(skb, conn.as_ptr().cast(), info.raw(), hook)
                != 0
        }
    }

    #[inline]
    fn route_again(call: &mut Call<'_, Self>) -> Result {
        let net = call.net().as_raw();
        // SAFETY: The state is valid during the call.
        let sk = unsafe { (*call.state()).sk };
        let skb = call.packet.skb_mut().as_raw();
        // SAFETY: The packet was sent from here; the socket is the hook's.
        to_result(unsafe { bindings::ip_route_me_harder(net, sk, skb, bindings::RTN_UNSPEC) })
    }

    const C_REGISTER: unsafe extern "C" fn(
        *mut bindings::net,
        *const bindings::nf_hook_ops,
    ) -> i32 = bindings::nf_nat_ipv4_register_fn;
    const C_UNREGISTER: unsafe extern "C" fn(*mut bindings::net, *const bindings::nf_hook_ops) =
        bindings::nf_nat_ipv4_unregister_fn;

    fn hook_entries(net: &Net, hook: usize) -> *const *mut bindings::nf_hook_entries {
        // SAFETY: The namespace is valid.
        unsafe { (&raw const (*net.as_raw()).nf.hooks_ipv4[hook]).cast() }
    }
}

impl Translation for Ipv6 {
    #[inline]
    fn translate_error(
        call: &mut Call<'_, Self>,
        info: CtInfo,
        conn: NonNull<Conn>,
        offset: u32,
    ) -> bool {
        // SAFETY: The state is valid during the call.
        let hook = u32::from(unsafe { (*call.state()).hook });
        let skb = call.packet.skb_mut().as_raw();
        // SAFETY: The packet carries this connection, which is related to it.
        unsafe {
            bindings::nf_nat_icmpv6_reply_translation(
                skb,
                conn.as_ptr().cast(),
                info.raw(),
                hook,
                offset,
            ) != 0
        }
    }

    #[inline]
    fn route_again(call: &mut Call<'_, Self>) -> Result {
        let net = call.net().as_raw();
        // SAFETY: The state is valid during the call.
        let sk = unsafe { (*call.state()).sk };
        let skb = call.packet.skb_mut().as_raw();
        // SAFETY: The packet was sent from here; the socket is the hook's.
        to_result(unsafe { bindings::ip6_route_me_harder(net, sk, skb) })
    }

    const C_REGISTER: unsafe extern "C" fn(
        *mut bindings::net,
        *const bindings::nf_hook_ops,
    ) -> i32 = bindings::nf_nat_ipv6_register_fn;
    const C_UNREGISTER: unsafe extern "C" fn(*mut bindings::net, *const bindings::nf_hook_ops) =
        bindings::nf_nat_ipv6_unregister_fn;

    fn hook_entries(net: &Net, hook: usize) -> *const *mut bindings::nf_hook_entries {
        // SAFETY: The namespace is valid.
        unsafe { (&raw const (*net.as_raw()).nf.hooks_ipv6[hook]).cast() }
    }
}

// ---- the hooks -------------------------------------------------------------------------------

/// The number of hooks that translate.
const HOOKS: usize = 4;

/// The hook functions of an IP version. Destinations change before routing and filtering, sources
/// after.
pub struct Dispatchers<V> {
    /// At prerouting, `NF_IP_PRI_NAT_DST`.
    pub pre_routing: HookFn<V>,
    /// At postrouting, `NF_IP_PRI_NAT_SRC`.
    pub post_routing: HookFn<V>,
    /// At output, `NF_IP_PRI_NAT_DST`.
    pub local_out: HookFn<V>,
    /// At input, `NF_IP_PRI_NAT_SRC`.
    pub local_in: HookFn<V>,
}

impl<V: Translation> Dispatchers<V> {
    /// What C is told of the hooks; without their own pointers.
    fn ops(&self) -> [bindings::nf_hook_ops; HOOKS] {
        const DST: i32 = bindings::nf_ip_hook_priorities_NF_IP_PRI_NAT_DST;
        const SRC: i32 = bindings::nf_ip_hook_priorities_NF_IP_PRI_NAT_SRC;
        const {
            assert!(DST == bindings::nf_ip6_hook_priorities_NF_IP6_PRI_NAT_DST);
            assert!(SRC == bindings::nf_ip6_hook_priorities_NF_IP6_PRI_NAT_SRC);
        }

        let op = |function: HookFn<V>, hooknum, priority| {
            let mut op = bindings::nf_hook_ops {
                hook: function.function,
                pf: V::FAMILY,
                hooknum,
                priority,
                ..pin_init::zeroed()
            };
            op.set_hook_ops_type(bindings::nf_hook_ops_type_NF_HOOK_OP_NAT);
            op
        };
        [
            op(
                self.pre_routing,
                bindings::nf_inet_hooks_NF_INET_PRE_ROUTING,
                DST,
            ),
            op(
                self.post_routing,
                bindings::nf_inet_hooks_NF_INET_POST_ROUTING,
                SRC,
            ),
            op(
                self.local_out,
                bindings::nf_inet_hooks_NF_INET_LOCAL_OUT,
                DST,
            ),
            op(self.local_in, bindings::nf_inet_hooks_NF_INET_LOCAL_IN, SRC),
        ]
    }
}

/// Memory that packets' paths may still look at when its owner is done with it: freed after an RCU
/// grace period, as by `kfree_rcu()`.
struct RcuBox<T>(NonNull<RcuInner<T>>);

#[repr(C)]
struct RcuInner<T> {
    rcu: bindings::callback_head,
    value: T,
}

impl<T> RcuBox<T> {
    /// Allocates. Process context; may sleep.
    fn new(value: T) -> Result<Self> {
        const { assert!(!core::mem::needs_drop::<T>(), "it is freed as it lies") };
        let inner = KBox::new(
            RcuInner {
                rcu: pin_init::zeroed(),
                value,
            },
            GFP_KERNEL,
        )?;
        Ok(Self(NonNull::from(KBox::leak(inner))))
    }

    /// The value. No reference is made of it: C reads and writes it meanwhile.
    fn as_ptr(&self) -> *mut T {
        // SAFETY: The pointer is valid until the drop.
        unsafe { &raw mut (*self.0.as_ptr()).value }
    }
}

impl<T> Drop for RcuBox<T> {
    fn drop(&mut self) {
        const { assert!(offset_of!(RcuInner<T>, rcu) < 4096) };
        let inner = self.0.as_ptr();
        // SAFETY: The pointer is valid.
        let head = unsafe { &raw mut (*inner).rcu };
        // SAFETY: It was allocated by kmalloc(), which `KBox` stands for, and nobody uses it after
        // the grace period that begins here.
        unsafe { bindings::kvfree_call_rcu(head.cast(), inner.cast()) };
    }
}

/// The hooks of a namespace, and for each of them the chains that it asks about a new connection.
struct LookupHooks {
    ops: [bindings::nf_hook_ops; HOOKS],
    chains: [bindings::nf_nat_lookup_hook_priv; HOOKS],
}

/// Hooks that are registered in a namespace, until the drop.
struct Registered {
    hooks: RcuBox<LookupHooks>,
    net: *mut bindings::net,
}

impl Registered {
    /// Registers hooks without chains.
    fn new<V: Translation>(net: &Net, dispatchers: &Dispatchers<V>) -> Result<Self> {
        let hooks = RcuBox::new(LookupHooks {
            ops: dispatchers.ops(),
            chains: pin_init::zeroed(),
        })?;
        let raw = hooks.as_ptr();
        for i in 0..HOOKS {
            // SAFETY: Nobody else knows the allocation yet.
            let chains = unsafe { &raw mut (*raw).chains[i] };
            // SAFETY: As above.
            unsafe { (*raw).ops[i].priv_ = chains.cast() };
        }
        // SAFETY: As above.
        let ops = unsafe { &raw const (*raw).ops };
        // SAFETY: The operations are complete, and stay until they are unregistered and no packet
        // is in them any more. After an error none is registered.
        to_result(unsafe {
            bindings::nf_register_net_hooks(net.as_raw(), ops.cast(), HOOKS as u32)
        })?;
        Ok(Self {
            hooks,
            net: net.as_raw(),
        })
    }

    /// The chains of the hook that `chain` belongs to.
    fn chains_of(&self, chain: &Chain) -> Option<*mut *mut bindings::nf_hook_entries> {
        let raw = self.hooks.as_ptr();
        (0..HOOKS)
            // SAFETY: The numbers are never written after the allocation.
            .find(|&i| unsafe { (*raw).ops[i].hooknum } == chain.hooknum())
            // SAFETY: The allocation is valid.
            .map(|i| unsafe { &raw mut (*raw).chains[i].entries })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: The allocation is valid.
        let ops = unsafe { &raw const (*self.hooks.as_ptr()).ops };
        // SAFETY: They were registered in this namespace, which outlives them: its own state has
        // this value.
        unsafe { bindings::nf_unregister_net_hooks(self.net, ops.cast(), HOOKS as u32) };
    }
}

// ---- chains ----------------------------------------------------------------------------------

/// A chain of type nat that nf_tables asks to add or to remove: its `struct nf_hook_ops`.
#[repr(transparent)]
pub struct Chain(bindings::nf_hook_ops);

impl Chain {
    /// Wraps a pointer from C.
    ///
    /// # Safety
    ///
    /// `ptr` must point to the operations of a chain that exists during `'a`, and until it was
    /// removed where it is added.
    pub(crate) unsafe fn from_raw<'a>(ptr: *const bindings::nf_hook_ops) -> &'a Self {
        // SAFETY: By the requirement on this function; the wrapper is transparent.
        unsafe { &*ptr.cast() }
    }

    fn hooknum(&self) -> u32 {
        self.0.hooknum
    }

    fn as_raw(&self) -> *const bindings::nf_hook_ops {
        &raw const self.0
    }
}

/// A chain that was added to C's hooks: C is told of it as of one of a single version.
struct Delegated {
    original: *const bindings::nf_hook_ops,
    copy: RcuBox<bindings::nf_hook_ops>,
}

/// The chains of an IP version in a namespace.
///
/// They are asked by our hooks, which are there while there are chains. Where C's NAT hooks are
/// there already (a legacy iptables nat table, which has no other), the chains are added to those:
/// of two sets of hooks at one place the first would bind each connection, and the rules of the
/// second would never be asked.
pub struct Chains<V> {
    hooks: Option<Registered>,
    users: usize,
    delegated: KVec<Delegated>,
    _version: core::marker::PhantomData<V>,
}

// SAFETY: The pointers are used under the owner's lock only, from any task.
unsafe impl<V> Send for Chains<V> {}

impl<V: Translation> Chains<V> {
    /// No chains.
    pub fn new() -> Self {
        Self {
            hooks: None,
            users: 0,
            delegated: KVec::new(),
            _version: core::marker::PhantomData,
        }
    }

    /// Adds a chain. Process context; may sleep. `true`: to C's hooks.
    ///
    /// Fails with `EINVAL` for a hook that does not translate, with `ENOMEM`, or with what the
    /// registration of hooks fails with. Nothing is left behind then.
    pub fn add(&mut self, net: &Net, dispatchers: &Dispatchers<V>, chain: &Chain) -> Result<bool> {
        if self.hooks.is_none() && c_hooks_present::<V>(net) {
            self.delegate(net, chain)?;
            return Ok(true);
        }

        let new = match self.hooks {
            Some(_) => None,
            None => Some(Registered::new(net, dispatchers)?),
        };
        let hooks = self.hooks.as_ref().or(new.as_ref()).ok_or(EINVAL)?;
        let entries = hooks.chains_of(chain).ok_or(EINVAL)?;
        // SAFETY: The entries belong to hooks that are registered; all changes to them are made
        // under the lock that `&mut self` stands for. The chain stays until it is removed.
        to_result(unsafe { bindings::nf_hook_entries_insert_raw(entries, chain.as_raw()) })?;
        if new.is_some() {
            self.hooks = new;
        }
        self.users += 1;
        Ok(false)
    }

    /// Removes a chain that was added. The last one takes our hooks away.
    pub fn remove(&mut self, net: &Net, chain: &Chain) {
        if let Some(i) = (self.delegated.iter()).position(|d| d.original == chain.as_raw()) {
            if let Ok(delegated) = self.delegated.remove(i) {
                // SAFETY: The copy was registered in this namespace, and is not used after.
                unsafe { V::C_UNREGISTER(net.as_raw(), delegated.copy.as_ptr()) };
            }
            return;
        }
        let Some(entries) = self.hooks.as_ref().and_then(|hooks| hooks.chains_of(chain)) else {
            return;
        };
        // SAFETY: As for the insertion.
        unsafe { bindings::nf_hook_entries_delete_raw(entries, chain.as_raw()) };
        self.users -= 1;
        if self.users == 0 {
            self.hooks = None;
        }
    }

    /// Adds a chain to C's hooks.
    fn delegate(&mut self, net: &Net, chain: &Chain) -> Result {
        self.delegated.reserve(1, GFP_KERNEL)?;
        let mut copy = bindings::nf_hook_ops {
            hook: chain.0.hook,
            priv_: chain.0.priv_,
            hooknum: chain.0.hooknum,
            priority: chain.0.priority,
            pf: V::FAMILY,
            ..pin_init::zeroed()
        };
        // Where hooks are listed, this makes a chain of it.
        copy.set_hook_ops_type(chain.0.hook_ops_type());
        let copy = RcuBox::new(copy)?;
        // SAFETY: The copy stays until it is unregistered and no packet is in it any more.
        to_result(unsafe { V::C_REGISTER(net.as_raw(), copy.as_ptr()) })?;
        self.delegated.push(
            Delegated {
                original: chain.as_raw(),
                copy,
            },
            GFP_KERNEL,
        )?;
        Ok(())
    }
}

impl<V: Translation> Default for Chains<V> {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether NAT hooks, which then are not ours, are registered in the namespace.
fn c_hooks_present<V: Translation>(net: &Net) -> bool {
    const HOOK: usize = bindings::nf_inet_hooks_NF_INET_PRE_ROUTING as usize;

    let _rcu = rcu::read_lock();
    // SAFETY: The namespace is valid; entries are replaced as a whole.
    let entries = unsafe { V::hook_entries(net, HOOK).read_volatile() };
    if entries.is_null() {
        return false;
    }
    // SAFETY: Entries are freed after a grace period, and we are in a read section.
    let count = usize::from(unsafe { (*entries).num_hook_entries });
    // SAFETY: As above.
    let hooks = unsafe { &raw const (*entries).hooks };
    // Behind the hooks, C has a pointer to the operations of each.
    let ops = hooks
        .cast::<bindings::nf_hook_entry>()
        .wrapping_add(count)
        .cast::<*const bindings::nf_hook_ops>();
    (0..count).any(|i| {
        // SAFETY: There are `count` of them.
        let op = unsafe { ops.wrapping_add(i).read() };
        // SAFETY: Operations are freed after a grace period, too.
        let op = unsafe { &*op };
        op.hook_ops_type() == bindings::nf_hook_ops_type_NF_HOOK_OP_NAT
    })
}
