//! Helpers of the tests of this crate.

use std::{io::Write, net::SocketAddr, process::Stdio};

use sluice_lab::{Netns, Outcome, Probe, Protocol, Server};

pub(crate) const PORT: u16 = 8080;
pub(crate) const BOTH: [Protocol; 2] = [Protocol::Tcp, Protocol::Udp];

/// Servers for both protocols on [`PORT`].
pub(crate) fn serve(netns: &Netns, name: &str) -> [Server; 2] {
    BOTH.map(|protocol| Server::start(netns, name, PORT, protocol).unwrap())
}

/// Asserts that `name` answers at `target`, over both protocols, and sees `source`.
#[track_caller]
pub(crate) fn assert_answers(
    from: &Netns,
    target: SocketAddr,
    name: &str,
    source: impl Into<std::net::IpAddr>,
) {
    let source = source.into();
    for protocol in BOTH {
        let outcome = Probe::new(target, protocol).from(from);
        let Outcome::Answered {
            name: who,
            source: seen,
            ..
        } = &outcome
        else {
            panic!("{protocol:?} from {} to {target}: {outcome}", from.name());
        };
        assert_eq!(
            (who.as_str(), *seen),
            (name, source),
            "{protocol:?} from {} to {target}",
            from.name()
        );
    }
}

/// Loads a ruleset inside `netns`.
#[track_caller]
pub(crate) fn nft(netns: &Netns, ruleset: &str) {
    let mut child = netns
        .command("nft", &["-f", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(ruleset.as_bytes())
        .unwrap();
    assert!(child.wait().unwrap().success(), "nft refused:\n{ruleset}");
}

/// Names under `/run/netns` that begin with `prefix`.
pub(crate) fn namespaces(prefix: &str) -> Vec<String> {
    let names = std::fs::read_dir("/run/netns")
        .unwrap()
        .map(|it| it.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(prefix)).collect()
}
