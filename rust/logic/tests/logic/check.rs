// SPDX-License-Identifier: GPL-2.0

//! Asks the parsers and the model the same, and compares.

use crate::{
    model::{self, Bytes},
    packet::{Endless, Linear, Pieces}, //
};
use logic::{
    header::Headers,
    icmp::{self, NoQuote, Quote},
    ipv6,
    transport::{Protocol, Transport}, //
};

/// What the parsers found, in the model's words.
pub fn transport<H: Headers>(
    packet: &H,
    protocol: Protocol,
    offset: u32,
) -> Option<model::Transport> {
    Transport::parse(packet, protocol, offset).map(|found| model::Transport {
        source: found.ports.source.to_host(),
        dest: found.ports.dest.to_host(),
        data_offset: found.data_offset,
    })
}

/// What the parsers found, in the model's words.
pub fn quote<A: AsRef<[u8]>>(
    found: Result<Quote<A>, NoQuote>,
) -> Result<model::Quote, model::Failure> {
    match found {
        Ok(quote) => Ok(model::Quote {
            protocol: match quote.protocol {
                Protocol::Tcp => 6,
                Protocol::Udp => 17,
            },
            source: quote.source.as_ref().to_vec(),
            dest: quote.dest.as_ref().to_vec(),
            source_port: quote.ports.source.to_host(),
            dest_port: quote.ports.dest.to_host(),
        }),
        Err(reason) => Err(failure(reason)),
    }
}

/// Why the parsers found nothing, in the model's words.
pub fn failure(reason: NoQuote) -> model::Failure {
    match reason {
        NoQuote::NotAnError => model::Failure::Type,
        NoQuote::Truncated => model::Failure::Length,
        NoQuote::Protocol => model::Failure::Protocol,
    }
}

/// What the parsers found, in the model's words.
pub fn skip_extensions<H: Headers>(packet: &H, offset: u32, next: u8) -> Option<(u8, u32)> {
    ipv6::skip_extension_headers(packet, offset, next)
        .map(|payload| (payload.next_header, payload.offset))
}

/// All parsers against the model, on one packet. Panics where they differ.
fn same<H: Headers>(what: &str, packet: &H, bytes: &Bytes<'_>, offset: u32, next: u8) {
    for (number, protocol) in [(6, Protocol::Tcp), (17, Protocol::Udp)] {
        assert_eq!(
            transport(packet, protocol, offset),
            model::transport(bytes, number, offset),
            "{what}: {protocol:?} header at {offset}"
        );
    }
    assert_eq!(
        icmp::check_v4(packet, offset).map_err(failure),
        model::error_v4(bytes, offset),
        "{what}: type of the ICMP message at {offset}"
    );
    assert_eq!(
        quote(icmp::quote_behind_v4(packet, offset)),
        model::quote_behind_v4(bytes, offset),
        "{what}: quote behind the ICMP header at {offset}"
    );
    assert_eq!(
        quote(icmp::quote_v4(packet, offset)),
        model::quote_v4(bytes, offset),
        "{what}: ICMP error at {offset}"
    );
    assert_eq!(
        icmp::check_v6(packet, offset).map_err(failure),
        model::error_v6(bytes, offset),
        "{what}: type of the ICMPv6 message at {offset}"
    );
    assert_eq!(
        quote(icmp::quote_behind_v6(packet, offset)),
        model::quote_behind_v6(bytes, offset),
        "{what}: quote behind the ICMPv6 header at {offset}"
    );
    assert_eq!(
        quote(icmp::quote_v6(packet, offset)),
        model::quote_v6(bytes, offset),
        "{what}: ICMPv6 error at {offset}"
    );
    assert_eq!(
        skip_extensions(packet, offset, next),
        model::skip_extensions(bytes, offset, next),
        "{what}: extension headers from {offset}, the first a {next}"
    );
}

/// All parsers against the model, on these bytes in one piece, in pieces of these lengths, and
/// without an end. Panics where any two differ.
pub fn all(bytes: &[u8], lengths: &[usize], offset: u32, next: u8) {
    let byte = |at: u32| bytes.get(at as usize).copied();
    same("linear", &Linear(bytes), &byte, offset, next);
    let pieces = Pieces::cut(bytes, lengths);
    same("non-linear", &pieces, &byte, offset, next);

    if !bytes.is_empty() {
        let endless = Endless::new(bytes);
        let byte = |at| Some(endless.byte(at));
        same("endless", &endless, &byte, offset, next);
    }
}
