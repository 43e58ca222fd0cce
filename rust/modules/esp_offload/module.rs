// SPDX-License-Identifier: GPL-2.0

//! What the module registers, and in which order it comes and goes.

use crate::{
    counters::Stats,
    receive::Receiver,
    switch::Switch,
    transmit::Transmitter,
    Ip,
    NAMES, //
};
use kernel::{
    debugfs::{Dir, File},
    prelude::*, //
};
use net::{
    module,
    rcu::{Published, Slot},
    xfrm::{
        handler::Handlers,
        offload::Registration,
        queue::Queues, //
    }, //
};

/// What the modules are called.
pub(crate) struct Names {
    /// This one.
    pub(crate) own: &'static CStr,
    /// The one that it takes the place of.
    pub(crate) c: &'static CStr,
}

/// What is needed to receive packets.
#[pin_data]
pub(crate) struct Context {
    // Dropped from top to bottom: packets that wait are received with the rest.
    /// Packets that wait.
    #[pin]
    pub(crate) queues: Queues<Ip, Receiver>,
    /// Those who want to know.
    #[pin]
    pub(crate) handlers: Handlers<Ip>,
}

/// Where it is found: C calls without a pointer of ours.
pub(crate) static CONTEXT: Slot<Context> = Slot::new();

/// The module.
#[pin_data]
pub(crate) struct EspOffload {
    // Dropped from top to bottom: no packet arrives any more when the rest goes.
    #[pin]
    registration: Registration<Ip, Receiver, Transmitter>,
    #[pin]
    context: Published<Context>,
    #[pin]
    switch: File<Switch>,
    #[pin]
    counters: File<Stats>,
    dir: Dir,
}

impl kernel::InPlaceModule for EspOffload {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        let dir = Dir::new(NAMES.own);
        try_pin_init!(Self {
            _: {
                if module::is_loaded(module, NAMES.c) {
                    return Err(refuse());
                }
            },
            counters <- dir.read_only_file(c"counters", Stats),
            switch <- dir.read_write_file(c"per_burst", Switch),
            context <- Published::new(&CONTEXT, try_pin_init!(Context {
                handlers <- Handlers::new(),
                queues <- Queues::new(),
            })),
            registration <- Registration::new(module, refuse),
            dir: dir,
        })
    }
}

/// Says what is in the way.
fn refuse() -> Error {
    pr_err!(
        "ESP is served by {c}: remove the states and policies of IPsec, rmmod {c}, and install \
         the modprobe.d file that keeps it away\n",
        c = NAMES.c.to_str().unwrap_or_default(),
    );
    EEXIST
}
