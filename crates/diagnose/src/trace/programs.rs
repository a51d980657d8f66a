//! Programs that lead packets to endpoints before netfilter sees them.

use std::time::Instant;

use sluice_plane::{Act, Sighting, Witness};

use super::checkpoints::{Checkpoints, Filter};
use super::sender::Sender;
use super::{End, PATIENCE, Request, TraceError};

/// The checkpoints in netfilter; `None` where programs are watched and netfilter has nothing to tell: nobody knows
/// the endpoint of a packet that is waited for, and a machine with programs may have no netfilter.
pub(super) fn checkpoints(
    request: &Request,
    sender: Option<&Sender>,
    has_programs: bool,
) -> Result<Option<Checkpoints>, TraceError> {
    if !has_programs {
        return Checkpoints::set(&Filter::of(request, sender)).map(Some);
    }
    let filter = sender.map(|it| Filter::of(request, Some(it)).to_anywhere());
    Ok(filter.and_then(|it| Checkpoints::set(&it).ok()))
}

/// Waits until programs have seen a packet, at most until `first`; whether they did. One that was waited for gets
/// time for its answer.
pub(super) fn watch(witness: &mut dyn Witness, port: Option<u16>, first: Instant) -> bool {
    let mut is_seen = |until: Instant, wanted: fn(&[Sighting]) -> bool| {
        while !wanted(&witness.seen(port)) {
            if Instant::now() >= until {
                return false;
            }
            witness.wait(until);
        }
        true
    };
    let is_done = |it: &[Sighting]| {
        let ends = |it: &Sighting| it.act == Act::Returned || it.act.is_denial();
        it.iter().any(ends)
    };
    let is_any = is_seen(first, |it| !it.is_empty());
    if is_any && port.is_none() {
        is_seen(Instant::now() + PATIENCE, is_done);
    }
    is_any
}

/// The end of a packet that programs saw: theirs, if they denied it, or if netfilter did not see it, or not with
/// the addresses that it left with.
pub(super) fn end(end: End, sightings: &[Sighting], request: &Request) -> End {
    let of_programs = |it: &Sighting| End::Programs {
        place: it.place.clone(),
        act: it.act,
        fate: it.fate.clone(),
        packet: it.left.clone(),
    };
    if let Some(denial) = sightings.iter().find(|it| it.act.is_denial()) {
        return of_programs(denial);
    }
    let acts = |it: &&Sighting| matches!(it.act, Act::Opened | Act::Carried);
    let last = sightings.iter().rfind(acts).map(of_programs);
    match (end, last) {
        (End::Delivered { packet, .. }, Some(last))
            if packet.destination == request.destination =>
        {
            last
        }
        (End::Unseen { .. }, Some(last)) => last,
        (end, _) => end,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use sluice_model::Protocol;

    use super::super::{Addresses, Source};
    use super::*;

    const FRONTEND: ([u8; 4], u16) = ([10, 96, 0, 10], 80);
    const ENDPOINT: ([u8; 4], u16) = ([10, 244, 0, 7], 8080);

    fn sighting(act: Act) -> Sighting {
        Sighting {
            place: "arrives through east".to_owned(),
            packet: String::new(),
            left: String::new(),
            act,
            fate: format!("{act:?}"),
        }
    }

    fn delivered(to: ([u8; 4], u16)) -> End {
        End::Delivered {
            packet: Addresses {
                source: SocketAddr::from(([10, 244, 0, 2], 40_000)),
                destination: to.into(),
            },
            interface: None,
            causes: Vec::new(),
        }
    }

    #[track_caller]
    fn check(of_netfilter: &End, acts: &[Act], expected: Option<Act>) {
        let request = Request {
            protocol: Protocol::Tcp,
            source: Source::Node,
            destination: FRONTEND.into(),
            wait: None,
        };
        let sightings: Vec<Sighting> = acts.iter().copied().map(sighting).collect();
        let found = match end(of_netfilter.clone(), &sightings, &request) {
            End::Programs { act, .. } => Some(act),
            other => {
                assert_eq!(other, *of_netfilter);
                None
            }
        };
        assert_eq!(found, expected, "{acts:?}");
    }

    #[test]
    fn the_end_is_that_of_programs_where_netfilter_does_not_know_it() {
        let unseen = || End::Unseen { causes: Vec::new() };
        check(&unseen(), &[], None);
        check(&unseen(), &[Act::Passed], None);
        check(
            &unseen(),
            &[Act::Opened, Act::Carried, Act::Returned],
            Some(Act::Carried),
        );
        check(&unseen(), &[Act::Rejected], Some(Act::Rejected));
        check(&delivered(ENDPOINT), &[Act::Opened, Act::Returned], None);
        check(
            &delivered(ENDPOINT),
            &[Act::Opened, Act::Dropped],
            Some(Act::Dropped),
        );
        check(&delivered(FRONTEND), &[Act::Opened], Some(Act::Opened));
        check(&delivered(FRONTEND), &[Act::Passed], None);
    }
}
