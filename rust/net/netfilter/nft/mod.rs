// SPDX-License-Identifier: GPL-2.0

//! nf_tables.
//!
//! C header: [`include/net/netfilter/nf_tables.h`](srctree/include/net/netfilter/nf_tables.h)

mod expr;
mod pkt;
mod regs;

pub use self::{
    expr::{Break, Ctx, Expr, Registration},
    pkt::{Pkt, Versioned},
    regs::{DestReg, Regs, Value}, //
};
