//! Our programs on a machine whose agent is of another mode now, or none.

use std::path::Path;
use std::time::Duration;

use sluice_bpf::Pins;
use sluice_bpf_abi::{VERSION, node_flags};
use sluice_plane::{Keep, LeftoverError, Leftovers, Looks, Removal, Request, Trace};
use tracing::debug;

use crate::flows::{self, Timeouts};
use crate::maps::Maps;
use crate::netfilter;
use crate::programs;
use crate::tunnel;

/// The folder of all pins.
pub(crate) const PINS: &str = "/sys/fs/bpf/sluice";

/// The programs with their maps.
pub(crate) struct PinnedPrograms;

fn pins() -> Option<Pins> {
    programs::pins(Path::new(PINS)).ok().filter(Pins::exist)
}

/// The pins of an agent whose maps have another layout.
pub(crate) fn other_versions() -> Vec<Pins> {
    Pins::of_other_versions(Path::new(PINS), VERSION).unwrap_or_default()
}

impl Leftovers for PinnedPrograms {
    fn remove(&self, request: &Request<'_>, removal: &mut Removal) {
        // Both families are in the same programs.
        if !request.is_whole() {
            return;
        }
        for pins in other_versions() {
            let what = "eBPF programs and maps of another version";
            // The filters of clsact are ours by then: they replace those of any version.
            match pins.remove() {
                Ok(()) => removal.removed.push(what.to_owned()),
                Err(error) => removal.errors.push(LeftoverError::Programs(error.into())),
            }
        }
        if (request.keep)(&Trace::Programs) {
            return;
        }
        netfilter::release();
        let Some(pins) = pins() else {
            return;
        };
        if let Err(error) = tunnel::remove() {
            removal.errors.push(LeftoverError::Programs(error.into()));
        }
        match programs::remove(&pins) {
            Ok(()) => removal.removed.push("eBPF programs and maps".to_owned()),
            Err(error) => removal.errors.push(LeftoverError::Programs(error.into())),
        }
    }

    /// New connections become the other mode's as soon as there are no frontends. Those of a version that could not be taken
    /// over cannot be counted: they have all the time there is.
    fn drain(&self, keep: &Keep) -> usize {
        if keep(&Trace::Programs) {
            return other_versions().len();
        }
        let open = pins().map(|it| Maps::open(&it).and_then(|mut maps| close(&mut maps)));
        match open {
            Some(Ok(open)) => open,
            Some(Err(error)) => {
                debug!(%error, "connections of the ebpf mode");
                0
            }
            None => 0,
        }
    }

    fn sign_of_kube_proxy(&self, _: &Keep, _: &mut Looks) -> Option<String> {
        None
    }

    fn sign(&self) -> Option<String> {
        self.need_bpf().then(|| "pinned eBPF programs".to_owned())
    }

    fn need_bpf(&self) -> bool {
        pins().is_some() || !other_versions().is_empty()
    }
}

/// Timeouts of the programs' connections while another mode opens the new ones: what ended, or has been silent for this
/// long, has no claim to the ports that the other mode chooses.
fn leaving() -> Timeouts {
    Timeouts {
        tcp_opening: Duration::from_secs(30),
        tcp_closed: Duration::ZERO,
        udp: Duration::from_secs(5),
        udp_stream: Duration::from_secs(30),
        ..Timeouts::default()
    }
}

/// Ends the programs' work for new connections, and removes all frontends and the connections that ended. Returns how many
/// are open.
fn close(maps: &mut Maps) -> Result<usize, sluice_bpf::BpfError> {
    maps.change_node(|node| {
        node.families.iter_mut().for_each(|it| it.cidr_count = 0);
        // The other mode's connections are not ours.
        node.flags &= !node_flags::CARRIES_ALL;
        node.flags |= node_flags::WAITS;
    })?;
    for (key, _) in maps.addresses.entries()? {
        maps.addresses.remove(&key)?;
    }
    for (key, _) in maps.frontends.entries()? {
        maps.frontends.remove(&key)?;
    }
    flows::forget_netfilters(maps, |_| false)?;
    flows::sweep(&mut maps.flows, &leaving())?;
    let mut open = 0;
    maps.flows
        .each(|key, it| open += usize::from(flows::is_translated(&key, &it)))?;
    Ok(open)
}
