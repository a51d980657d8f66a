//! The other end of a connection.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::{Labels, Pod, Selector};

/// The label of a Namespace that the API server keeps equal to its name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// One peer of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Pods whatever addresses they have, now and later.
    Pods(PodSelection),
    /// Addresses.
    Block(Block),
}

/// `ipBlock`: a prefix without some others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// `cidr`.
    pub cidr: IpNet,
    /// `except`, each inside `cidr`.
    pub except: Vec<IpNet>,
}

impl Block {
    /// Whether it has an address.
    #[must_use]
    pub fn contains(&self, address: &IpAddr) -> bool {
        self.cidr.contains(address) && !self.except.iter().any(|it| it.contains(address))
    }

    /// The prefixes that are left of it, no two with a common address.
    pub(crate) fn prefixes(&self) -> Vec<IpNet> {
        let mut left = vec![self.cidr];
        for hole in &self.except {
            left = left.iter().flat_map(|it| without(it, hole)).collect();
        }
        left
    }
}

/// The prefixes of a prefix that another one does not have.
fn without(net: &IpNet, hole: &IpNet) -> Vec<IpNet> {
    if hole.contains(net) {
        return Vec::new();
    }
    let mut left = Vec::new();
    let mut rest = *net;
    while rest != *hole && rest.contains(hole) {
        let halves = rest.subnets(rest.prefix_len() + 1).expect("it is larger");
        let (around, aside): (Vec<IpNet>, Vec<IpNet>) = halves.partition(|it| it.contains(hole));
        left.extend(aside);
        rest = around[0];
    }
    if left.is_empty() {
        left.push(*net);
    }
    left
}

/// Pods of some namespaces, by their labels. Pods in the node's network are never among them: their addresses are the
/// node's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodSelection {
    /// The namespaces.
    pub namespaces: Namespaces,
    /// `podSelector`.
    pub pods: Selector,
}

/// Where pods are selected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Namespaces {
    /// In the namespace of this name.
    Named(Arc<str>),
    /// In those that `namespaceSelector` selects.
    Selected(Selector),
}

impl PodSelection {
    /// All pods.
    #[must_use]
    pub fn everywhere() -> Self {
        Self {
            namespaces: Namespaces::Selected(Selector::default()),
            pods: Selector::default(),
        }
    }

    /// Pods of one namespace.
    #[must_use]
    pub fn in_namespace(namespace: &Arc<str>, pods: Selector) -> Self {
        Self {
            namespaces: Namespaces::Named(namespace.clone()),
            pods,
        }
    }

    /// Whether it selects a pod whose namespace has these labels.
    #[must_use]
    pub fn selects(&self, pod: &Pod, namespace: &Labels) -> bool {
        let name = &pod.name.namespace;
        let is_there = match &self.namespaces {
            Namespaces::Named(it) => it == name,
            Namespaces::Selected(it) => it.selects(|key| {
                let written = namespace.get(key);
                written.or_else(|| (key == NAME_LABEL).then_some(&**name))
            }),
        };
        is_there && !pod.host_network && self.pods.selects(|key| pod.labels.get(key))
    }
}

/// As one line, the same for selections that select the same by the same requirements.
impl fmt::Display for PodSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespaces {
            Namespaces::Named(name) => write!(f, "namespace {name}")?,
            Namespaces::Selected(it) if it.is_empty() => f.write_str("every namespace")?,
            Namespaces::Selected(it) => write!(f, "namespaces {}", sorted(it))?,
        }
        if self.pods.is_empty() {
            f.write_str(", every pod")
        } else {
            write!(f, ", pods {}", sorted(&self.pods))
        }
    }
}

fn sorted(selector: &Selector) -> String {
    let requirements = selector.requirements().iter();
    let mut texts: Vec<String> = requirements.map(ToString::to_string).collect();
    texts.sort();
    texts.dedup();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(cidr: &str, except: &[&str]) -> String {
        let block = Block {
            cidr: cidr.parse().unwrap(),
            except: except.iter().map(|it| it.parse().unwrap()).collect(),
        };
        let texts: Vec<String> = block.prefixes().iter().map(ToString::to_string).collect();
        texts.join(" ")
    }

    #[test]
    fn holes_are_cut_out_of_a_prefix() {
        assert_eq!(left("10.0.0.0/8", &[]), "10.0.0.0/8");
        assert_eq!(
            left("10.0.0.0/30", &["10.0.0.1/32"]),
            "10.0.0.2/31 10.0.0.0/32"
        );
        assert_eq!(
            left("10.0.0.0/30", &["10.0.0.0/31", "10.0.0.2/32"]),
            "10.0.0.3/32"
        );
        assert_eq!(left("10.0.0.0/30", &["10.0.0.0/29"]), "");
        assert_eq!(left("10.0.0.0/30", &["10.0.0.0/30"]), "");
        assert_eq!(
            left("10.0.0.0/30", &["10.0.1.0/30", "fd00::/8"]),
            "10.0.0.0/30"
        );
        assert_eq!(left("fd00::/127", &["fd00::1/128"]), "fd00::/128");
        assert_eq!(left("0.0.0.0/0", &["128.0.0.0/1"]), "0.0.0.0/1");
    }
}
