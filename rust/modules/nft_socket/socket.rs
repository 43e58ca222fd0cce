// SPDX-License-Identifier: GPL-2.0

//! The expression: `socket transparent`, `socket mark`, `socket wildcard`, `socket cgroupv2`.

use crate::counters::Stats;
use kernel::prelude::*;
use logic::ipv6::NEXTHDR_AUTH;
use net::{
    cgroup,
    count,
    netfilter::{
        ip::{Ipv4, Ipv6, Version},
        nft::{Arrived, Break, Ctx, DestReg, Expr, Pkt, Regs},
        socket::{visit, Event, Visitor},
        Hooks, //
    },
    netlink::{Attrs, DumpMessage, Policy},
    sock::{Candidate, FullSock, Sock},
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

    /// The packet's own socket, unless that is one of another namespace; else the one it is for. A
    /// packet that came in through no device is not looked up: it is on its way out.
    ///
    /// Where the rule breaks, that is said at the place itself, and nothing is returned: each way
    /// to a socket is the last thing that this does, a jump and no call.
    #[inline(always)]
    fn eval(&self, regs: &mut Regs, pkt: Pkt<'_>) -> Result<(), Break> {
        let load = Load { socket: self, regs };
        let net = pkt.net();
        if let Some(sock) = pkt.sock().filter(|sock| sock.is_in(net)) {
            load.own(pkt.is_ipv4(), sock);
            return Ok(());
        }

        match pkt.arrived::<Ipv4>() {
            Ok(arrived) => {
                let protocol = arrived.protocol_v4();
                let later_fragment = arrived.is_later_fragment();
                visit::<_, Stats, _>(arrived, protocol, later_fragment, load);
            }
            Err(pkt) => visit_ipv6(load, pkt),
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

/// [`visit()`] for IPv6. By itself, as each way to a socket: what one has to keep across its calls
/// is not for the others to pay.
#[inline(never)]
fn visit_ipv6(load: Load<'_>, pkt: Pkt<'_>) {
    let arrived = match pkt.arrived::<Ipv6>() {
        Ok(arrived) => arrived,
        Err(_) => {
            count!(Stats, Event::NoInputDevice);
            return load.missing();
        }
    };
    match arrived.protocol() {
        None | Some(NEXTHDR_AUTH) => visit_behind_extensions(load, arrived),
        Some(protocol) => {
            let later_fragment = arrived.is_later_fragment();
            visit::<_, Stats, _>(arrived, protocol, later_fragment, load)
        }
    }
}

/// [`visit_ipv6()`] for a packet in which nf_tables found nothing to look up by.
#[cold]
#[inline(never)]
fn visit_behind_extensions(load: Load<'_>, arrived: Arrived<'_, Ipv6>) {
    match arrived.walk() {
        Some((walked, payload)) => {
            visit::<_, Stats, _>(walked, payload.protocol, payload.later_fragment, load)
        }
        None => {
            count!(Stats, Event::Truncated);
            load.missing()
        }
    }
}

/// Loads what the rule asks for from a socket into the rule's register.
struct Load<'a> {
    socket: &'a Socket,
    regs: &'a mut Regs,
}

impl Load<'_> {
    /// From the packet's own socket. `ipv4`: the packet's IP version.
    #[inline(always)]
    fn own(self, ipv4: bool, sock: &Sock) {
        count!(Stats, Event::SkbSock);
        self.load(sock.into(), |sock| match ipv4 {
            true => Ipv4::is_bound_to_any(sock),
            false => Ipv6::is_bound_to_any(sock),
        })
    }

    #[inline(always)]
    fn load(mut self, sock: Candidate<'_>, is_bound_to_any: impl FnOnce(&FullSock) -> bool) {
        if self.try_load(sock, is_bound_to_any).is_err() {
            self.regs.set_break();
        }
    }

    #[inline(always)]
    fn try_load(
        &mut self,
        sock: Candidate<'_>,
        is_bound_to_any: impl FnOnce(&FullSock) -> bool,
    ) -> Result<(), Break> {
        match *self.socket {
            Socket::Mark(dreg) => self.regs.store(dreg, full(sock)?.mark()),
            Socket::Transparent(dreg) => {
                self.regs.store(dreg, u8::from(sock.is_transparent()));
            }
            Socket::Wildcard(dreg) => {
                self.regs
                    .store(dreg, u8::from(is_bound_to_any(full(sock)?)));
            }
            Socket::Cgroupv2 { dreg, level, .. } => {
                let Some(id) = full(sock)?.cgroup_ancestor_id(level) else {
                    count!(Stats, Event::NoCgroup);
                    return Err(Break);
                };
                self.regs.store(dreg, id);
            }
        }
        Ok(())
    }
}

impl Visitor for Load<'_> {
    type Output = ();

    #[inline(always)]
    fn found<V: Version>(self, sock: Candidate<'_>) {
        self.load(sock, V::is_bound_to_any);
    }

    #[inline(always)]
    fn missing(self) {
        self.regs.set_break();
    }
}

/// The full socket, which all keys but `transparent` need.
#[inline(always)]
fn full(sock: Candidate<'_>) -> Result<&FullSock, Break> {
    sock.full().ok_or_else(|| {
        count!(Stats, Event::NotFull);
        Break
    })
}
