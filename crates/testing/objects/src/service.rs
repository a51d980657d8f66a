//! Services, each from a line such as `default/web 10.96.0.10 :80`.

use std::net::IpAddr;

use sluice_model::{
    Algorithm, ClusterIps, Forwarding, IpMode, LoadBalancerIngress, Service, ServiceKind,
    ServicePort, SessionAffinity, TrafficPolicy,
};

use crate::{list, name, parse};

/// A Service: its name, then in any order
/// `10.96.0.10` (a ClusterIP, repeatable; without any it is unassigned), `headless`,
/// `http:80`, `dns:53/udp`, `http:80@30080` (ports; `:80` is unnamed),
/// `NodePort`, `LoadBalancer`, `ExternalName` (type), `ExternalName=DOMAIN` (type and what it stands for),
/// `ext=IP,IP`, `lb=IP,IP`, `lb-proxy=IP`,
/// `ranges=CIDR,CIDR`, `itp=local`, `etp=local`, `affinity=SECONDS`, `health=PORT`,
/// `scheduler=NAME`, `algorithm=maglev`, `forwarding=dsr`, `proxy-name=NAME`, `created=SECONDS`.
///
/// # Panics
///
/// On any other word.
pub fn service(text: &str) -> Service {
    let mut words = text.split_whitespace();
    let mut service = Service {
        name: name(words.next().unwrap_or_default()),
        created: None,
        kind: ServiceKind::ClusterIp,
        cluster_ips: ClusterIps::Unassigned,
        external_ips: Vec::new(),
        load_balancer: Vec::new(),
        source_ranges: Vec::new(),
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        affinity: SessionAffinity::None,
        external_name: None,
        ipvs_scheduler: None,
        algorithm: None,
        forwarding: None,
        health_check_node_port: None,
        proxy_name: None,
        ports: Vec::new(),
    };
    let mut cluster_ips: Vec<IpAddr> = Vec::new();
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let ingress = |mode| {
            let ips = list(value).into_iter();
            ips.map(move |ip| LoadBalancerIngress { ip, mode })
        };
        match key {
            "headless" => service.cluster_ips = ClusterIps::Headless,
            "NodePort" => service.kind = ServiceKind::NodePort,
            "LoadBalancer" => service.kind = ServiceKind::LoadBalancer,
            "ExternalName" => {
                service.kind = ServiceKind::ExternalName;
                service.external_name = Some(value).filter(|it| !it.is_empty()).map(Into::into);
            }
            "ext" => service.external_ips = list(value),
            "lb" => service.load_balancer.extend(ingress(IpMode::Vip)),
            "lb-proxy" => service.load_balancer.extend(ingress(IpMode::Proxy)),
            "ranges" => service.source_ranges = list(value),
            "itp" => service.internal_policy = policy(value),
            "etp" => service.external_policy = policy(value),
            "affinity" => {
                let timeout_seconds = parse(value);
                service.affinity = SessionAffinity::ClientIp { timeout_seconds };
            }
            "health" => service.health_check_node_port = Some(parse(value)),
            "scheduler" => service.ipvs_scheduler = Some(value.into()),
            "algorithm" => {
                let known = Algorithm::ALL.into_iter().find(|it| it.name() == value);
                service.algorithm = Some(known.expect("an algorithm"));
            }
            "forwarding" => {
                let known = Forwarding::ALL.into_iter().find(|it| it.name() == value);
                service.forwarding = Some(known.expect("a way of forwarding"));
            }
            "proxy-name" => service.proxy_name = Some(value.into()),
            "created" => service.created = Some(parse(value)),
            _ => match word.parse() {
                Ok(ip) => cluster_ips.push(ip),
                Err(_) => service.ports.push(port(word)),
            },
        }
    }
    if !cluster_ips.is_empty() {
        service.cluster_ips = ClusterIps::Assigned(cluster_ips);
    }
    service
}

fn policy(text: &str) -> TrafficPolicy {
    match text {
        "cluster" => TrafficPolicy::Cluster,
        "local" => TrafficPolicy::Local,
        _ => panic!("{text:?} is no traffic policy"),
    }
}

/// `http:80/tcp@30080`
fn port(word: &str) -> ServicePort {
    let (name, rest) = word
        .split_once(':')
        .unwrap_or_else(|| panic!("{word:?} says nothing about a Service"));
    let (rest, node_port) = match rest.split_once('@') {
        Some((rest, node_port)) => (rest, Some(parse(node_port))),
        None => (rest, None),
    };
    let (number, protocol) = rest.split_once('/').unwrap_or((rest, "tcp"));
    ServicePort {
        name: name.into(),
        protocol: parse(protocol),
        port: parse(number),
        node_port,
    }
}
