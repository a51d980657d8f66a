//! What rules of kube-proxy's iptables mode and of ours count packets in: objects of nfacct.

use sluice_netlink::Errno;
use sluice_netlink::nfacct::{self, Accounts};
use sluice_plane::kube_proxy::ACCOUNTS;

use super::{Removal, TakeoverError};

/// Removes the objects that no rule mentions, whoever made them. For who cleans up, not for a
/// takeover: the rules of a kube-proxy that comes back are refused until it makes them anew.
pub fn remove_accounts(removal: &mut Removal) {
    let mut accounts = match Accounts::open() {
        Ok(it) => it,
        Err(error) => return removal.errors.push(TakeoverError::Connect(error)),
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
            Err(error) => removal.errors.push(TakeoverError::Request(error)),
        }
    }
    if count > 0 {
        removal.removed.push(format!("{count} nfacct objects"));
    }
}
