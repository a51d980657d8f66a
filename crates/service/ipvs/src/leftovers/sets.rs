//! The ipsets of kube-proxy's ipvs mode and of ours.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::Duration;

use sluice_netlink::ipset::Sets;

use sluice_plane::kube_proxy::is_ours;
use sluice_plane::{LeftoverError, Removal};

use crate::set::SetName;

/// Exists when the kernel has ipset; a request would load the module.
const MODULE: &str = "/sys/module/ip_set";

/// How often a set in use is tried: deleted rules hold it until a grace period has ended
/// (`nf_tables_trans_destroy_work`), and kernels before 6.10 do not wait for that when a socket is
/// closed (`nft_rcv_nl_event`).
const ATTEMPTS: usize = 100;

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// kube-proxy's ipsets and ours; `None` when the kernel has no ipset.
pub(super) fn open() -> Result<Option<(Sets, BTreeSet<String>)>, LeftoverError> {
    if !Path::new(MODULE).exists() {
        return Ok(None);
    }
    let mut sets = Sets::open().map_err(LeftoverError::Connect)?;
    let mut all = sets.names().map_err(LeftoverError::Request)?;
    all.retain(|it| is_ours(it) || SetName::named(it).is_some());
    Ok(Some((sets, all)))
}

/// Whether there are sets that only our own ipvs mode has; `false` also when that is not known.
pub(super) fn are_ours() -> bool {
    let sets = open().ok().flatten();
    sets.is_some_and(|(_, names)| names.iter().any(|it| is_ours(it)))
}

/// Removes the ipsets, except those that rules of other programs mention.
pub(super) fn remove(removal: &mut Removal) {
    let result = open();
    let Some((mut sets, names)) = removal.take(result) else {
        return;
    };
    let (own, others): (Vec<_>, Vec<_>) = names.into_iter().partition(|it| is_ours(it));
    #[expect(clippy::disallowed_methods, reason = "the kernel frees sets later")]
    let pause = || thread::sleep(PAUSE);
    let mut count = destroy(&mut sets, others, pause, removal);
    // The next cleanup knows by our own sets that the others are ours, too.
    if removal.is_done() {
        count += destroy(&mut sets, own, pause, removal);
    }
    if count > 0 {
        removal.removed.push(format!("{count} ipsets"));
    }
}

/// Destroys these sets; returns how many are gone.
fn destroy(sets: &mut Sets, names: Vec<String>, pause: impl Fn(), removal: &mut Removal) -> usize {
    let all = names.len();
    let mut attempt = |set: String| sets.destroy(&set).err().map(|error| (set, error));
    let mut stay: Vec<_> = names.into_iter().filter_map(&mut attempt).collect();
    for _ in 1..ATTEMPTS {
        if stay.is_empty() {
            break;
        }
        pause();
        let sets = stay.into_iter().map(|(set, _)| set);
        stay = sets.filter_map(&mut attempt).collect();
    }
    let gone = all - stay.len();
    removal.errors.extend(stay.into_iter().map(|(set, error)| {
        let reason = error.reason();
        LeftoverError::Set { set, reason }
    }));
    gone
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
        let mut removal = Removal::default();
        let names = Vec::from_iter(names);
        assert_eq!(destroy(&mut sets, names.clone(), || {}, &mut removal), 1);
        let stays = "ipset KUBE-CLUSTER-IP stays: the set is in use";
        assert_eq!(removal.errors[0].to_string(), stays);
        let mut removal = Removal::default();
        let flush = || run("iptables-nft", "-F FORWARD");
        destroy(&mut sets, names, flush, &mut removal);
        assert!(removal.errors.is_empty(), "{removal:?}");
    }
}
