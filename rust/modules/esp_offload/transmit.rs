// SPDX-License-Identifier: GPL-2.0

//! Packets on their way out.

use crate::Ip;
use kernel::prelude::*;
use net::{
    skb::SkBuff,
    xfrm::{
        offload::{Segments, Transmit},
        state::State, //
    }, //
};

/// Transmits. Not yet: such packets are refused.
pub(crate) struct Transmitter;

impl Transmit<Ip> for Transmitter {
    fn encap(_x: &State, _packet: &mut SkBuff) {}

    fn xmit(_x: &State, _packet: &mut SkBuff, _features: u64) -> Result {
        Err(EOPNOTSUPP)
    }

    fn gso_segment(_packet: &mut SkBuff, _features: u64) -> Result<Segments> {
        Err(EOPNOTSUPP)
    }
}
