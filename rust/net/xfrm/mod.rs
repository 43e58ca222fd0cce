// SPDX-License-Identifier: GPL-2.0

//! IPsec: policies, states, and ESP with the help of a device.
//!
//! C header: [`include/net/xfrm.h`](srctree/include/net/xfrm.h)

pub mod batch;
pub mod family;
pub mod handler;
pub mod input;
pub mod listeners;
pub mod mib;
pub mod mode;
pub mod offload;
pub mod output;
mod policy;
pub mod queue;
pub mod secpath;
pub mod segment;
pub mod state;

pub use policy::{lookup_again, out_policies};
