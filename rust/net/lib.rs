// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over the kernel's network code, one module a kernel concept.
//!
//! All `unsafe` code of the project is here, and in the bindings. What a module's own crate can
//! reach is sound whatever it does: `#![forbid(unsafe_code)]` holds there.
//!
//! What a packet's path calls is `#[inline]`, so that a wrapper costs no instruction.

/// Precedes messages printed from this crate.
const __LOG_PREFIX: &[u8] = b"nfrust\0";

pub mod cgroup;
pub mod conntrack;
pub mod dst;
mod errno;
pub mod gso;
pub mod module;
mod netdev;
pub mod netfilter;
pub mod netlink;
pub mod netns;
pub mod percpu;
pub mod pernet;
pub mod random;
pub mod rcu;
pub mod skb;
pub mod sock;
pub mod time;
pub mod uapi;
pub mod xfrm;

/// Marks a branch that is seldom taken, so that the compiler does not prepare for it on the way
/// that mostly is.
#[cold]
#[inline]
const fn seldom() {}
