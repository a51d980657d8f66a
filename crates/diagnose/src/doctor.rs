//! The checklist of a Service that does not answer, in the order of a packet.
//!
//! ```text
//! Service's objects ─▶ decision ─▶ path ─▶ machine ─▶ probe, dns ─▶ way ─▶ filters
//!     (service)        (service)                                (a trace)
//! ```
//!
//! What names need is for the machine as a whole: the servers that pods ask, and those that are asked in turn
//! ([`dns()`], [`upstreams`], [`search_path`]).
//!
//! Each check reads the machine or what the plan says, and gives [`Finding`]s. A check that cannot be
//! made says so; it stops no other.

mod clock;
mod dialled;
mod dns;
mod filters;
mod machine;
mod names;
mod path;
mod ports;
mod probe;
mod proxy;
mod report;
mod resolver;
mod rules;
mod service;
mod way;

pub use clock::clock;
pub use dialled::{cluster_ips, dead_services, hops, node_port_numbers, targets};
pub use dns::dns;
pub use filters::filters;
pub use machine::{conntrack, forwarding};
pub use names::{Central, nameserver, node_dns};
pub use path::{Hop, path};
pub use ports::node_ports;
pub use probe::{Target, probe};
pub use proxy::{Agent, is_of_a_proxy, kube_proxy, leftovers, proxy};
pub use report::{Finding, Report, State};
pub use resolver::{Reader, search_path, upstreams};
pub use rules::rules;
pub use service::{decisions, objects};
pub use way::way;

use std::fs;

use sluice_plan::inventory::listed;

/// The text of a file below `/proc` without its end of line; `None` when it cannot be read.
fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim_end().to_owned())
}
