// SPDX-License-Identifier: GPL-2.0

//! Expressions: what rules are made of.

use super::{Pkt, Regs};
use crate::{
    netfilter::{Family, Hooks},
    netlink::{Attrs, DumpMessage, Policy}, //
};
use core::{
    marker::PhantomData,
    ptr::addr_of_mut, //
};
use kernel::{
    error::{from_result, to_result},
    prelude::*,
    types::Opaque, //
};
use nf_bindings as bindings;

/// The rule does not match: `NFT_BREAK`.
pub struct Break;

/// The table and chain that a rule is being added to: `struct nft_ctx`.
pub struct Ctx<'a>(*const bindings::nft_ctx, PhantomData<&'a bindings::nft_ctx>);

impl Ctx<'_> {
    /// The pointer for C.
    #[inline]
    pub(super) fn as_raw(&self) -> *const bindings::nft_ctx {
        self.0
    }

    /// Whether the table is of this family.
    pub fn is_family(&self, family: Family) -> bool {
        // SAFETY: The context is valid during the request.
        (unsafe { (*self.0).family }) == family as u8
    }

    /// Checks that the chain can be reached from these hooks only. `EOPNOTSUPP` otherwise.
    ///
    /// Inlined: a module that has no expression does not need nf_tables.
    #[inline(always)]
    pub fn validate_hooks(&self, hooks: Hooks) -> Result {
        // SAFETY: The context is valid during the request.
        let chain = unsafe { (*self.0).chain };
        // SAFETY: So is its chain.
        to_result(unsafe { bindings::nft_chain_validate_hooks(chain, hooks.mask()) })
    }
}

/// An expression without state: what `init` made is kept in the rule and only read later.
///
/// nf_tables calls [`init`](Self::init), [`dump`](Self::dump) and [`validate`](Self::validate) in
/// process context under its transaction mutex (a dump may run under RCU alone), and
/// [`eval`](Self::eval) for each packet, mostly in softirq context, inside an RCU read section.
///
/// The value is freed as it lies: it must be plain data.
pub trait Expr: Copy + Send + Sync + 'static {
    /// Its name in rules.
    const NAME: &'static CStr;
    /// What is accepted for its attributes, by type.
    const POLICY: &'static [Policy];

    /// Makes it from a rule's attributes, which conform to [`POLICY`](Self::POLICY).
    fn init(ctx: &Ctx<'_>, attrs: &Attrs<'_>) -> Result<Self>;

    /// Evaluates it for a packet.
    fn eval(&self, regs: &mut Regs, pkt: Pkt<'_>) -> Result<(), Break>;

    /// Adds the attributes that [`init()`](Self::init) would make an equal one of.
    fn dump(&self, message: &mut DumpMessage<'_>) -> Result;

    /// Checks whether it may be used in this chain.
    fn validate(ctx: &Ctx<'_>) -> Result;
}

/// The functions that C calls for an expression `E`.
struct Adapter<E>(PhantomData<E>);

impl<E: Expr> Adapter<E> {
    /// `struct nft_expr` and the value behind it.
    const SIZE: u32 = {
        assert!(align_of::<E>() <= align_of::<u64>());
        assert!(!core::mem::needs_drop::<E>());
        (bindings::RUST_CONST_HELPER_NFT_EXPR_SIZE_0
            + size_of::<E>().next_multiple_of(align_of::<u64>())) as u32
    };

    /// The value of an expression: `nft_expr_priv()`.
    #[inline(always)]
    fn value(expr: *const bindings::nft_expr) -> *mut E {
        expr.cast::<u8>()
            .wrapping_add(bindings::RUST_CONST_HELPER_NFT_EXPR_SIZE_0)
            .cast::<E>()
            .cast_mut()
    }

    /// # Safety
    ///
    /// nf_tables calls this, for an expression that `init()` has filled.
    unsafe extern "C" fn eval(
        expr: *const bindings::nft_expr,
        regs: *mut bindings::nft_regs,
        pkt: *const bindings::nft_pktinfo,
    ) {
        // SAFETY: `init()` has filled it, and it is not written any more.
        let value = unsafe { &*Self::value(expr) };
        // SAFETY: The registers are this evaluation's own.
        let regs = unsafe { Regs::from_raw(regs) };
        // SAFETY: `pkt` does not outlast this call.
        let pkt = unsafe { Pkt::from_raw(pkt) };

        if value.eval(regs, pkt).is_err() {
            regs.set_break();
        }
    }

    /// # Safety
    ///
    /// nf_tables calls this, with room for `SIZE` bytes at `expr`.
    unsafe extern "C" fn init(
        ctx: *const bindings::nft_ctx,
        expr: *const bindings::nft_expr,
        tb: *const *const bindings::nlattr,
    ) -> c_int {
        from_result(|| {
            let ctx = Ctx(ctx, PhantomData);
            // SAFETY: nf_tables passes `maxattr + 1` attributes, which `register` sets.
            let attrs = unsafe { Attrs::from_raw(tb, E::POLICY.len()) };
            let value = E::init(&ctx, &attrs)?;
            // SAFETY: There is room for an `E`, aligned as the `nft_expr` before it is.
            unsafe { Self::value(expr).write(value) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// nf_tables calls this, for an expression that `init()` has filled.
    unsafe extern "C" fn dump(
        skb: *mut bindings::sk_buff,
        expr: *const bindings::nft_expr,
        _reset: bool,
    ) -> c_int {
        // SAFETY: `init()` has filled it, and it is not written any more.
        let value = unsafe { &*Self::value(expr) };
        // SAFETY: The message is ours for this call.
        let mut message = unsafe { DumpMessage::from_raw(skb) };
        // C tells no reasons here, and callers do not ask for one.
        match value.dump(&mut message) {
            Ok(()) => 0,
            Err(_) => -1,
        }
    }

    /// # Safety
    ///
    /// nf_tables calls this.
    unsafe extern "C" fn validate(
        ctx: *const bindings::nft_ctx,
        _expr: *const bindings::nft_expr,
    ) -> c_int {
        from_result(|| E::validate(&Ctx(ctx, PhantomData)).map(|()| 0))
    }
}

/// What C keeps pointers to while an expression is registered.
struct Tables {
    expr_type: bindings::nft_expr_type,
    ops: bindings::nft_expr_ops,
}

/// An expression that rules in tables of one family can use, from its initialization to its drop.
///
/// Rules that use it hold a reference to the module, so that it cannot be dropped under them.
/// A type with a family comes before one without, which is what C's own modules register: new
/// rules get this one, rules that exist keep theirs.
#[pin_data(PinnedDrop)]
pub struct Registration<E: Expr> {
    #[pin]
    tables: Opaque<Tables>,
    _expr: PhantomData<E>,
}

// SAFETY: C synchronizes all access to the tables.
unsafe impl<E: Expr> Send for Registration<E> {}
// SAFETY: Nothing can be done with a shared reference.
unsafe impl<E: Expr> Sync for Registration<E> {}

impl<E: Expr> Registration<E> {
    /// Registers it: `nft_register_expr()`. Process context; may sleep.
    pub fn new(module: &'static ThisModule, family: Family) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            tables <- Opaque::try_ffi_init(move |slot: *mut Tables| {
                let expr_type = {
                    // SAFETY: `slot` is where the value is to be; no reference to it is made.
                    unsafe { addr_of_mut!((*slot).expr_type) }
                };
                let ops = bindings::nft_expr_ops {
                    type_: expr_type,
                    size: Adapter::<E>::SIZE,
                    eval: Some(Adapter::<E>::eval),
                    init: Some(Adapter::<E>::init),
                    dump: Some(Adapter::<E>::dump),
                    validate: Some(Adapter::<E>::validate),
                    ..pin_init::zeroed()
                };
                let tables = Tables {
                    expr_type: bindings::nft_expr_type {
                        // SAFETY: As above.
                        ops: unsafe { &raw const (*slot).ops },
                        name: E::NAME.as_char_ptr(),
                        owner: module.as_ptr(),
                        policy: E::POLICY.as_ptr().cast(),
                        maxattr: E::POLICY.len() as u32 - 1,
                        family: family as u8,
                        ..pin_init::zeroed()
                    },
                    ops,
                };
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(tables) };
                // SAFETY: The tables are complete, and pinned: they stay in place until they are
                // dropped, which unregisters first.
                to_result(unsafe { bindings::nft_register_expr(expr_type) })
            }),
            _expr: PhantomData,
        })
    }
}

#[pinned_drop]
impl<E: Expr> PinnedDrop for Registration<E> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The tables are initialized, or there would be no value to drop.
        let expr_type = unsafe { &raw mut (*self.tables.get()).expr_type };
        // SAFETY: The type was registered in `new()`.
        unsafe { bindings::nft_unregister_expr(expr_type) };
    }
}
