// SPDX-License-Identifier: GPL-2.0

//! Packets that stand for several, cut where the device does not.

use crate::{
    transmit::{can, is_for_device},
    Ip, //
};
use kernel::prelude::*;
use net::{
    gso::{Features, GsoType},
    netfilter::ip::{Ipv4, Ipv6},
    xfrm::{
        family::Esp,
        offload::Segments,
        output::Outgoing,
        segment::{Segment, BEET_HEADER, BEET_HEADER_LEN, TCP},
        state::Mode, //
    }, //
};

/// How much longer IPv6's header is than IPv4's, bytes.
const V6_LONGER: u32 = <Ipv6 as Esp>::HEADER_LEN - <Ipv4 as Esp>::HEADER_LEN;

/// Cuts a packet with ESP's header in front. ESP's header is written into each segment when it is
/// sent.
pub(crate) fn gso_segment(mut packet: Outgoing<'_, Ip>, features: Features) -> Result<Segments> {
    if !packet.skb().has_gso_type(GsoType::ESP) {
        return Err(EINVAL);
    }
    packet.pull_esp()?;
    let features = inner_features(&packet, features);
    packet.set_segmented();
    match packet.state().outer_mode() {
        Mode::Tunnel => packet.cut_inner(features),
        Mode::Transport => transport(packet, features),
        Mode::Beet => beet(packet, features),
        Mode::Other => Err(EOPNOTSUPP),
    }
}

/// What the segments may leave to be done. What C encrypts has to be complete, and in one piece;
/// what the device encrypts may lack checksums where it fills them in.
fn inner_features(packet: &Outgoing<'_, Ip>, features: Features) -> Features {
    if !is_for_device(packet, features) {
        features.without(Features::SG).without(Features::CHECKSUMS)
    } else if !can(packet, features, Features::HW_ESP_TX_CSUM) {
        features.without(Features::CHECKSUMS)
    } else {
        features
    }
}

/// The header in front stays, and ESP comes behind it.
fn transport(mut packet: Outgoing<'_, Ip>, features: Features) -> Result<Segments> {
    packet.step_over_state();
    let protocol = packet.protocol();
    packet.cut(protocol, features)
}

/// No inner header, but perhaps what was behind it: options of IPv4 in a header of their own, or
/// extension headers of IPv6.
fn beet(mut packet: Outgoing<'_, Ip>, features: Features) -> Result<Segments> {
    let carries_v6 = packet.state().selects_v6();
    let mut protocol = packet.protocol();

    packet.step_over_state();
    if carries_v6 {
        protocol = packet.step_over_extensions(protocol)?;
    } else {
        if Ip::IS_V6 {
            packet.move_transport(-(V6_LONGER as i32));
        }
        if protocol == BEET_HEADER {
            let header = packet.beet_header().ok_or(EINVAL)?;
            packet.move_transport(header.len as i32);
            protocol = header.next;
        } else {
            packet.move_transport(-(BEET_HEADER_LEN as i32));
        }
    }
    // It leaves in a header of the other version than it began with.
    if carries_v6 != Ip::IS_V6 && protocol == TCP {
        packet.add_gso_type(Ip::TCP);
    }
    if protocol == Ip::OTHER_IP {
        packet.add_gso_type(Ip::INSIDE);
    }
    packet.begin_at_transport()?;
    packet.cut(protocol, features)
}
