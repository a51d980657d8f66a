//! Objects that kube-proxy's ipvs mode leaves, and ours: virtual servers, their interface, ipsets and
//! the chains that mention them.

mod servers;
mod sets;

use sluice_plane::kube_proxy::DEVICE;
use sluice_plane::{Keep, Leftovers, Looks, Purpose, Removal, Request, Trace, chains};

/// The objects of the ipvs mode.
pub(crate) struct VirtualServers;

impl Leftovers for VirtualServers {
    /// Packets to addresses of kube-ipvs0 are this machine's own, and a chain keeps them away from
    /// what listens here: so chains go after virtual servers, and the sets that they mention last.
    fn remove(&self, request: &Request<'_>, removal: &mut Removal) {
        let is_of_kube_proxy =
            request.purpose == Purpose::Cleanup && !chains::are_ours() && !sets::are_ours();
        if is_of_kube_proxy && servers::has_device() {
            removal.left.push(format!(
                "interface {DEVICE}, with virtual servers and ipsets: nothing shows that Sluice made \
                 them; --kube-proxy removes them"
            ));
        }
        if is_of_kube_proxy || !request.is_whole() || (request.keep)(&Trace::VirtualServers) {
            return;
        }
        let connections = servers::remove(removal);
        chains::remove(request, removal);
        sets::remove(removal);
        servers::forget(&connections, removal);
    }

    fn drain(&self, keep: &Keep) -> usize {
        if keep(&Trace::VirtualServers) {
            0
        } else {
            servers::open_connections()
        }
    }

    fn sign_of_kube_proxy(&self, keep: &Keep, _: &mut Looks) -> Option<String> {
        let is_foreign = !keep(&Trace::VirtualServers) && servers::has_device();
        is_foreign.then(|| format!("interface {DEVICE}"))
    }
}
