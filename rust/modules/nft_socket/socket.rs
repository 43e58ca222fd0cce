// SPDX-License-Identifier: GPL-2.0

//! The expression: `socket transparent`, `socket mark`, `socket wildcard`, `socket cgroupv2`.

use crate::counters::Stats;
use kernel::prelude::*;
use net::{
    cgroup,
    netfilter::{
        ip::{Ipv6, Packet},
        nft::{Break, Ctx, DestReg, Expr, Pkt, Regs, Versioned},
        socket::{lookup, Event},
        Hooks,
        NetDevice, //
    },
    netlink::{Attrs, DumpMessage, Policy},
    netns::Net,
    percpu::Counters as _,
    rcu,
    sock::{Found, FullSock, Sock},
    uapi::nft_socket as uapi, //
};

/// What a rule asks for, and the register that gets it.
#[derive(Clone, Copy)]
pub(crate) enum Socket {
    /// Whether the socket may use addresses that are not local.
    Transparent(DestReg<u8>),
    /// The socket's mark.
    Mark(DestReg<u32>),
    /// Whether the socket is bound to no address.
    Wildcard(DestReg<u8>),
    /// The id of an ancestor of the socket's cgroup.
    Cgroupv2 {
        dreg: DestReg<u64>,
        /// The ancestor's level, counted from the root of the hierarchy.
        level: u8,
        /// The level as the rule has it, counted from the root of the cgroup namespace in which
        /// the rule was added.
        user_level: u8,
    },
}

impl Expr for Socket {
    const NAME: &'static CStr = c"socket";

    const POLICY: &'static [Policy] = &[
        Policy::unspecified(),
        Policy::be32_max(255),                 // key
        Policy::be32_max(uapi::NFT_REG32_MAX), // destination register
        Policy::be32_max(255),                 // level
    ];

    fn init(ctx: &Ctx<'_>, attrs: &Attrs<'_>) -> Result<Self> {
        if !attrs.has(uapi::NFTA_SOCKET_DREG) {
            return Err(EINVAL);
        }
        let key = attrs.be32(uapi::NFTA_SOCKET_KEY)?;

        match key {
            uapi::NFT_SOCKET_TRANSPARENT => Ok(Self::Transparent(dreg(ctx, attrs)?)),
            uapi::NFT_SOCKET_MARK => Ok(Self::Mark(dreg(ctx, attrs)?)),
            uapi::NFT_SOCKET_WILDCARD => Ok(Self::Wildcard(dreg(ctx, attrs)?)),
            uapi::NFT_SOCKET_CGROUPV2 => {
                let user_level = attrs.be32(uapi::NFTA_SOCKET_LEVEL)?;
                let user_level = u8::try_from(user_level).map_err(|_| EOPNOTSUPP)?;
                let level = cgroup::namespace_level()?
                    .checked_add(user_level)
                    .ok_or(EOPNOTSUPP)?;
                Ok(Self::Cgroupv2 {
                    dreg: dreg(ctx, attrs)?,
                    level,
                    user_level,
                })
            }
            _ => Err(EOPNOTSUPP),
        }
    }

    #[inline(always)]
    fn eval(&self, regs: &mut Regs, pkt: &mut Pkt<'_>) -> Result<(), Break> {
        let sock = find(pkt).ok_or(Break)?;

        match *self {
            Self::Transparent(dreg) => regs.store(dreg, u8::from(sock.is_transparent())),
            Self::Mark(dreg) => regs.store(dreg, full(&sock)?.mark()),
            Self::Wildcard(dreg) => regs.store(dreg, u8::from(is_wildcard(pkt, full(&sock)?)?)),
            Self::Cgroupv2 { dreg, level, .. } => {
                let id = full(&sock)?.cgroup_ancestor_id(level).ok_or_else(|| {
                    Stats::count(Event::NoCgroup);
                    Break
                })?;
                regs.store(dreg, id);
            }
        }
        Ok(())
    }

    fn dump(&self, message: &mut DumpMessage<'_>) -> Result {
        let (key, level) = match self {
            Self::Transparent(_) => (uapi::NFT_SOCKET_TRANSPARENT, None),
            Self::Mark(_) => (uapi::NFT_SOCKET_MARK, None),
            Self::Wildcard(_) => (uapi::NFT_SOCKET_WILDCARD, None),
            Self::Cgroupv2 { user_level, .. } => (uapi::NFT_SOCKET_CGROUPV2, Some(*user_level)),
        };

        message.put_be32(uapi::NFTA_SOCKET_KEY, key)?;
        match self {
            Self::Transparent(dreg) | Self::Wildcard(dreg) => {
                dreg.dump(message, uapi::NFTA_SOCKET_DREG)?
            }
            Self::Mark(dreg) => dreg.dump(message, uapi::NFTA_SOCKET_DREG)?,
            Self::Cgroupv2 { dreg, .. } => dreg.dump(message, uapi::NFTA_SOCKET_DREG)?,
        }
        match level {
            Some(level) => message.put_be32(uapi::NFTA_SOCKET_LEVEL, u32::from(level)),
            None => Ok(()),
        }
    }

    fn validate(ctx: &Ctx<'_>) -> Result {
        ctx.validate_hooks(Hooks::PRE_ROUTING.or(Hooks::LOCAL_IN).or(Hooks::LOCAL_OUT))
    }
}

/// The destination register that the rule names.
fn dreg<T: net::netfilter::nft::Value>(ctx: &Ctx<'_>, attrs: &Attrs<'_>) -> Result<DestReg<T>> {
    DestReg::parse(ctx, attrs, uapi::NFTA_SOCKET_DREG)
}

/// The packet's own socket, unless that is one of another namespace; else the one it is for. A
/// packet that came in through no device is not looked up: it is on its way out.
#[inline(always)]
fn find<'eval>(pkt: &mut Pkt<'eval>) -> Option<Found<'eval>> {
    let net = pkt.net();
    if let Some(sock) = pkt.sock().filter(|sock| sock.is_in(net)) {
        Stats::count(Event::SkbSock);
        return Some(Found::Borrowed(sock));
    }

    let Some(indev) = pkt.indev() else {
        Stats::count(Event::NoInputDevice);
        return None;
    };
    let rcu = pkt.rcu();
    match pkt.versioned() {
        Versioned::Ipv4(mut packet, payload) => {
            lookup::<_, Stats>(rcu, net, indev, &mut packet, payload)
        }
        Versioned::Ipv6(mut packet, Some(payload)) => {
            lookup::<_, Stats>(rcu, net, indev, &mut packet, payload)
        }
        Versioned::Ipv6(packet, None) => find_behind_extensions(rcu, net, indev, packet),
        Versioned::Other => None,
    }
}

/// [`find()`] for an IPv6 packet in which nf_tables found nothing to look up by.
#[cold]
#[inline(never)]
fn find_behind_extensions<'eval>(
    rcu: rcu::Section<'eval>,
    net: &Net,
    indev: &NetDevice,
    mut packet: Packet<'_, Ipv6>,
) -> Option<Found<'eval>> {
    match packet.find_payload() {
        Some(payload) => lookup::<_, Stats>(rcu, net, indev, &mut packet, payload),
        None => {
            Stats::count(Event::Truncated);
            None
        }
    }
}

/// The full socket, which all keys but `transparent` need.
#[inline(always)]
fn full(sock: &Sock) -> Result<&FullSock, Break> {
    sock.full().ok_or_else(|| {
        Stats::count(Event::NotFull);
        Break
    })
}

/// Whether the socket is bound to no address of the packet's IP version.
#[inline(always)]
fn is_wildcard(pkt: &Pkt<'_>, sock: &FullSock) -> Result<bool, Break> {
    if pkt.is_ipv4() {
        Ok(sock.rcv_saddr_v4() == 0)
    } else if pkt.is_ipv6() {
        Ok(sock.rcv_saddr_v6() == [0; 4])
    } else {
        Err(Break)
    }
}
