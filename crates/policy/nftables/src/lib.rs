//! Network policy in nftables: one table in each family, beside whatever makes Services and pods work.
//!
//! ```text
//! table ip sluice-policy {
//!   map ingress { type ipv4_addr : verdict; elements = { 10.244.1.7 : goto ingress-4f… comment "default/web-0" } }
//!   set set-9a… { type ipv4_addr; comment "namespace default, pods app=client" }
//!   chain egress  { type filter hook forward priority -1; ct state established,related accept; ip saddr vmap @egress }
//!   chain ingress { type filter hook forward priority  0; ct state established,related accept; iifname "lo" accept;
//!                   ip daddr vmap @ingress
//!                   ip daddr @unknown ip daddr . ip daddr != @itself counter goto dropped-ingress }
//!   chain ingress-4f… {                       # a profile: the policies of some pods
//!     jump admin-ingress-4f…                  # rules of ClusterNetworkPolicies, if any
//!     ip saddr . ip daddr @itself accept
//!     jump policy-ingress-default/allow-client
//!     counter goto dropped-ingress
//!   }
//!   chain audit-ingress-4f… {                 # NetworkPolicies in audit mode, where no other one isolates; a
//!                                             # ClusterNetworkPolicy has `audit-admin-0-ingress-4f…`
//!     ip saddr @set-9a… return
//!     counter goto audited-ingress
//!   }
//!   chain dropped-ingress {                   # of each pair of pods one packet a second is logged
//!     counter
//!     ip saddr . ip daddr != @logged-dropped-ingress update @logged-dropped-ingress { … } log group 29552
//!     drop
//!   }
//!   chain policy-ingress-default/allow-client { ip saddr @set-9a… meta l4proto tcp th dport 8080 accept }
//! }
//! ```
//!
//! At the hook forward a Service's address has been translated and a masquerade has not: rules see the two pods. What
//! the node itself sends and receives is never there, as Kubernetes wants it. Each direction has a base chain of its
//! own, since `accept` only ends the one that it stands in.
//!
//! A pod that many policies are about has them in groups: `jump group-ingress-4f…`. A large difference is written in parts
//! ([`Aside`]): new sets and chains are made while nothing leads to them, and one transaction switches.

mod apply;
mod backend;
mod name;
mod object;
mod observe;
mod parts;
mod render;
mod set;

pub use backend::PolicyTables;
pub use name::{ChainName, SetName};
pub use object::{Chain, Element, Entry, Key, Object, Rule};
pub use parts::Aside;
pub use render::{render, standing};

/// The table of our name, in both families.
pub const TABLE: &str = "sluice-policy";
