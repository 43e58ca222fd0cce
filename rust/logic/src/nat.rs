// SPDX-License-Identifier: GPL-2.0

//! What address translation did to a packet, and whether its route has to be asked for again.

use crate::byteorder::Be16;

/// One end of a connection: an address, and a port (or an ICMP id).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End<'a, A> {
    /// The address.
    pub addr: &'a A,
    /// The port, or what stands in for one.
    pub port: Be16,
}

/// How an end was translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was not.
    None,
    /// The port alone.
    Port,
    /// The address, and perhaps the port.
    Address,
}

impl Change {
    /// Compares an end of a packet's direction before translation with the same end as packets of
    /// the other direction name it. An ICMP id is no port: no policy and no route depends on it,
    /// so `has_ports` is false for ICMP.
    #[inline(always)]
    pub fn between<A: PartialEq>(before: End<'_, A>, after: End<'_, A>, has_ports: bool) -> Self {
        if before.addr != after.addr {
            Self::Address
        } else if has_ports && before.port != after.port {
            Self::Port
        } else {
            Self::None
        }
    }
}

/// What decides whether a policy lookup for an outgoing packet can have a result at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutPolicies {
    /// The number of outbound policies in the namespace.
    pub global: u32,
    /// The number of outbound policies of sockets in the namespace.
    pub per_socket: u32,
    /// Whether a packet that no policy matches may leave.
    pub default_accepts: bool,
}

/// The reason for a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There are outbound policies.
    Policies,
    /// Sockets have outbound policies.
    SocketPolicies,
    /// What no policy matches is dropped.
    DefaultBlocks,
    /// The packet's route is a bundle: it leads through a policy that may not match any more.
    Bundle,
}

impl OutPolicies {
    /// Why a packet whose route is a bundle or not has to be looked up again. `None`: the lookup
    /// would give back the route that the packet has.
    #[inline(always)]
    pub fn lookup_reason(self, bundle: bool) -> Option<Reason> {
        if self.global != 0 {
            Some(Reason::Policies)
        } else if self.per_socket != 0 {
            Some(Reason::SocketPolicies)
        } else if !self.default_accepts {
            Some(Reason::DefaultBlocks)
        } else if bundle {
            Some(Reason::Bundle)
        } else {
            None
        }
    }
}
