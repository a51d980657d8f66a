//! Whole files: what people have, and what nobody should.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../../fuzz/oracles/config.rs"]
#[expect(unreachable_pub, reason = "shared with the fuzz target")]
mod oracle;

use std::fs;
use std::path::{Path, PathBuf};

use sluice_config::{Effective, decode, warnings};
use sluice_plan::settings::{LocalDetector, NodePortAddresses};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Reads a file about which there is nothing to say.
fn silent(name: &str) -> Effective {
    let bytes = fs::read(path("tests/fixtures").join(name)).unwrap();
    let mut decoded = decode(&bytes).unwrap();
    assert_eq!(decoded.ignored, []);
    decoded.config.set_defaults();
    assert_eq!(warnings(&decoded.config, &decoded.lines), []);
    decoded.config.effective().unwrap()
}

#[test]
fn what_kubeadm_writes() {
    let it = silent("kubeadm.yaml");
    assert_eq!(it.node_ports, NodePortAddresses::Within(Vec::new()));
    let cidrs = vec!["10.244.0.0/16".parse().unwrap()];
    assert_eq!(it.local_detector, LocalDetector::ClusterCidrs(cidrs));
    let kubeconfig = "/var/lib/kube-proxy/kubeconfig.conf";
    assert_eq!(it.client.kubeconfig, Some(kubeconfig.into()));
    assert_eq!((it.client.qps, it.client.burst), (5.0, 10));
    assert_eq!(it.health_address, "0.0.0.0:10256".parse().ok());
    assert_eq!(it.metrics_address, "127.0.0.1:10249".parse().ok());
    assert!(it.periods.min_sync.is_zero());
}

#[test]
fn what_kind_writes() {
    let it = silent("kind.yaml");
    assert_eq!(it.node_ports, NodePortAddresses::Primary);
    assert_eq!(it.conntrack.max_per_core, 0);
}

#[test]
fn what_minikube_writes() {
    let it = silent("minikube.yaml");
    assert_eq!(it.metrics_address, "0.0.0.0:10249".parse().ok());
    assert!(it.conntrack.tcp_established.is_zero());
    assert!(it.conntrack.tcp_close_wait.is_zero());
}

/// Bytes that are hostile as manifests are hostile here, too.
#[test]
fn every_file_passes_the_oracle() {
    let mut files = 0;
    for dir in [
        "../../fuzz/corpus/config",
        "../source/tests/corpus",
        "tests/fixtures",
        "tests/hostile",
    ] {
        for entry in fs::read_dir(path(dir)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                oracle::check(&fs::read(&path).unwrap());
                files += 1;
            }
        }
    }
    assert!(files > 40, "{files}");
}
