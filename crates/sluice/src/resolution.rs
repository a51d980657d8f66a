//! A question about a DNS name, and its answer as text.

use std::net::IpAddr;
use std::str::FromStr as _;

use anyhow::{Context, anyhow, bail};
use hickory_proto::rr::{Name, RecordType};
use sluice_model::{NamespacedName, Pod};
use sluice_zone::{Objects, PodRecords, Resolution, SearchPath, Settings, Step, StepResult, Zones};

/// The question, and the client that asks it.
pub(crate) struct Asked {
    name: Name,
    record_types: Vec<RecordType>,
    from: Option<Asker>,
}

/// The client whose search path completes a name.
enum Asker {
    Pod(NamespacedName),
    /// The pod that has the address.
    Address(IpAddr),
}

impl Asked {
    /// Reads a name, a type or several (`A,AAAA`), and a pod as NAMESPACE/NAME or by its address.
    ///
    /// # Errors
    ///
    /// One of them is none.
    pub(crate) fn of(name: &str, types: &str, from: Option<&str>) -> anyhow::Result<Self> {
        let types = types.split(',').map(str::to_ascii_uppercase);
        let types = types.map(|it| {
            RecordType::from_str(&it).map_err(|_| anyhow!("{it} is no type of a record"))
        });
        let record_types = types.collect::<anyhow::Result<Vec<_>>>()?;
        let name = match name.parse::<IpAddr>() {
            Ok(address) if record_types == [RecordType::PTR] => Name::from(address),
            _ => Name::from_ascii(name).with_context(|| format!("{name} is no DNS name"))?,
        };
        Ok(Self {
            name,
            record_types,
            from: from.map(Asker::of).transpose()?,
        })
    }

    /// The answer of these objects, in a cluster with this zone. An address that no pod has asks for the name as it is.
    ///
    /// # Errors
    ///
    /// The pod has another resolver than the cluster's.
    pub(crate) fn in_objects(&self, objects: &Objects, zone: &Name) -> anyhow::Result<Resolution> {
        let asker = match &self.from {
            None => None,
            Some(Asker::Pod(name)) => Some(name.clone()),
            Some(Asker::Address(address)) => objects.pod_at(*address),
        };
        let pod = asker.as_ref().and_then(|it| objects.pod(it));
        let path = asker.as_ref().map(|it| search_path(it, pod, zone));
        let path = path.transpose()?;
        let (settings, types) = (settings(zone.clone()), &self.record_types);
        let found = Resolution::of(objects, &settings, path.as_ref(), &self.name, types);
        Ok(Resolution {
            pod: asker.map(|it| it.to_string()),
            pod_addresses: pod.map_or_else(Vec::new, |it| it.addresses.clone()),
            ..found
        })
    }
}

impl Asker {
    fn of(text: &str) -> anyhow::Result<Self> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let parts = text.split_once('/');
        let (namespace, name) = parts.with_context(|| format!("{text}: give NAMESPACE/POD"))?;
        Ok(Self::Pod(NamespacedName::new(namespace, name)))
    }
}

/// The search path of a pod. One that is not known, as without Pods among the manifests, counts as one without
/// settings of its own.
fn search_path(
    name: &NamespacedName,
    pod: Option<&Pod>,
    zone: &Name,
) -> anyhow::Result<SearchPath> {
    let path = match pod {
        Some(pod) => SearchPath::of_pod(pod, zone, &[]),
        None => SearchPath::of_namespace(&name.namespace, zone),
    };
    let Some(path) = path else {
        bail!(
            "pod {name} does not ask the cluster's DNS: see dnsPolicy and hostNetwork of its spec"
        );
    };
    Ok(path)
}

/// All that a server of this zone could answer.
fn settings(zone: Name) -> Settings {
    let reverse = ["in-addr.arpa.", "ip6.arpa."].map(|it| Name::from_ascii(it).expect("a name"));
    let zones =
        Zones::new([zone].into_iter().chain(reverse)).expect("the first one is no reverse zone");
    Settings {
        pods: PodRecords::Insecure,
        ttl: 30,
        ..Settings::new(zones)
    }
}

/// One block of lines for each step, then what may have been meant.
pub(crate) fn text(found: &Resolution) -> String {
    let steps = found.steps.iter().map(step);
    let near = found.near.iter().map(|it| format!("{it}\n"));
    steps.chain(near).collect()
}

fn step(step: &Step) -> String {
    let result = match step.result {
        StepResult::Found => "found",
        StepResult::NoData => "exists, without such records (NODATA)",
        StepResult::NoName => "does not exist (NXDOMAIN)",
        StepResult::Elsewhere => "is not the cluster's: upstream servers decide",
        StepResult::NotReady => "is not known yet (SERVFAIL)",
    };
    let mut text = format!("{} {result}\n", step.name);
    for it in &step.records {
        text += &format!("    {it}\n");
    }
    text + &format!("    {}\n", step.why)
}
