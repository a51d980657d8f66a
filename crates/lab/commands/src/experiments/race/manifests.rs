//! The Services of the race, as files that an agent follows.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Services in each file.
const PER_FILE: u32 = 100;

/// Endpoints of each Service that nobody dials.
const ENDPOINTS: u32 = 3;

/// The port of each Service.
pub(super) const SERVICE_PORT: u16 = 80;

/// The port of each endpoint.
pub(super) const ENDPOINT_PORT: u16 = 8080;

/// The ClusterIPs begin behind this address.
const CLUSTER_IPS: u32 = u32::from_be_bytes([10, 96, 0, 0]);

/// The endpoints that nobody dials begin behind this address, in a range that the lab has no address in.
const NOWHERE: u32 = u32::from_be_bytes([100, 64, 0, 0]);

/// A folder of manifests, of which one Service is dialled: the last one.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    services: u32,
}

impl Folder {
    /// Writes so many Services; the last one has this endpoint alone.
    pub(super) fn new(path: PathBuf, services: u32, endpoint: Ipv4Addr) -> anyhow::Result<Self> {
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        let last = services - 1;
        for first in (0..last).step_by(PER_FILE as usize) {
            let numbers = first..last.min(first + PER_FILE);
            let text: String = numbers.map(quiet).collect();
            write(&path.join(format!("services-{first:06}.yaml")), &text)?;
        }
        let folder = Self { path, services };
        folder.replace(endpoint)?;
        Ok(folder)
    }

    /// Gives the last Service another endpoint, in one step.
    pub(super) fn replace(&self, endpoint: Ipv4Addr) -> anyhow::Result<()> {
        let last = self.services - 1;
        let text = manifest(last, &["TCP", "UDP"], &[endpoint.into()]);
        // Agents do not read files with this name.
        let new = self.path.join(".last.new");
        write(&new, &text)?;
        fs::rename(&new, self.path.join("last.yaml")).context("rename a manifest")
    }

    /// The ClusterIP of the last Service.
    pub(super) fn dialled(&self) -> IpAddr {
        cluster_ip(self.services - 1)
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

fn cluster_ip(number: u32) -> IpAddr {
    Ipv4Addr::from(CLUSTER_IPS + 1 + number).into()
}

/// A Service that nobody dials.
fn quiet(number: u32) -> String {
    let endpoints = (0..ENDPOINTS).map(|it| Ipv4Addr::from(NOWHERE + 1 + number * ENDPOINTS + it));
    let endpoints: Vec<IpAddr> = endpoints.map(IpAddr::from).collect();
    manifest(number, &["TCP"], &endpoints)
}

fn manifest(number: u32, protocols: &[&str], endpoints: &[IpAddr]) -> String {
    let ports = |port: u16| {
        let each = protocols.iter().map(|it| {
            let name = it.to_lowercase();
            format!("{{name: {name}, protocol: {it}, port: {port}}}")
        });
        each.collect::<Vec<_>>().join(", ")
    };
    let endpoints = endpoints.iter().map(|it| {
        format!("- {{addresses: [{it}], nodeName: node-a, conditions: {{ready: true}}}}\n")
    });
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: race-{number}}}\n\
         spec:\n  clusterIP: {ip}\n  clusterIPs: [{ip}]\n  ports: [{}]\n\
         ---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
         metadata:\n  name: race-{number}\n  labels: {{kubernetes.io/service-name: race-{number}}}\n\
         addressType: IPv4\nports: [{}]\nendpoints:\n{}---\n",
        ports(SERVICE_PORT),
        ports(ENDPOINT_PORT),
        endpoints.collect::<String>(),
        ip = cluster_ip(number),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_can_read_every_service() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("manifests");
        let folder = Folder::new(folder, 203, Ipv4Addr::new(10, 244, 0, 2)).unwrap();
        folder.replace(Ipv4Addr::new(10, 244, 0, 3)).unwrap();
        let loaded = sluice_source::load(&folder.path, &crate::wants()).unwrap();
        assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
        assert_eq!(loaded.events.len(), 2 * 203);
        assert_eq!(folder.dialled().to_string(), "10.96.0.203");
    }
}
