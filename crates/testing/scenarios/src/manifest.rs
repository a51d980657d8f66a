//! Builds the Kubernetes YAML of a Service and its EndpointSlices.

use std::fmt::{self, Display};

use sluice_model::IpFamily;

use super::world;
use sluice_lab::address::{pod_cidr_v4, pod_cidr_v6};
use sluice_lab::{SERVICE_CIDR_V4, SERVICE_CIDR_V6};

/// A Service and its EndpointSlices; displays as YAML documents.
#[derive(Clone, Debug)]
pub(super) struct ServiceYaml {
    name: &'static str,
    kind: &'static str,
    families: Vec<IpFamily>,
    /// `clusterIPs`, when they are not the ones of the Service's name.
    cluster_ips: Option<&'static str>,
    labels: Vec<&'static str>,
    created: Option<&'static str>,
    spec: Vec<String>,
    ingress: Vec<String>,
    ports: Vec<PortYaml>,
    slices: Vec<SliceYaml>,
}

#[derive(Clone, Debug)]
struct PortYaml {
    name: &'static str,
    protocol: &'static str,
    port: u16,
    target: u16,
    node_port: Option<u16>,
}

#[derive(Clone, Debug)]
struct SliceYaml {
    suffix: &'static str,
    families: Vec<IpFamily>,
    /// Number of each port on the endpoints, in the order of the Service's ports; 0 when the
    /// endpoints do not have it.
    numbers: Option<Vec<u16>>,
    endpoints: &'static str,
    labels: Vec<&'static str>,
}

/// A Service with its ClusterIPs in both families.
pub(super) fn service(name: &'static str) -> ServiceYaml {
    ServiceYaml {
        name,
        kind: "ClusterIP",
        families: IpFamily::ALL.to_vec(),
        cluster_ips: None,
        labels: Vec::new(),
        created: None,
        spec: Vec::new(),
        ingress: Vec::new(),
        ports: Vec::new(),
        slices: Vec::new(),
    }
}

impl ServiceYaml {
    /// In one family only.
    pub(super) fn only(mut self, family: IpFamily) -> Self {
        self.families = vec![family];
        self
    }

    /// `type`.
    pub(super) fn kind(mut self, kind: &'static str) -> Self {
        self.kind = kind;
        self
    }

    /// `clusterIPs` as a YAML list.
    pub(super) fn cluster_ips(mut self, list: &'static str) -> Self {
        self.cluster_ips = Some(list);
        self
    }

    /// A label: `key: value`.
    pub(super) fn label(mut self, label: &'static str) -> Self {
        self.labels.push(label);
        self
    }

    /// `creationTimestamp`.
    pub(super) fn created(mut self, time: &'static str) -> Self {
        self.created = Some(time);
        self
    }

    pub(super) fn spec(mut self, line: impl Into<String>) -> Self {
        self.spec.push(line.into());
        self
    }

    /// A TCP port, by default to 8080 on the endpoints.
    pub(super) fn tcp(self, port: u16) -> Self {
        self.port("TCP", port)
    }

    /// A UDP port.
    pub(super) fn udp(self, port: u16) -> Self {
        self.port("UDP", port)
    }

    /// An SCTP port.
    pub(super) fn sctp(self, port: u16) -> Self {
        self.port("SCTP", port)
    }

    fn port(mut self, protocol: &'static str, port: u16) -> Self {
        self.ports.push(PortYaml {
            name: "",
            protocol,
            port,
            target: world::USUAL_PORT,
            node_port: None,
        });
        self
    }

    /// The last port once more for UDP: same numbers, named `tcp` and `udp`.
    pub(super) fn udp_too(mut self) -> Self {
        let mut udp = self.last_port().clone();
        self.last_port().name = "tcp";
        (udp.name, udp.protocol) = ("udp", "UDP");
        self.ports.push(udp);
        self
    }

    /// Names the last port.
    pub(super) fn named(mut self, name: &'static str) -> Self {
        self.last_port().name = name;
        self
    }

    /// Sets the endpoints' port for the last port.
    pub(super) fn target(mut self, port: u16) -> Self {
        self.last_port().target = port;
        self
    }

    /// A NodePort for the last port, and for all others of the same number; a ClusterIP Service
    /// becomes one of type NodePort.
    pub(super) fn node_port(mut self, port: u16) -> Self {
        let number = self.last_port().port;
        for it in self.ports.iter_mut().filter(|it| it.port == number) {
            it.node_port = Some(port);
        }
        if self.kind == "ClusterIP" {
            self.kind = "NodePort";
        }
        self
    }

    /// Type LoadBalancer, with the addresses `name.lb`.
    pub(super) fn load_balancer(self, mode: &'static str) -> Self {
        let mut this = self.kind("LoadBalancer");
        let addresses = world::addresses(&format!("{}.lb", this.name)).into_iter();
        let line = |ip| format!("{{ip: \"{ip}\", ipMode: {mode}}}");
        this.ingress.extend(addresses.map(line));
        this
    }

    /// `externalIPs`: the addresses `name.ext`.
    pub(super) fn external_ips(self) -> Self {
        let addresses = world::addresses(&format!("{}.ext", self.name));
        let list: Vec<String> = addresses.iter().map(|ip| format!("\"{ip}\"")).collect();
        let line = format!("externalIPs: [{}]", list.join(", "));
        self.spec(line)
    }

    /// One slice per family with these endpoints, separated by spaces: a pod, then what is
    /// special about it, `web-1:terminating,zone-b`. See [`Special`].
    pub(super) fn endpoints(self, endpoints: &'static str) -> Self {
        self.slice("a", endpoints)
    }

    /// One more slice per family; `suffix` makes its name.
    pub(super) fn slice(mut self, suffix: &'static str, endpoints: &'static str) -> Self {
        self.slices.push(SliceYaml {
            suffix,
            families: self.families.clone(),
            numbers: None,
            endpoints,
            labels: Vec::new(),
        });
        self
    }

    /// The ports of the last slice have these numbers, in the order of the Service's ports; 0
    /// leaves one out.
    pub(super) fn on(mut self, numbers: &[u16]) -> Self {
        self.last_slice().numbers = Some(numbers.to_vec());
        self
    }

    /// The last slice exists in one family only.
    pub(super) fn slice_only(mut self, family: IpFamily) -> Self {
        self.last_slice().families = vec![family];
        self
    }

    /// A label of the last slice.
    pub(super) fn slice_label(mut self, label: &'static str) -> Self {
        self.last_slice().labels.push(label);
        self
    }

    fn last_port(&mut self) -> &mut PortYaml {
        let last = self.ports.last_mut();
        last.expect("a scenario adds a port before it changes it")
    }

    fn last_slice(&mut self) -> &mut SliceYaml {
        let last = self.slices.last_mut();
        last.expect("a scenario adds a slice before it changes it")
    }

    fn cluster_ip_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(list) = self.cluster_ips {
            return writeln!(f, "  clusterIPs: {list}");
        }
        if self.kind == "ExternalName" {
            return writeln!(f, "  externalName: example.com");
        }
        let ips = self.families.iter().map(|it| {
            let ip = world::address(self.name, *it);
            format!("\"{}\"", ip.expect("virtual IPs have both families"))
        });
        let ips: Vec<String> = ips.collect();
        let families: Vec<String> = self.families.iter().map(ToString::to_string).collect();
        writeln!(f, "  clusterIP: {}", ips[0])?;
        writeln!(f, "  clusterIPs: [{}]", ips.join(", "))?;
        writeln!(f, "  ipFamilies: [{}]", families.join(", "))
    }

    fn write_slice(
        &self,
        f: &mut fmt::Formatter<'_>,
        slice: &SliceYaml,
        family: IpFamily,
    ) -> fmt::Result {
        let Self { name, ports, .. } = self;
        let family_name = family.to_string();
        writeln!(
            f,
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice"
        )?;
        let lower = family_name.to_lowercase();
        writeln!(f, "metadata:\n  name: {name}-{lower}-{}", slice.suffix)?;
        writeln!(f, "  labels:\n    kubernetes.io/service-name: {name}")?;
        for label in &slice.labels {
            writeln!(f, "    {label}")?;
        }
        writeln!(f, "addressType: {family_name}\nports:")?;
        for (index, port) in ports.iter().enumerate() {
            let number = match &slice.numbers {
                Some(numbers) => numbers[index],
                None => port.target,
            };
            let PortYaml { name, protocol, .. } = port;
            if number == 0 {
                continue;
            }
            writeln!(
                f,
                "- {{name: \"{name}\", protocol: {protocol}, port: {number}}}"
            )?;
        }
        writeln!(f, "endpoints:")?;
        for word in slice.endpoints.split_whitespace() {
            let (pod, attributes) = word.split_once(':').unwrap_or((word, ""));
            let ip = world::address(pod, family).expect("pods have both families");
            writeln!(f, "- addresses: [\"{ip}\"]")?;
            let is_named = !attributes.split(',').any(|it| it == "nodeless");
            if let Some(node) = world::node_of(pod).filter(|_| is_named) {
                writeln!(f, "  nodeName: {node}")?;
            }
            writeln!(f, "  targetRef: {{kind: Pod, name: {pod}}}")?;
            write!(f, "{}", Attributes(attributes))?;
        }
        Ok(())
    }
}

/// The service and its slices, as YAML documents.
impl Display for ServiceYaml {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "---\napiVersion: v1\nkind: Service")?;
        writeln!(f, "metadata:\n  name: {}", self.name)?;
        if let Some(time) = self.created {
            writeln!(f, "  creationTimestamp: \"{time}\"")?;
        }
        if !self.labels.is_empty() {
            writeln!(f, "  labels:")?;
        }
        for label in &self.labels {
            writeln!(f, "    {label}")?;
        }
        writeln!(f, "spec:\n  type: {}", self.kind)?;
        self.cluster_ip_lines(f)?;
        writeln!(f, "  ports:")?;
        for port in &self.ports {
            let PortYaml {
                name,
                protocol,
                port,
                target,
                node_port,
            } = port;
            write!(f, "  - {{name: \"{name}\", protocol: {protocol}, ")?;
            write!(f, "port: {port}, targetPort: {target}")?;
            if let Some(node_port) = node_port {
                write!(f, ", nodePort: {node_port}")?;
            }
            writeln!(f, "}}")?;
        }
        for line in &self.spec {
            writeln!(f, "  {line}")?;
        }
        if !self.ingress.is_empty() {
            writeln!(f, "status:\n  loadBalancer:\n    ingress:")?;
        }
        for line in &self.ingress {
            writeln!(f, "    - {line}")?;
        }
        for slice in &self.slices {
            for family in &slice.families {
                self.write_slice(f, slice, *family)?;
            }
        }
        Ok(())
    }
}

/// Conditions and hints of an endpoint, as words with commas between.
///
/// `ready` (written out, not left to the default), `starting` (not ready, not serving),
/// `terminating` (shutting down, still serving), `dying` (shutting down, not serving any more),
/// `published` (not serving, but ready since the Service publishes not-ready addresses), `nodeless`
/// (without `nodeName`), and hints by the name of the zone or node they are for.
struct Attributes<'a>(&'a str);

impl Display for Attributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = || self.0.split(',').filter(|it| !it.is_empty());
        let of = |prefix: &str| {
            let hints = words().filter(|it| it.starts_with(prefix));
            let hints: Vec<String> = hints.map(|it| format!("{{name: {it}}}")).collect();
            hints.join(", ")
        };
        for word in words() {
            let [ready, serving, terminating] = match word {
                "ready" => [true, true, false],
                "starting" => [false, false, false],
                "terminating" => [false, true, true],
                "dying" => [false, false, true],
                "published" => [true, false, false],
                "nodeless" => continue,
                _ if word.starts_with("zone-") || word.starts_with("node-") => continue,
                _ => panic!("scenario: unknown attribute {word} of an endpoint"),
            };
            write!(f, "  conditions: {{ready: {ready}, serving: {serving}, ")?;
            writeln!(f, "terminating: {terminating}}}")?;
        }
        let (zones, nodes) = (of("zone-"), of("node-"));
        match (zones.is_empty(), nodes.is_empty()) {
            (true, true) => Ok(()),
            (false, true) => writeln!(f, "  hints: {{forZones: [{zones}]}}"),
            (true, false) => writeln!(f, "  hints: {{forNodes: [{nodes}]}}"),
            (false, false) => {
                writeln!(f, "  hints: {{forZones: [{zones}], forNodes: [{nodes}]}}")
            }
        }
    }
}

/// The nodes and ranges of the cluster, and these Services.
pub(super) fn cluster(services: impl IntoIterator<Item = ServiceYaml>) -> String {
    let nodes = (0u8..).zip(["a", "b"]).map(|(position, letter)| {
        let ips = world::addresses(&format!("node-{letter}"));
        let (v4, v6) = (pod_cidr_v4(position), pod_cidr_v6(position));
        format!(
            "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: node-{letter}\n  labels:\n    \
             topology.kubernetes.io/zone: zone-{letter}\n\
             spec:\n  podCIDRs: [\"{v4}\", \"{v6}\"]\n\
             status:\n  addresses:\n  - {{type: InternalIP, address: \"{}\"}}\n  \
             - {{type: InternalIP, address: \"{}\"}}\n",
            ips[0], ips[1]
        )
    });
    let ranges = format!(
        "---\napiVersion: networking.k8s.io/v1\nkind: ServiceCIDR\nmetadata:\n  name: kubernetes\n\
         spec:\n  cidrs: [\"{SERVICE_CIDR_V4}\", \"{SERVICE_CIDR_V6}\"]\n"
    );
    let services = services.into_iter().map(|it| it.to_string());
    nodes.chain([ranges]).chain(services).collect()
}
