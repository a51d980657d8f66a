//! The names of a lab's machines, and of their network namespaces.

/// Prefix of the names of the lab's network namespaces.
pub(crate) const PREFIX: &str = "lab";

/// A machine outside the cluster, on the LAN of the nodes.
pub const CLIENT: &str = "client";

/// The machine that is the LAN of nodes and client; the API listens there.
pub const LAN: &str = "lan";

/// Addresses of the agents' DNS servers, which are the nameservers of pods.
pub(crate) const NAMESERVERS: [&str; 2] = ["169.254.20.10", "fd00:169:254:20::10"];

/// The name of the network namespace of a node, a pod's machine or the client.
#[must_use]
pub fn netns_name(machine: &str) -> String {
    format!("{PREFIX}-{machine}")
}

/// The name of a pod's machine: short enough for every name in the kernel, and unique by the end of the uid.
#[must_use]
pub fn machine_of_pod(name: &str, uid: &str) -> String {
    let name: String = name.chars().filter(|it| *it != '.').take(40).collect();
    let uid: String = uid.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{name}-{}", &uid[uid.len().saturating_sub(12)..])
}
