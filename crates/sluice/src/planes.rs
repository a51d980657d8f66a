//! Every data plane of this program, by its mode's name.

use anyhow::Context;
use sluice_agent::takeover::AllLeftovers;
use sluice_config::Mode;
use sluice_ebpf::Ebpf;
use sluice_iptables::Iptables;
use sluice_ipvs::Ipvs;
use sluice_nftables::Nftables;
use sluice_plan::Plan;
use sluice_plan::explain::Explanation;
#[cfg(feature = "lab")]
use sluice_plane::Sysctl;
use sluice_plane::{
    BackendError, DataPlane, Leftovers, Live, Looks, Options, RenderedObject, Watched, Witness,
};

use crate::proxy::Agent;

/// A data plane and the functions that this program calls.
pub(crate) struct Plane {
    /// The mode's name.
    name: &'static str,
    /// The rules that it may have left on the machine.
    leftovers: &'static dyn Leftovers,
    /// Checks the machine, and says which sysctls an agent would set.
    #[cfg(feature = "lab")]
    pub(crate) prepare: fn(&Options<'_>) -> Result<Vec<Sysctl>, BackendError>,
    agent: Agent,
    /// The rules of a plan as text.
    pub(crate) text: fn(&Plan, &Options<'_>) -> String,
    /// The rules of a plan, object by object.
    pub(crate) objects: fn(&Plan, &Options<'_>) -> Vec<RenderedObject>,
    /// What the kernel does with the packet of an explanation.
    pub(crate) live: fn(&Explanation) -> Result<Live, BackendError>,
    /// Watches what programs do with packets.
    witness: fn(Watched) -> Watch,
}

const fn plane<P: DataPlane>() -> Plane {
    Plane {
        name: P::NAME,
        leftovers: P::LEFTOVERS,
        #[cfg(feature = "lab")]
        prepare: P::prepare,
        agent: Agent::of::<P>(),
        text: P::text,
        objects: P::objects,
        live: P::live,
        witness: P::witness,
    }
}

/// The data planes, in the order in which their leftovers are removed: virtual servers before the
/// chains that keep packets to their addresses away from this machine.
static PLANES: [Plane; 4] = [
    plane::<Nftables>(),
    plane::<Ipvs>(),
    plane::<Iptables>(),
    plane::<Ebpf>(),
];

type Watch = Result<Option<Box<dyn Witness>>, BackendError>;

/// Watches what programs on this machine do with packets; see [`DataPlane::witness`].
///
/// # Errors
///
/// Programs cannot be told, or somebody else watches.
pub(crate) fn witness(watched: Watched) -> Watch {
    let mut watches = PLANES.iter().map(|it| (it.witness)(watched));
    watches.find_map(Result::transpose).transpose()
}

/// The leftovers of all data planes, in the order of removal.
pub(crate) fn leftovers() -> AllLeftovers {
    PLANES.iter().map(|it| it.leftovers).collect()
}

/// The data plane of a mode.
///
/// # Errors
///
/// This program has no data plane for the mode.
pub(crate) fn of(mode: Mode) -> anyhow::Result<&'static Plane> {
    named(mode.name())
}

/// The agent of a mode.
///
/// # Errors
///
/// This program has no data plane for the mode.
pub(crate) fn agent(mode: Mode) -> anyhow::Result<&'static Agent> {
    Ok(&of(mode)?.agent)
}

/// The data plane of the mode with this name.
///
/// # Errors
///
/// This program has no such data plane.
pub(crate) fn named(mode: &str) -> anyhow::Result<&'static Plane> {
    let found = PLANES.iter().find(|it| it.name == mode);
    found.with_context(|| format!("mode {mode} has no data plane"))
}

/// The data plane whose rules are on this machine, Sluice's or a kube-proxy's. The ipvs mode has chains of
/// the iptables mode, so it is looked for before.
pub(crate) fn present() -> Option<&'static Plane> {
    PLANES.iter().find(|it| it.leftovers.sign().is_some())
}

/// Objects of a kube-proxy, or of another mode, on a machine whose rules are of this mode: the mode and
/// one object each.
pub(crate) fn beside(mode: &str) -> Vec<(&'static str, String)> {
    // The ipvs mode has chains of the iptables mode.
    let is_shared = |it: &&Plane| mode == Ipvs::NAME && it.name == Iptables::NAME;
    let others = PLANES.iter().filter(|it| !is_shared(it));
    let signs = others.filter_map(|it| {
        let sign = if it.name == mode {
            it.leftovers
                .sign_of_kube_proxy(&|_| true, &mut Looks::default())
        } else {
            it.leftovers.sign()
        };
        Some((it.name, sign?))
    });
    signs.collect()
}
