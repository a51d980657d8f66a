//! `sluice explain`: what happens to a packet.

use std::process::ExitCode;

use serde::Serialize;
use sluice_agent::node;
use sluice_core::lookup::{Fate, HostAddresses, Packet, Reason};
use sluice_core::plan::Planner;

use crate::cli::{ExplainArgs, Output};
use crate::config;
use crate::error::say;
use crate::render::{Planned, plan, print};
use crate::target;

/// The fate of one packet, for scripts.
#[derive(Debug, Serialize)]
struct Explanation {
    from: String,
    to: String,
    /// Service port that owns the address; `None` when nobody does.
    service: Option<String>,
    /// `balance`, `drop`, `reject` or `none`.
    verdict: &'static str,
    /// Why, in words.
    reason: String,
    /// Endpoints that it may reach.
    endpoints: Vec<Reached>,
}

/// An endpoint that the packet may reach.
#[derive(Debug, Serialize)]
struct Reached {
    address: String,
    /// The pod behind it; `None` when nobody says.
    pod: Option<String>,
    /// It runs on this node.
    local: bool,
    /// It sees an address of the node as its client.
    masquerade: bool,
}

/// Prints the explanation to stdout and problems of the manifests to stderr.
pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let config = args.node.validate(&config::host_name())?;
    let Planned { planner, problems } = plan(config)?;
    problems.iter().for_each(|it| say(it));
    let host = host_addresses(&planner);
    let interface = args.interface.as_deref();
    let packet = target::packet(&args.from, &args.to, interface, &planner, &host)?;
    let explanation = explain(&planner, &packet, &host);
    print(&match args.output {
        Output::Text => words(&explanation),
        Output::Json => serde_json::to_string_pretty(&explanation)? + "\n",
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The node's addresses: those of its Node object, else this machine's.
fn host_addresses(planner: &Planner) -> HostAddresses {
    let name = &planner.settings().node_name;
    match planner.state().node(name) {
        Some(node) => node.addresses.iter().copied().collect(),
        None => node::addresses().unwrap_or_default(),
    }
}

fn explain(planner: &Planner, packet: &Packet, host: &HostAddresses) -> Explanation {
    let plan = planner.plan();
    let to = std::net::SocketAddr::new(packet.destination, packet.port);
    let owner = plan.frontend(packet, host);
    let fate = plan.lookup(packet, host);
    let (verdict, reason) = match &fate {
        Fate::Balance { pool, .. } => {
            let count = pool.endpoints().len();
            ("balance", format!("one of {count} endpoints, at random"))
        }
        Fate::Drop(why) => ("drop", because(*why).to_owned()),
        Fate::Reject(why) => ("reject", because(*why).to_owned()),
        Fate::NotService => ("none", "no Service has this address".to_owned()),
    };
    let endpoints = match &fate {
        Fate::Balance { pool, .. } => pool.endpoints(),
        _ => &[],
    };
    Explanation {
        from: packet.source.to_string(),
        to: format!("{to}/{}", packet.protocol),
        service: owner.map(|(port, it)| format!("{} ({})", port.key.name, it.role)),
        verdict,
        reason,
        endpoints: endpoints
            .iter()
            .map(|it| Reached {
                address: it.addr.to_string(),
                pod: it.target.as_deref().map(str::to_owned),
                local: it.local,
                masquerade: fate.masquerades(packet, it.addr.ip(), host),
            })
            .collect(),
    }
}

fn because(reason: Reason) -> &'static str {
    match reason {
        Reason::SourceRanges => "the source is outside loadBalancerSourceRanges",
        Reason::NoLocalEndpoint => "the traffic policy is Local and no endpoint is on this node",
        Reason::NoEndpoint => "the Service has no endpoint",
        Reason::UndefinedPort => "the Service has no such port",
        Reason::UnallocatedClusterIp => "a ServiceCIDR contains the address, but no Service has it",
    }
}

fn words(it: &Explanation) -> String {
    let mut text = format!("packet   {} -> {}\n", it.from, it.to);
    if let Some(service) = &it.service {
        text += &format!("service  {service}\n");
    }
    text += &format!("verdict  {}: {}\n", it.verdict, it.reason);
    for endpoint in &it.endpoints {
        let pod = endpoint.pod.as_deref().unwrap_or("-");
        let place = if endpoint.local {
            "this node"
        } else {
            "elsewhere"
        };
        let sees = match endpoint.masquerade {
            true => "sees the node's address",
            false => "sees the client's address",
        };
        let address = &endpoint.address;
        text += &format!("         {address:24} {pod:20} {place:10} {sees}\n");
    }
    text
}
