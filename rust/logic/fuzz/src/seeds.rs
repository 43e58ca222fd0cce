// SPDX-License-Identifier: GPL-2.0

//! What the fuzzer begins with: packets that take the parsers' each way out, for it to damage.

use crate::{
    make::{self, Extension::*},
    Input, //
};

/// All seeds, with names.
pub fn all() -> Vec<(String, Input)> {
    let mut seeds = Vec::new();
    let mut add = |name: String, before: usize, next: u8, linear: u8, headers: Vec<u8>| {
        seeds.push((
            name,
            Input {
                offset: before as i16,
                next,
                lengths: [linear, 16],
                packet: [vec![0x5a; before], headers].concat(),
            },
        ));
    };

    let udp = make::udp(4000, 53);
    let tcp = make::tcp(4000, 80, 5);
    add("udp".into(), 20, make::UDP, 255, udp.clone());
    add("udp-short".into(), 20, make::UDP, 24, udp[..7].to_vec());
    add("tcp".into(), 20, make::TCP, 30, tcp.clone());
    add(
        "tcp-long-header".into(),
        20,
        make::TCP,
        0,
        make::tcp(1, 2, 15),
    );

    for words in [0, 2, 5, 7, 15] {
        let message = make::icmp(3, &make::ipv4(words, make::UDP, &udp));
        add(format!("icmp-{words}-words"), 20, 0, 40, message);
    }
    for kind in [0, 4, 5, 8, 11, 12] {
        let message = make::icmp(kind, &make::ipv4(5, make::TCP, &tcp));
        add(format!("icmp-type-{kind}"), 24, 0, 255, message);
    }
    add(
        "icmp-of-icmp".into(),
        20,
        0,
        8,
        make::icmp(3, &make::ipv4(5, 1, &udp)),
    );

    for (name, extensions, last) in [
        ("none", vec![], make::UDP),
        ("no-next", vec![Options(0, 0)], 59),
        (
            "options",
            vec![Options(0, 0), Options(43, 2), Options(60, 1)],
            make::TCP,
        ),
        ("auth", vec![Auth(4), Auth(0)], make::UDP),
        (
            "first-fragment",
            vec![Fragment(1), Options(60, 0)],
            make::UDP,
        ),
        (
            "later-fragment",
            vec![Options(0, 0), Fragment(0x05c8)],
            make::UDP,
        ),
        ("esp", vec![Options(60, 0)], 50),
        ("twelve", vec![Options(60, 0); 12], make::UDP),
        ("thirteen", vec![Options(60, 0); 13], make::UDP),
        ("twelve-fragments", vec![Fragment(1); 12], make::TCP),
    ] {
        let (next, chain) = make::chain(&extensions, last);
        let payload = [chain, tcp.clone()].concat();
        add(format!("ipv6-{name}"), 40, next, 60, payload.clone());
        let message = make::icmp(1, &make::ipv6(next, &payload));
        add(format!("icmpv6-{name}"), 40, 0, 100, message);
    }
    let message = make::icmp(129, &make::ipv6(make::UDP, &udp));
    add("icmpv6-echo".into(), 40, 0, 255, message);

    for next in 0..3 {
        for (window, top) in [(31u16, 0u64), (99, 0), (63, 0x1_ffff_fffc << 1)] {
            let steps = [1i16, 1, 0, -3, 70, -5, -5, 300, 1, 2];
            let steps = steps.map(i16::to_be_bytes).concat();
            seeds.push((
                format!("replay-{next}-{window}"),
                Input {
                    offset: i16::MIN,
                    next,
                    lengths: window.to_be_bytes(),
                    packet: [&top.to_be_bytes()[..], &steps].concat(),
                },
            ));
        }
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::all;
    use crate::{
        model::{self, Failure},
        Input, //
    };
    use std::collections::HashSet;

    #[test]
    fn decode_undoes_encode() {
        for (name, seed) in all() {
            assert_eq!(Input::decode(&seed.encode()), Some(seed), "{name}");
        }
        assert_eq!(Input::decode(&[0; 4]), None);
        let input = Input::decode(&[0xff, 0xfe, 0, 0, 0]).unwrap();
        assert_eq!(input.offset(), u32::MAX - 1);
    }

    #[test]
    fn names_differ() {
        let names: HashSet<_> = all().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), all().len());
    }

    #[test]
    fn parsers_agree_with_the_model() {
        for (_, seed) in all() {
            seed.check();
        }
    }

    /// Seeds that no longer reach an outcome leave it to the fuzzer to find the way.
    #[test]
    fn every_outcome_is_there() {
        type Outcome = Result<u8, Failure>;
        let mut quotes = [Vec::<Outcome>::new(), Vec::new()];
        let mut walks = Vec::new();
        for (_, seed) in all() {
            let byte = |at: u32| seed.packet.get(at as usize).copied();
            quotes[0].push(model::quote_v4(&byte, seed.offset()).map(|quote| quote.protocol));
            quotes[1].push(model::quote_v6(&byte, seed.offset()).map(|quote| quote.protocol));
            walks.push(model::skip_extensions(&byte, seed.offset(), seed.next));
        }
        for found in quotes {
            for outcome in [
                Ok(6),
                Ok(17),
                Err(Failure::Type),
                Err(Failure::Length),
                Err(Failure::Protocol),
            ] {
                assert!(found.contains(&outcome), "{outcome:?}");
            }
        }
        assert!(walks.contains(&None));
        for number in [6, 17, 44, 50] {
            assert!(
                walks.iter().flatten().any(|(next, _)| *next == number),
                "{number}"
            );
        }
    }
}
