// SPDX-License-Identifier: GPL-2.0

//! Registrations with nf_tables: what fails half-way leaves nothing, and what was dropped can be
//! made again.

use core::{
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering::Relaxed}, //
};
use kernel::prelude::*;
use net::{
    chain_function,
    netfilter::{
        nat::Chain,
        nft::{
            Break,
            Ctx,
            DestReg,
            Expr,
            NatChains,
            NatState,
            Pkt,
            Registration,
            Regs, //
        },
        Family, //
    },
    netlink::{Attrs, DumpMessage, Policy},
    netns::Net,
    pernet::{Id, PerNet},
    uapi::nft_numgen as uapi, //
};

/// An expression of a name that nobody has.
#[derive(Clone, Copy)]
struct Nothing {
    dreg: DestReg<u32>,
}

impl Expr for Nothing {
    const NAME: &'static CStr = c"nfrust-kunit";

    const POLICY: &'static [Policy] = &[Policy::unspecified(), Policy::be32()];

    fn init(ctx: &Ctx<'_>, attrs: &Attrs<'_>) -> Result<Self> {
        Ok(Self {
            dreg: DestReg::parse(ctx, attrs, uapi::NFTA_NG_DREG)?,
        })
    }

    #[inline(always)]
    fn eval(&self, regs: &mut Regs, _pkt: Pkt<'_>) -> Result<(), Break> {
        regs.store(self.dreg, 0);
        Ok(())
    }

    fn dump(&self, message: &mut DumpMessage<'_>) -> Result {
        self.dreg.dump(message, uapi::NFTA_NG_DREG)
    }

    fn validate(_ctx: &Ctx<'_>) -> Result {
        Ok(())
    }
}

/// As modules have it: several types, and then something that may fail.
#[pin_data]
struct Types {
    #[pin]
    ipv4: Registration<Nothing>,
    #[pin]
    ipv6: Registration<Nothing>,
    #[pin]
    inet: Registration<Nothing>,
}

fn this_module() -> &'static ThisModule {
    &<crate::Tests as kernel::ModuleMetadata>::THIS_MODULE
}

fn types(fail: bool) -> impl PinInit<Types, Error> {
    try_pin_init!(Types {
        ipv4 <- Registration::new(this_module(), Family::Ipv4),
        ipv6 <- Registration::new(this_module(), Family::Ipv6),
        inet <- Registration::new(this_module(), Family::Inet),
        _: {
            if fail {
                return Err(ENOSPC);
            }
        },
    })
}

/// Whether the state of the chain type can be made.
static FAIL: AtomicBool = AtomicBool::new(false);

#[pin_data]
struct State {
    _room: u64,
}

impl PerNet for State {
    fn id() -> &'static Id {
        static ID: Id = Id::new();
        &ID
    }

    fn init(_net: &Net) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _: {
                if FAIL.load(Relaxed) {
                    return Err(EDQUOT);
                }
            },
            _room: 0,
        })
    }
}

impl NatState for State {
    fn add(self: Pin<&Self>, _family: Family, _net: &Net, _chain: &Chain) -> Result {
        Err(EOPNOTSUPP)
    }

    fn remove(self: Pin<&Self>, _family: Family, _net: &Net, _chain: &Chain) {}
}

chain_function! {
    const DO_CHAIN = nfrust_kunit_do_chain;
}

#[kernel::macros::kunit_tests(nfrust_register)]
mod tests {
    use super::*;

    #[test]
    fn expression_types_that_fail_are_gone() {
        for _ in 0..8 {
            let failed = KBox::pin_init(types(true), GFP_KERNEL);
            assert_eq!(failed.err(), Some(ENOSPC));
            assert!(KBox::pin_init(types(false), GFP_KERNEL).is_ok());
        }
    }

    /// A second registration of a chain type is a warning: what failed must not be one.
    #[test]
    fn a_chain_type_without_its_state_is_not_registered() {
        for fail in [true, true, false, true, false] {
            FAIL.store(fail, Relaxed);
            let chains = NatChains::<State>::new(this_module(), DO_CHAIN);
            let chains = KBox::pin_init(chains, GFP_KERNEL);
            assert_eq!(chains.err(), fail.then_some(EDQUOT));
        }
    }
}
