//! `sluice explain`: what happens to a packet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::ExitCode;

use sluice_node::node;
use sluice_plan::Planner;
use sluice_plan::explain::explain;
use sluice_plan::lookup::HostAddresses;

use crate::cli::{ExplainArgs, Output};
use crate::render::{plan, print};
use crate::target;

/// Prints the explanation to stdout and problems of the manifests to stderr.
pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let planner = plan(&args.node)?.planner;
    let mut host = host_addresses(&planner);
    let interface = args.interface.as_deref();
    let packet = target::packet(&args.from, &args.to, interface, &planner, &host)?;
    // Only this node reaches its loopback addresses: the kernel drops packets of others, or a rule
    // does where NodePorts answer on loopback.
    if !host.contains(&packet.source) {
        host.retain(|it| !it.is_loopback());
    }
    let explanation = explain(&planner, &packet, &host);
    print(&match args.output {
        Output::Text => format!("{}\n", explanation.to_string().trim_end()),
        Output::Json => serde_json::to_string_pretty(&explanation)? + "\n",
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The node's addresses: those of its Node object, else this machine's, and loopback.
fn host_addresses(planner: &Planner) -> HostAddresses {
    let name = &planner.settings().node_name;
    let mut host: HostAddresses = match planner.state().node(name) {
        Some(node) => node.addresses.iter().copied().collect(),
        None => node::addresses().unwrap_or_default(),
    };
    host.extend([
        IpAddr::from(Ipv4Addr::LOCALHOST),
        IpAddr::from(Ipv6Addr::LOCALHOST),
    ]);
    host
}
