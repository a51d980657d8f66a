//! Chains of iptables, and the objects of nfacct in which their rules count packets.

use nix::net::if_::if_nametoindex;
use sluice_netlink::Errno;
use sluice_netlink::nfacct::{self, Accounts};
use sluice_plane::kube_proxy::{self, ACCOUNTS, DEVICE, KUBELET};
use sluice_plane::{
    Keep, LeftoverError, Leftovers, Looks, Purpose, Removal, Request, Trace, chains,
};

/// The objects of the iptables mode of kube-proxy, and of ours.
pub(crate) struct ChainsAndAccounts;

impl Leftovers for ChainsAndAccounts {
    fn remove(&self, request: &Request<'_>, removal: &mut Removal) {
        // The ipvs mode needs its chains while it serves the other family.
        let serves_by_ipvs =
            !(request.keep)(&Trace::VirtualServers) && if_nametoindex(DEVICE).is_ok();
        let is_of_kube_proxy = request.purpose == Purpose::Cleanup && !chains::are_ours();
        if !is_of_kube_proxy && (request.is_whole() || !serves_by_ipvs) {
            chains::remove(request, removal);
        }
        // Without them, the rules of a kube-proxy that comes back are refused until it creates them.
        if request.purpose != Purpose::TakeOver {
            remove_accounts(removal);
            name_kubelets_chains(removal);
        }
        if is_of_kube_proxy {
            name_kube_proxys_chains(removal);
        }
    }

    fn sign_of_kube_proxy(&self, keep: &Keep, looks: &mut Looks) -> Option<String> {
        chains::sign_of_kube_proxy(keep, looks)
    }

    fn need_programs(&self) -> bool {
        chains::need_programs()
    }
}

fn name_kubelets_chains(removal: &mut Removal) {
    for (chain, why) in KUBELET {
        let tables = chains::tables_with(|it| it == chain);
        if !tables.is_empty() {
            let tables = tables.join(", ");
            let left = format!("chain {chain} of table {tables}: {why}");
            removal.left.push(left);
        }
    }
}

fn name_kube_proxys_chains(removal: &mut Removal) {
    let tables = chains::tables_with(kube_proxy::is_chain);
    if !tables.is_empty() {
        removal.left.push(format!(
            "chains of kube-proxy of table {}: nothing shows that Sluice made them; --kube-proxy \
             removes them",
            tables.join(", ")
        ));
    }
}

/// Removes the objects that no rule mentions, also those of a kube-proxy.
fn remove_accounts(removal: &mut Removal) {
    let mut accounts = match Accounts::open() {
        Ok(it) => it,
        Err(error) => return removal.errors.push(LeftoverError::Connect(error)),
    };
    let mut count = 0;
    for name in ACCOUNTS {
        match accounts.delete(name) {
            Ok(was_there) => count += usize::from(was_there),
            Err(error) if error.errno() == Some(Errno::EBUSY) => {
                let note = format!("nfacct object {name} of kube-proxy stays: a rule mentions it");
                removal.notes.push(note);
            }
            Err(error) if nfacct::is_absent(&error) => return,
            Err(error) => removal.errors.push(LeftoverError::Request(error)),
        }
    }
    if count > 0 {
        removal.removed.push(format!("{count} nfacct objects"));
    }
}
