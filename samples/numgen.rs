// SPDX-License-Identifier: GPL-2.0

//! A whole nf_tables expression, to learn from: `numgen random mod 10 offset 5`, for tables of the
//! family `ip`. While it is loaded, `numgen inc` is refused there. Documentation/
//! writing-an-expression.rst walks through it.

#![forbid(unsafe_code)]

use kernel::prelude::*;
use net::{
    netfilter::{
        nft::{Break, Ctx, DestReg, Expr, Pkt, Registration, Regs},
        Family, //
    },
    netlink::{Attrs, DumpMessage, Policy},
    random,
    uapi::nft_numgen as uapi, //
};

module! {
    type: Module,
    name: "nft_numgen_rust",
    authors: ["The nfrust authors"],
    description: "Sample: an nf_tables expression in Rust",
    license: "GPL",
}

/// What a rule keeps: the numbers are `offset` to `offset + modulus - 1`.
#[derive(Clone, Copy)]
struct Random {
    dreg: DestReg<u32>,
    modulus: u32,
    offset: u32,
}

impl Expr for Random {
    const NAME: &'static CStr = c"numgen";

    const POLICY: &'static [Policy] = &[
        Policy::unspecified(),
        Policy::be32_max(uapi::NFT_REG32_MAX), // destination register
        Policy::be32(),                        // modulus
        Policy::be32(),                        // type
        Policy::be32(),                        // offset
    ];

    fn init(ctx: &Ctx<'_>, attrs: &Attrs<'_>) -> Result<Self> {
        if attrs.be32(uapi::NFTA_NG_TYPE)? != uapi::NFT_NG_RANDOM {
            return Err(EOPNOTSUPP);
        }
        let modulus = attrs.be32(uapi::NFTA_NG_MODULUS)?;
        let offset = if attrs.has(uapi::NFTA_NG_OFFSET) {
            attrs.be32(uapi::NFTA_NG_OFFSET)?
        } else {
            0
        };
        let last = modulus.checked_sub(1).ok_or(ERANGE)?;
        offset.checked_add(last).ok_or(EOVERFLOW)?;

        Ok(Self {
            dreg: DestReg::parse(ctx, attrs, uapi::NFTA_NG_DREG)?,
            modulus,
            offset,
        })
    }

    #[inline(always)]
    fn eval(&self, regs: &mut Regs, _pkt: Pkt<'_>) -> Result<(), Break> {
        // Scaling instead of a division: the upper half of a 64-bit product.
        let scaled = (u64::from(random::u32()) * u64::from(self.modulus)) >> 32;
        regs.store(self.dreg, self.offset.wrapping_add(scaled as u32));
        Ok(())
    }

    fn dump(&self, message: &mut DumpMessage<'_>) -> Result {
        self.dreg.dump(message, uapi::NFTA_NG_DREG)?;
        message.put_be32(uapi::NFTA_NG_MODULUS, self.modulus)?;
        message.put_be32(uapi::NFTA_NG_TYPE, uapi::NFT_NG_RANDOM)?;
        message.put_be32(uapi::NFTA_NG_OFFSET, self.offset)
    }

    fn validate(_ctx: &Ctx<'_>) -> Result {
        Ok(())
    }
}

#[pin_data]
struct Module {
    #[pin]
    ipv4: Registration<Random>,
}

impl kernel::InPlaceModule for Module {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            ipv4 <- Registration::new(module, Family::Ipv4),
        })
    }
}
