// SPDX-License-Identifier: GPL-2.0

//! The chains of a namespace, as nf_tables adds and removes them.

use crate::{
    counters::{Event, Stats},
    hooks, //
};
use core::pin::Pin;
use kernel::{
    new_mutex,
    prelude::*,
    sync::Mutex, //
};
use net::{
    count,
    netfilter::{
        ip::{Ipv4, Ipv6},
        nat::{Chain, Chains},
        nft::NatState,
        Family, //
    },
    netns::Net,
    pernet::{Id, PerNet}, //
};

/// The chains of a namespace.
#[pin_data]
pub(crate) struct NatNet {
    #[pin]
    chains: Mutex<Both>,
}

/// By IP version; a chain of an inet table is in both.
struct Both {
    ipv4: Chains<Ipv4>,
    ipv6: Chains<Ipv6>,
}

impl PerNet for NatNet {
    fn id() -> &'static Id {
        static ID: Id = Id::new();
        &ID
    }

    fn init(_net: &Net) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            chains <- new_mutex!(Both {
                ipv4: Chains::new(),
                ipv6: Chains::new(),
            }),
        })
    }
}

impl Both {
    fn add_ipv4(&mut self, net: &Net, chain: &Chain) -> Result {
        self.ipv4.add(net, &hooks::IPV4, chain).map(count)
    }

    fn add_ipv6(&mut self, net: &Net, chain: &Chain) -> Result {
        self.ipv6.add(net, &hooks::IPV6, chain).map(count)
    }
}

impl NatState for NatNet {
    fn add(self: Pin<&Self>, family: Family, net: &Net, chain: &Chain) -> Result {
        let mut chains = self.chains.lock();
        match family {
            Family::Ipv4 => chains.add_ipv4(net, chain),
            Family::Ipv6 => chains.add_ipv6(net, chain),
            // For both versions, or for none.
            Family::Inet => {
                chains.add_ipv6(net, chain)?;
                chains.add_ipv4(net, chain).inspect_err(|_| {
                    chains.ipv6.remove(net, chain);
                })
            }
        }
    }

    fn remove(self: Pin<&Self>, family: Family, net: &Net, chain: &Chain) {
        let mut chains = self.chains.lock();
        if family != Family::Ipv6 {
            chains.ipv4.remove(net, chain);
        }
        if family != Family::Ipv4 {
            chains.ipv6.remove(net, chain);
        }
    }
}

/// Counts a chain that went to C's hooks.
fn count(to_c: bool) {
    if to_c {
        count!(Stats, Event::ChainToC);
    }
}
