//! The machines of a lab when a server starts: new ones, or those that an earlier server made.

use std::path::PathBuf;

use sluice_lab::{Attach, Cluster, Held, Netns};

use crate::lab_dir::LabDir;
use crate::machines::Machines;
use crate::names::{CLIENT, LAN, PREFIX, netns_name};
use crate::nodes;
use crate::record::Record;

/// Makes the LAN, or takes over the one of an earlier server, with the pods on it.
pub(crate) fn machines(
    lab_dir: &LabDir,
    program: PathBuf,
) -> anyhow::Result<(Machines, Vec<Record>)> {
    let settings = lab_dir.settings()?;
    let network = settings.pod_network();
    let names = Netns::names();
    let exists = |label: &str| names.contains(&netns_name(label));
    let records = Record::all(lab_dir);
    if !exists(LAN) {
        // The recorded processes ended with an earlier process 1.
        records.iter().for_each(|it| it.forget(lab_dir));
        let cluster = Cluster::lasting(PREFIX, Attach::Routed, network)?;
        let machines = Machines::new(cluster, lab_dir, program, &settings)?;
        return Ok((machines, Vec::new()));
    }
    let mut nodes = nodes::held(lab_dir);
    nodes.retain(|it| exists(&it.name));
    let is_whole = |it: &Record| {
        let has_node = nodes.iter().any(|node| node.name == it.node);
        has_node && (it.host.is_none() || exists(&it.machine))
    };
    let (records, stale): (Vec<_>, Vec<_>) = records.into_iter().partition(is_whole);
    // Their removal was not finished.
    stale.iter().for_each(|it| it.forget(lab_dir));
    let client = exists(CLIENT).then(|| CLIENT.to_owned());
    let held = Held {
        nodes,
        pods: records.iter().map(Record::pod).collect(),
        clients: client.into_iter().collect(),
    };
    let cluster = Cluster::resume(PREFIX, Attach::Routed, network, held)?;
    Ok((
        Machines::new(cluster, lab_dir, program, &settings)?,
        records,
    ))
}
