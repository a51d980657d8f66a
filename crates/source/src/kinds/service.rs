//! Services.

use std::sync::LazyLock;

use crate::api::{self, Identity};
use crate::convert::{self, Converted, Fault, Interner, Step};
use crate::kind::Kind;
use crate::manifest::Fields;
use sluice_yaml::quoted;

use Step::{Field, Index};

static FIELDS: LazyLock<Fields> = LazyLock::new(|| {
    Fields::of(
        "
: apiVersion kind metadata spec status
spec: allocateLoadBalancerNodePorts clusterIP clusterIPs externalIPs externalName externalTrafficPolicy healthCheckNodePort internalTrafficPolicy ipFamilies ipFamilyPolicy loadBalancerClass loadBalancerIP loadBalancerSourceRanges ports publishNotReadyAddresses selector sessionAffinity sessionAffinityConfig trafficDistribution type
spec.ports[]: appProtocol name nodePort port protocol targetPort
spec.sessionAffinityConfig: clientIP
spec.sessionAffinityConfig.clientIP: timeoutSeconds
status: conditions loadBalancer
status.conditions[]: lastTransitionTime message observedGeneration reason status type
status.loadBalancer: ingress
status.loadBalancer.ingress[]: hostname ip ipMode ports
status.loadBalancer.ingress[].ports[]: error port protocol",
    )
});

impl Kind for api::Service {
    type Model = sluice_model::Service;
    const VERSIONS: &'static [&'static str] = &["v1"];
    const PATH: &'static str = "/api/v1/services";
    const OBJECTS: &'static str = "Services";

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    fn convert(&self, names: &mut Interner) -> Converted<Self::Model> {
        convert::service(self, names)
    }

    fn fields() -> Option<&'static Fields> {
        Some(&FIELDS)
    }

    fn advice(&self) -> Vec<Fault> {
        let spec = &self.spec;
        let kind = spec.kind.as_deref().unwrap_or_default();
        let mut found = Vec::new();
        if self.metadata.labels.proxy_name.is_some() || kind == "ExternalName" {
            return found;
        }
        let is_empty = |text: &Option<String>| text.as_deref().unwrap_or_default().is_empty();
        if spec.cluster_ips.is_empty() && is_empty(&spec.cluster_ip) {
            let why = "is not set and nothing here allocates one, so the Service is not served: \
                       write an address, or None for a headless Service";
            found.push(Fault::at([Field("spec"), Field("clusterIP")], why));
        } else if let Some(family) = spec.ip_families.get(spec.cluster_ips.len().max(1))
            && !is_headless(spec)
        {
            let why = format!(
                "{} has no address and nothing here allocates one: write it in clusterIPs",
                quoted(family)
            );
            found.push(Fault::at([Field("spec"), Field("ipFamilies")], why));
        }
        for (i, port) in spec.ports.iter().enumerate() {
            if kind == "NodePort" && matches!(port.node_port, None | Some(0)) {
                let why = "is not set and nothing here allocates one: write a port that is free on \
                           every node, such as one of 30000-32767";
                let path = [Field("spec"), Field("ports"), Index(i), Field("nodePort")];
                found.push(Fault::at(path, why));
            }
        }
        let has_address = !self.status.load_balancer.ingress.is_empty();
        if !is_empty(&spec.load_balancer_ip) && !has_address {
            let why = "asks a load balancer for an address, and there is none here: write the \
                       address as ip in status.loadBalancer.ingress";
            found.push(Fault::at([Field("spec"), Field("loadBalancerIP")], why));
        }
        found
    }
}

fn is_headless(spec: &api::ServiceSpec) -> bool {
    let first = spec.cluster_ips.first().or(spec.cluster_ip.as_ref());
    first.is_some_and(|it| it == "None")
}
