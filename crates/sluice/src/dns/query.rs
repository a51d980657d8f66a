//! `sluice dns query`: what a name is, and why.

use std::net::IpAddr;
use std::process::ExitCode;
use std::str::FromStr as _;

use anyhow::{Context, anyhow, bail};
use hickory_proto::rr::{Name, RecordType};
use sluice_model::{NamespacedName, Pod};
use sluice_node::client;
use sluice_zone::{Objects, PodRecords, Resolution, SearchPath, Settings, Step, StepResult, Zones};

use super::source;
use crate::cli::{Output, QueryArgs};
use crate::render::print;
use crate::view::with_hint;

/// Prints the answer. Exit code 1 when there is none.
pub(super) fn run(args: &QueryArgs) -> anyhow::Result<ExitCode> {
    let asked = Asked::of(&args.name, &args.kind, args.from.as_deref())?;
    let found: Resolution = match args.node.names_source() {
        true => {
            let zone = args.node.dns.zone().map_err(anyhow::Error::msg)?;
            asked.in_objects(&source::read_once(&args.node)?, &zone)?
        }
        false => {
            let mut query = vec![("name", &*args.name), ("type", &*args.kind)];
            query.extend(args.from.as_deref().map(|it| ("from", it)));
            client::ask(&args.socket, "/name", &query).map_err(with_hint)?
        }
    };
    match args.output {
        Output::Text => print(text(&found))?,
        Output::Json => print(serde_json::to_string_pretty(&found)? + "\n")?,
    }
    Ok(match found.is_found() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// What is asked, and by whom.
pub(crate) struct Asked {
    name: Name,
    record_type: RecordType,
    from: Option<NamespacedName>,
}

impl Asked {
    /// Reads a name, a type and a pod.
    ///
    /// # Errors
    ///
    /// One of them is none.
    pub(crate) fn of(name: &str, record_type: &str, from: Option<&str>) -> anyhow::Result<Self> {
        let kind = record_type.to_ascii_uppercase();
        let record_type = RecordType::from_str(&kind);
        let record_type = record_type.map_err(|_| anyhow!("{kind} is no type of a record"))?;
        let name = match name.parse::<IpAddr>() {
            Ok(address) if record_type == RecordType::PTR => Name::from(address),
            _ => Name::from_ascii(name).with_context(|| format!("{name} is no DNS name"))?,
        };
        let from = from.map(|text| {
            let parts = text.split_once('/');
            let (namespace, name) = parts.with_context(|| format!("{text}: give NAMESPACE/POD"))?;
            anyhow::Ok(NamespacedName {
                namespace: namespace.into(),
                name: name.into(),
            })
        });
        Ok(Self {
            name,
            record_type,
            from: from.transpose()?,
        })
    }

    /// The answer of these objects, in a cluster with this zone.
    ///
    /// # Errors
    ///
    /// The pod has another resolver than the cluster's.
    pub(crate) fn in_objects(&self, objects: &Objects, zone: &Name) -> anyhow::Result<Resolution> {
        let path = match &self.from {
            None => None,
            Some(from) => Some(search_path(from, objects.pod(from), zone)?),
        };
        let settings = settings(zone.clone());
        let path = path.as_ref();
        Ok(Resolution::of(
            objects,
            &settings,
            path,
            &self.name,
            self.record_type,
        ))
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

/// One block of lines for each step.
fn text(found: &Resolution) -> String {
    found.steps.iter().map(step).collect()
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
