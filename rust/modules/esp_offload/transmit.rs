// SPDX-License-Identifier: GPL-2.0

//! Packets on their way out: made ready for a device that encrypts, or encrypted by C.
//!
//! A packet that stands for several comes here as a whole where the device cuts it, and otherwise
//! as the segments that `segment.rs` made of it. Those have their path in common, and in it the
//! number that the next of them gets.

use crate::{
    segment,
    Ip, //
};
use kernel::prelude::*;
use net::{
    gso::Features,
    xfrm::{
        offload::{Segments, Transmit},
        output::{Outgoing, Output}, //
    }, //
};

/// Transmits.
pub(crate) struct Transmitter;

impl Transmit<Ip> for Transmitter {
    #[inline]
    fn encap(mut packet: Outgoing<'_, Ip>) {
        // C cannot say that this failed. A header that is not ESP's is found when it is cut.
        let _ = packet.write_esp();
    }

    #[inline]
    fn xmit(mut packet: Outgoing<'_, Ip>, features: Features) -> Result {
        let by_device = is_for_device(&packet, features);
        if !by_device {
            packet.set_fallback();
        }
        let in_udp = packet.state().is_in_udp();
        let is_whole = !packet.skb().is_gso();

        let mut packet = packet.prepare();
        if !by_device || is_whole || in_udp {
            packet.add_trailer()?;
        }
        let number @ (seq, _) = packet.number();
        let is_segmented = packet.is_segmented();
        // Without UDP, C wrote the number of a packet that was not cut.
        packet.write_esp((is_segmented || in_udp).then_some(seq))?;
        packet.push_header()?;
        if is_segmented {
            packet.advance_number();
        }
        packet.finish_header()?;

        if by_device {
            packet.leave_to_device()
        } else {
            packet.encrypt(number)
        }
    }

    #[inline]
    fn gso_segment(packet: Outgoing<'_, Ip>, features: Features) -> Result<Segments> {
        segment::gso_segment(packet, features)
    }
}

/// Whether the device that the packet leaves by encrypts it: it can, and has the state.
#[inline]
pub(crate) fn is_for_device(packet: &Outgoing<'_, Ip>, features: Features) -> bool {
    can(packet, features, Features::HW_ESP) && packet.leaves_by_own_device()
}

/// Whether the device can do that.
#[inline]
pub(crate) fn can(packet: &Outgoing<'_, Ip>, features: Features, what: Features) -> bool {
    features.has(what) || (Ip::USES_PARTIAL_FEATURES && packet.partial_features().has(what))
}
