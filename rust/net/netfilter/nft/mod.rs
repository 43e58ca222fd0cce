// SPDX-License-Identifier: GPL-2.0

//! nf_tables.
//!
//! C header: [`include/net/netfilter/nf_tables.h`](srctree/include/net/netfilter/nf_tables.h)

mod chain;
mod expr;
mod pkt;
mod regs;

pub use self::{
    chain::{do_chain, ChainFn, NatChains, NatState},
    expr::{Break, Ctx, Expr, Registration},
    pkt::{Arrived, Pkt, Walked},
    regs::{DestReg, Regs, Value}, //
};
