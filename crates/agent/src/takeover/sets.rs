//! The ipsets that rules of kube-proxy's ipvs mode mention, and of ours.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::Duration;

use sluice_netlink::RequestError;
use sluice_netlink::ipset::Sets;

use super::{Removal, TakeoverError, names};

/// There when the kernel has ipset; to ask the kernel itself would load it.
const MODULE: &str = "/sys/module/ip_set";

/// How often a set is tried that is in use: rules that are gone let go of it after a grace period
/// (`nf_tables_trans_destroy_work`), for which kernels before 6.10 do not wait when a socket is
/// closed (`nft_rcv_nl_event`).
const ATTEMPTS: usize = 100;

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// kube-proxy's ipsets; `None` when the kernel has no ipset.
pub(super) fn open() -> Result<Option<(Sets, BTreeSet<String>)>, TakeoverError> {
    if !Path::new(MODULE).exists() {
        return Ok(None);
    }
    let mut sets = Sets::open().map_err(TakeoverError::Connect)?;
    let mut all = sets.names().map_err(TakeoverError::Request)?;
    all.retain(|it| names::is_set(it));
    Ok(Some((sets, all)))
}

/// Removes the ipsets. One that a rule of somebody else mentions stays.
pub(super) fn remove(removal: &mut Removal) {
    let result = open();
    let Some((mut sets, names)) = removal.keep(result) else {
        return;
    };
    let all = names.len();
    let stay = destroy(&mut sets, names, || thread::sleep(PAUSE));
    if stay.len() < all {
        let count = all - stay.len();
        removal.removed.push(format!("{count} ipsets"));
    }
    for (name, error) in stay {
        match error {
            RequestError::Refused { .. } => {
                let note = format!("ipset {name} of kube-proxy stays: a rule mentions it");
                removal.notes.push(note);
            }
            error => removal.errors.push(TakeoverError::Request(error)),
        }
    }
}

/// Destroys the sets; returns those that stay, and why.
fn destroy(
    sets: &mut Sets,
    names: BTreeSet<String>,
    pause: impl Fn(),
) -> Vec<(String, RequestError)> {
    let mut attempt = |name: String| sets.destroy(&name).err().map(|error| (name, error));
    let mut stay: Vec<_> = names.into_iter().filter_map(&mut attempt).collect();
    for _ in 1..ATTEMPTS {
        if stay.is_empty() {
            break;
        }
        pause();
        let names = stay.into_iter().map(|(name, _)| name);
        stay = names.filter_map(&mut attempt).collect();
    }
    stay
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_lab::{Netns, require_netns};

    #[test]
    fn a_set_goes_once_the_last_rule_lets_go() {
        require_netns!();
        let netns = Netns::new("sets").unwrap();
        let run = |program, arguments: &str| {
            let arguments: Vec<&str> = arguments.split(' ').collect();
            let status = netns.command(program, &arguments).status();
            assert!(status.unwrap().success(), "{program} {arguments:?}");
        };
        run("ipset", "create KUBE-CLUSTER-IP hash:ip,port");
        run("ipset", "create KUBE-IPVS-IPS hash:ip");
        let set = "-m set --match-set KUBE-CLUSTER-IP dst,dst";
        run("iptables-nft", &format!("-A FORWARD {set}"));
        let _inside = netns.enter().unwrap();
        let (mut sets, names) = open().unwrap().unwrap();
        assert_eq!(names.len(), 2);
        let stay = destroy(&mut sets, names, || {});
        let [(name, error)] = stay.try_into().unwrap();
        assert_eq!(
            (&*name, &*error.reason()),
            ("KUBE-CLUSTER-IP", "the set is in use")
        );
        let names = BTreeSet::from([name]);
        let stay = destroy(&mut sets, names, || run("iptables-nft", "-F FORWARD"));
        assert!(stay.is_empty(), "{stay:?}");
    }
}
