//! A cluster of network namespaces on one machine, for tests and demonstrations.
//!
//! [`Cluster`] builds nodes, pods and external clients from namespaces, veth pairs and routes.
//! A [`Server`] answers with its name and the client address that it saw. [`Probe`], [`Hammer`] and
//! [`Session`] are clients. Packets and rules are real. The caller's own namespace is not changed.
//! Needs root (`CAP_SYS_ADMIN` and `CAP_NET_ADMIN`, a writable `/run/netns`); a test
//! that begins with [`require_netns!`] skips without them, and fails when `CI` is set. One that
//! needs kernel modules begins with [`require_vm!`] and runs in a virtual machine.
//!
//! ```text
//!            lan: one bridge, no addresses      192.168.100.0/24, fd00:100::/64
//!   ────┬───────────────────────────┬───────────────────────────────┬────
//!       │ eth0 .10  ::a             │ eth0 .11  ::b                 │ eth0 .100  ::64
//!   ┌───┴──────────────────┐    ┌───┴──────────────────┐        ┌───┴────┐
//!   │ node-a               │    │ node-b               │        │ client │
//!   │  vethweb-1  vethweb-2│    │  vethweb-3           │        └────────┘
//!   └───┬─────────────┬────┘    └───┬──────────────────┘  routes: pods via their nodes,
//!   ┌───┴───┐     ┌───┴───┐     ┌───┴───┐                 services via the first node
//!   │ web-1 │     │ web-2 │     │ web-3 │  pods: 10.244.<node>.2.., fd00:10:244:<node>::2..
//!   └───────┘     └───────┘     └───────┘  ([`Attach::Bridged`]: through `cni0` in the node)
//! ```
//!
//! # Invariants
//!
//! - Dropping a [`Netns`], [`Cluster`], [`Server`] or [`Hammer`] removes what it created, also while
//!   panicking. [`sweep`] removes the namespaces of killed processes.
//! - Devices are created inside lab namespaces, never moved into them; the caller's namespace gets
//!   no device, route, rule or sysctl.
//! - When [`ClusterBuilder::build`] or [`Cluster::add_pod`] returns, the first packet passes: links
//!   are up and no address is tentative.
//! - ICMP errors are not rate limited, and redirects are neither sent nor accepted. The same request
//!   gets the same answer every time.
//! - A node's default gateway is a MAC address that no machine has: packets without another route
//!   get no answer.

pub mod address;
mod agent;
mod builder;
mod cgroup;
mod cluster;
mod confined;
pub mod demo;
mod drawing;
mod error;
mod growing;
mod hammer;
mod interrupt;
mod machine;
mod netns;
mod outcome;
mod probe;
mod program;
mod ready;
mod require;
mod server;
mod session;
mod signals;
mod socket;
mod spread;
mod sweep;
mod sysctls;
mod vm;
mod wait;
mod wiring;

pub use address::{
    CLUSTER_CIDR_V4, CLUSTER_CIDR_V6, LAN_CIDR_V4, LAN_CIDR_V6, LOAD_BALANCER_CIDR_V4,
    LOAD_BALANCER_CIDR_V6, SERVICE_CIDR_V4, SERVICE_CIDR_V6,
};
pub use agent::Agent;
pub use builder::ClusterBuilder;
pub use cgroup::OwnCgroup;
pub use cluster::{Attach, Cluster, PodNetwork};
pub use confined::owner;
pub use error::LabError;
pub use growing::{Held, HeldNode, HeldPod};
pub use hammer::{Hammer, HammerReport};
pub use interrupt::{Interrupt, Interrupted};
pub use machine::{Client, Node, Place, Pod};
pub use netns::Netns;
pub use nix::errno::Errno;
pub use outcome::Outcome;
pub use probe::{Probe, Protocol, probe_many};
pub use program::write_program;
pub use require::netns_available;
pub use server::Server;
pub use session::Session;
pub use signals::default_signals;
pub use socket::sctp_available;
pub use spread::Spread;
pub use sweep::{Sweep, sweep};
pub use vm::{inside as in_vm, ran_in_vm, scaled, vm_available};
pub use wait::eventually;
