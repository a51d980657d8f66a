//! `sluice lab demo`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;

use anyhow::Context;
use sluice_lab::Protocol as LabProtocol;
use sluice_lab::demo::{self, Address, Endpoint, Folder, Frontend, Options, Pace};
use sluice_model::{Change, IpFamily, Protocol};
use sluice_node::client;
use sluice_plan::Event;
use sluice_plan::{Frontend as PlanFrontend, Plan, Planner, Role};

use super::Host;
use crate::args::DemoArgs;

pub(super) fn run(args: &DemoArgs, host: Host) -> anyhow::Result<()> {
    let folder = |it| folder(it, host);
    let slow = !args.fast && std::io::IsTerminal::is_terminal(&std::io::stdout());
    let program = std::env::current_exe().context("find the path of this program")?;
    demo::demo(&Options {
        program: &program,
        is_ready: client::is_synced,
        mode: &args.proxy_mode,
        pace: if slow { Pace::Slow } else { Pace::Fast },
        keep: args.keep,
        record: args.record.as_deref(),
        folder: args.manifests.as_deref().map(folder).transpose()?,
    })?;
    Ok(())
}

/// The frontends and endpoints of a folder of manifests.
fn folder(path: &Path, host: Host) -> anyhow::Result<Folder> {
    let loaded = sluice_source::load(path, &super::wants())?;
    let nodes = loaded.events.iter().filter_map(|it| match it {
        Event::EndpointSlice(Change::Set(slice)) => {
            slice.endpoints.iter().find_map(|it| it.node.as_deref())
        }
        _ => None,
    });
    // The agents plan for their own node; the addresses are the same on each.
    let node = nodes.min().unwrap_or("node-a").to_owned();
    let flag = format!("--manifests={}", path.display());
    let mut planner = Planner::new((host.settings)(&[flag], &node)?);
    for event in loaded.events {
        planner.absorb(event);
    }
    planner.absorb(Event::SYNCED);
    planner.replan();
    let problems = loaded.problems.iter().map(ToString::to_string);
    let issues = planner.issues().map(|it| it.to_string());
    problems.chain(issues).for_each(|it| (host.say)(&it));
    Ok(Folder {
        path: path.to_owned(),
        frontends: frontends(planner.plan()),
        endpoints: endpoints(&planner),
    })
}

fn frontends(plan: &Plan) -> Vec<Frontend> {
    let mut frontends = Vec::new();
    for port in plan.ports.values() {
        for planned in &port.frontends {
            let address = match (planned.frontend, planned.role) {
                (PlanFrontend::Address { addr, .. }, Role::ClusterIp) => Address::ClusterIp(addr),
                (PlanFrontend::Address { addr, .. }, _) => Address::External(addr),
                (PlanFrontend::NodePort { family, .. }, _) => match family {
                    IpFamily::V4 => Address::NodePortV4,
                    IpFamily::V6 => Address::NodePortV6,
                },
            };
            frontends.push(Frontend {
                name: port.key.name.to_string(),
                address,
                port: planned.frontend.port(),
                protocol: of_lab(planned.frontend.protocol()),
            });
        }
    }
    frontends
}

/// Every endpoint of a Service that exists, one for each address: an address is one pod.
fn endpoints(planner: &Planner) -> Vec<Endpoint> {
    let mut found: BTreeMap<IpAddr, Endpoint> = BTreeMap::new();
    let entries = planner.state().services().map(|(_, entry)| entry);
    let entries = entries.filter(|it| it.service.is_some());
    for slice in entries.flat_map(|it| it.slices.values()) {
        for endpoint in &slice.endpoints {
            let name = endpoint.target.as_deref().map(str::to_owned);
            let of_address = found.entry(endpoint.address).or_insert_with(|| Endpoint {
                name: name.unwrap_or_else(|| endpoint.address.to_string()),
                node: endpoint.node.as_deref().map(str::to_owned),
                address: endpoint.address,
                ports: BTreeSet::new(),
            });
            let ports = slice.ports.iter();
            let ports = ports.map(|it| (it.port.get(), of_lab(it.protocol)));
            of_address.ports.extend(ports);
        }
    }
    found.into_values().collect()
}

fn of_lab(protocol: Protocol) -> LabProtocol {
    match protocol {
        Protocol::Tcp => LabProtocol::Tcp,
        Protocol::Udp => LabProtocol::Udp,
        Protocol::Sctp => LabProtocol::Sctp,
    }
}
