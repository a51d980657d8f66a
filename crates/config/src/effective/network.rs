//! Addresses and interfaces.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::IpFamily;
use sluice_plan::settings::{LocalDetector, NodePortAddresses};
use sluice_yaml::quoted;

use super::Mode;
use super::check::Problems;
use crate::types::KubeProxyConfiguration;

/// Longest name of an interface in bytes: `IFNAMSIZ` without the NUL.
const INTERFACE_NAME: usize = 15;

/// The word that stands for the node's primary addresses.
const PRIMARY: &str = "primary";

impl KubeProxyConfiguration {
    pub(super) fn local_detector(&self, problems: &mut Problems) -> LocalDetector {
        let cidrs = cluster_cidrs(&self.cluster_cidr, problems);
        let mut name = |field, value: &str| -> Arc<str> {
            let value = value.trim();
            let field = format!("detectLocal.{field}");
            if value.is_empty() {
                let mode = &self.detect_local_mode;
                problems.push(&field, "\"\"", format!("detectLocalMode {mode} needs it"));
            }
            if value.len() > INTERFACE_NAME {
                let limit = format!("interface names have at most {INTERFACE_NAME} bytes");
                problems.push(&field, quoted(value), limit);
            }
            value.into()
        };
        match &*self.detect_local_mode {
            "" | "ClusterCIDR" if cidrs.is_empty() => LocalDetector::None,
            "" | "ClusterCIDR" => LocalDetector::ClusterCidrs(cidrs),
            "NodeCIDR" => LocalDetector::NodeCidr,
            "BridgeInterface" => {
                LocalDetector::Bridge(name("bridgeInterface", &self.detect_local.bridge_interface))
            }
            "InterfaceNamePrefix" => {
                let prefix = &self.detect_local.interface_name_prefix;
                LocalDetector::InterfacePrefix(name("interfaceNamePrefix", prefix))
            }
            other => {
                let modes = "ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix";
                let must = format!("must be empty or one of {modes}");
                problems.push("detectLocalMode", quoted(other), must);
                LocalDetector::None
            }
        }
    }

    /// Without a list the nftables and ebpf modes use the primary addresses, the other modes use all.
    pub(super) fn node_ports(
        &self,
        mode: Option<Mode>,
        problems: &mut Problems,
    ) -> NodePortAddresses {
        let Some(list) = &self.node_port_addresses else {
            return match mode {
                Some(Mode::Nftables | Mode::Ebpf) => NodePortAddresses::Primary,
                Some(Mode::Iptables | Mode::Ipvs) | None => NodePortAddresses::Within(Vec::new()),
            };
        };
        if list[..] == [PRIMARY] {
            return NodePortAddresses::Primary;
        }
        let prefixes = problems.prefixes("nodePortAddresses", list, |text| match text {
            PRIMARY => "must stand alone",
            // Words of kube-proxy 1.37.
            "localhost" => "must be a prefix: write 127.0.0.0/8",
            "all" => "must be a prefix: write 0.0.0.0/0 and ::/0",
            _ => "must be `primary` or a prefix such as 192.168.0.0/16",
        });
        NodePortAddresses::Within(prefixes)
    }

    /// `None` for the unspecified address.
    pub(super) fn node_ip(&self, problems: &mut Problems) -> Option<IpAddr> {
        let text = &self.bind_address;
        match text.parse::<IpAddr>() {
            Ok(ip) => Some(ip.to_canonical()).filter(|it| !it.is_unspecified()),
            Err(_) => problems.refuse("bindAddress", quoted(text), "must be an IP address"),
        }
    }
}

fn cluster_cidrs(text: &str, problems: &mut Problems) -> Vec<IpNet> {
    if text.is_empty() {
        return Vec::new();
    }
    let nets: Result<Vec<IpNet>, _> = text.split(',').map(|it| it.trim().parse()).collect();
    let must = match nets.as_deref() {
        Ok([_]) => return nets.unwrap_or_default(),
        Ok([a, b]) if IpFamily::of_net(a) != IpFamily::of_net(b) => {
            return nets.unwrap_or_default();
        }
        Ok([_, _]) => "two prefixes must be one of each family",
        Ok(_) => "at most one prefix of each family",
        Err(_) => "must be a prefix such as 10.244.0.0/16, or one of each family",
    };
    problems.refuse("clusterCIDR", quoted(text), must)
}
