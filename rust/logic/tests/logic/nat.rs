// SPDX-License-Identifier: GPL-2.0

//! What translation did to a packet, and whether its route has to be asked for again.

use logic::{
    byteorder::Be16,
    nat::{Change, End, OutPolicies, Reason}, //
};

const BOOLS: [bool; 2] = [false, true];

/// Two ends that are alike or not, with the answers of C's hooks: `nf_nat_ipv4_out()` looks up if
/// the address or the port is another, and leaves the port out for ICMP; `nf_nat_ipv4_local_fn()`
/// routes anew if the address is, and looks up otherwise if the port is.
#[test]
fn every_change() {
    let addrs = [[192, 0, 2, 1], [192, 0, 2, 2]];
    let ports = [0x1234, 0x3412, 0x1200];
    for (before, after) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        for from in ports {
            for to in ports {
                for has_ports in BOOLS {
                    let change = Change::between(
                        End {
                            addr: &addrs[before],
                            port: Be16::from_host(from),
                        },
                        End {
                            addr: &addrs[after],
                            port: Be16::from_host(to),
                        },
                        has_ports,
                    );
                    let out_looks_up = before != after || (has_ports && from != to);
                    assert_eq!(change != Change::None, out_looks_up, "{change:?}");
                    let local_routes = before != after;
                    assert_eq!(change == Change::Address, local_routes, "{change:?}");
                    let local_looks_up = !local_routes && has_ports && from != to;
                    assert_eq!(change == Change::Port, local_looks_up, "{change:?}");
                }
            }
        }
    }
}

/// Each byte of an address counts.
#[test]
fn every_byte_of_an_address() {
    let port = Be16::from_host(7);
    let before = [0x11; 16];
    for byte in 0..16 {
        let mut after = before;
        after[byte] ^= 0x80;
        let (before, after) = (
            End {
                addr: &before,
                port,
            },
            End { addr: &after, port },
        );
        assert_eq!(Change::between(before, after, true), Change::Address);
        assert_eq!(Change::between(before, before, true), Change::None);
    }
}

/// What `nf_xfrm_me_harder()` leaves as the packet's route.
#[derive(Debug, PartialEq, Eq)]
enum Route {
    Same,
    Other,
    Dropped,
}

/// What only the lookup finds out; the counters allow for all of it or not.
struct World {
    /// The packet's socket has a policy, and that transforms this flow.
    socket_policy: bool,
    /// A policy matches this flow, and transforms it.
    policy: bool,
    loopback: bool,
}

/// C's lookup, in this order: the socket's policy, the others if there are any, the default. It
/// begins with the route beneath a bundle.
fn lookup(policies: OutPolicies, bundle: bool, world: &World) -> Route {
    if world.socket_policy {
        return Route::Other;
    }
    if policies.global > 0 && world.policy {
        return Route::Other;
    }
    if !world.loopback && !policies.default_accepts {
        return Route::Dropped;
    }
    if bundle {
        return Route::Other;
    }
    Route::Same
}

/// A lookup is left out if and only if nothing that it could find would give another route.
/// Anything else would let a packet out in clear, or cost what need not be.
#[test]
fn lookup_is_left_out_where_it_changes_nothing() {
    for global in [0, 1, u32::MAX] {
        for per_socket in [0, 1, u32::MAX] {
            for default_accepts in BOOLS {
                for bundle in BOOLS {
                    let policies = OutPolicies {
                        global,
                        per_socket,
                        default_accepts,
                    };
                    let mut worlds = Vec::new();
                    for socket_policy in BOOLS {
                        for policy in BOOLS {
                            for loopback in BOOLS {
                                // Without a policy of any socket this one has none.
                                if socket_policy && per_socket == 0 {
                                    continue;
                                }
                                worlds.push(World {
                                    socket_policy,
                                    policy,
                                    loopback,
                                });
                            }
                        }
                    }
                    let changes_nothing = worlds
                        .iter()
                        .all(|world| lookup(policies, bundle, world) == Route::Same);
                    let reason = policies.lookup_reason(bundle);
                    assert_eq!(reason.is_none(), changes_nothing, "{policies:?} {bundle}");
                }
            }
        }
    }
}

/// Of several reasons, the one that is counted.
#[test]
fn first_reason_counts() {
    let reason = |global, per_socket, default_accepts, bundle| {
        OutPolicies {
            global,
            per_socket,
            default_accepts,
        }
        .lookup_reason(bundle)
    };
    assert_eq!(reason(1, 1, false, true), Some(Reason::Policies));
    assert_eq!(reason(0, 1, false, true), Some(Reason::SocketPolicies));
    assert_eq!(reason(0, 0, false, true), Some(Reason::DefaultBlocks));
    assert_eq!(reason(0, 0, true, true), Some(Reason::Bundle));
    assert_eq!(reason(0, 0, true, false), None);
}
