//! Services as a kube-apiserver 1.36 stored them: what it filled in, we fill in.

use k8s_openapi::api::core::v1::Service;
use sluice_controller::{Allocator, Pools, set_defaults};

/// `kubectl get services -A -o json`, without managed fields.
const RECORDED: &str = include_str!("recorded/services.json");

fn allocator() -> Allocator {
    let cidrs = ["10.96.0.0/16", "fd00:10:96::/112"];
    Allocator::new(Pools {
        service_cidrs: cidrs
            .iter()
            .map(|it| it.parse().expect("a prefix"))
            .collect(),
        node_ports: 30_000..=32_767,
        load_balancers: Vec::new(),
    })
}

/// Forgets what the API server may have filled in, but for what it chose by chance.
fn written(recorded: &Service) -> Service {
    let mut service = recorded.clone();
    service.status = None;
    let Some(spec) = &mut service.spec else {
        return service;
    };
    spec.session_affinity = None;
    spec.internal_traffic_policy = None;
    spec.external_traffic_policy = None;
    spec.allocate_load_balancer_node_ports = None;
    if spec.type_.as_deref() == Some("ClusterIP") {
        spec.type_ = None;
    }
    // The default of a headless Service without selector is both families.
    let default = match spec.cluster_ip.as_deref() {
        Some("None") => "RequireDualStack",
        _ => "SingleStack",
    };
    if spec.ip_family_policy.as_deref() == Some(default) {
        spec.ip_family_policy = None;
        spec.ip_families = None;
    }
    spec.cluster_ips = None;
    for port in spec.ports.iter_mut().flatten() {
        port.protocol = port.protocol.take().filter(|it| it != "TCP");
    }
    service
}

#[test]
fn what_the_api_server_filled_in_is_filled_in() {
    let recorded: Vec<Service> = serde_json::from_str(RECORDED).expect("Services");
    let mut allocator = allocator();
    assert_eq!(recorded.len(), 19);
    for recorded in recorded {
        let mut service = written(&recorded);
        assert!(
            service.spec != recorded.spec,
            "nothing to fill in: {recorded:?}"
        );
        set_defaults(&mut service);
        let done = allocator.complete(&mut service, None);
        assert_eq!(done, Ok(()), "{:?}", recorded.metadata.name);
        assert_eq!(service.spec, recorded.spec);
    }
}
