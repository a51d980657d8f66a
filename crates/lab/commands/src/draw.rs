//! `sluice lab draw`: the lab's objects as a picture.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Node;
use serde_json::Value;
use sluice_cluster::client::Client;
use sluice_cluster::lab_dir::LabDir;
use sluice_cluster::nodes;
use sluice_cluster::probe::Request;
use sluice_controller::Typed;
use sluice_lab::Cluster;
use sluice_model::NamespacedName;
use sluice_picture::{Kind, Measured, Objects, Question, Topology, Way};
use sluice_plan::Event;
use sluice_plan::Planner;
use sluice_plan::settings::Settings;

use super::{Host, machines};
use crate::args::{DrawArgs, DrawFormat};
use crate::output::put;
use sluice_node::output::{Stream, write_json};

/// The width of the lab's picture in an SVG file: that of a page.
const WIDTH: u32 = 920;

/// The namespace of the cluster's own parts.
const SYSTEM: &str = "kube-system";

/// Timeout of one request of a probe.
const TIMEOUT: Duration = Duration::from_secs(1);

pub(super) fn run(args: &DrawArgs, host: Host) -> anyhow::Result<()> {
    let lab_dir = LabDir::of(&args.at.lab.name)?;
    let client = Client::open(&lab_dir)?;
    let view = View::read(&client, lab_dir.settings()?.mode, host)?;
    let Some(service) = &args.service else {
        // Only from inside the lab can be seen what listens.
        let topology = view.topology(|_| false)?;
        match args.output {
            DrawFormat::Text => put!("{topology}"),
            DrawFormat::Svg => put!("{}", topology.drawing(WIDTH)),
            DrawFormat::Json => write_json(Stream::Out, &serde_json::to_string_pretty(&topology)?),
        }
        return Ok(());
    };
    let mut way = view.way(&question(args, service)?)?;
    if let Some(count) = args.probe {
        let from = machines::find(&client, &args.from, &args.at.namespace)?;
        let target = way.target();
        let target = target.context("--probe: a headless Service has no address: probe a pod")?;
        // Its threads may not come along into the lab.
        drop(client);
        let request = Request {
            target,
            udp: way.is_udp(),
            count,
            timeout: TIMEOUT,
            pause: Duration::ZERO,
            source_port: None,
        };
        let answers = machines::ask(&lab_dir, &from, &request)?;
        way = way.measured(Measured {
            answered: answers.answered,
            seen_from: answers.seen_from,
            failed: answers.failed,
        });
    }
    match args.output {
        DrawFormat::Text => put!("{way}"),
        DrawFormat::Svg => put!("{}", way.drawing(WIDTH)),
        DrawFormat::Json => write_json(Stream::Out, &serde_json::to_string_pretty(&way)?),
    }
    Ok(())
}

fn question(args: &DrawArgs, service: &str) -> anyhow::Result<Question> {
    let name = match service.split_once('/') {
        Some(("svc" | "service" | "services", name)) => name,
        Some((other, _)) => bail!("{other}: only a Service is drawn: svc/NAME"),
        None => service,
    };
    let (name, port) = match name.split_once(':') {
        Some((name, port)) => (name, Some(port.to_owned())),
        None => (name, None),
    };
    let service = NamespacedName::new(&*args.at.namespace, name);
    // `node/` and `pod/`, as `probe` takes them.
    let bare = ["node/", "pod/"]
        .iter()
        .find_map(|it| args.from.strip_prefix(it));
    let from = bare.unwrap_or(&args.from);
    Ok(asked(service, port, from, args.via.clone()))
}

/// A question about a Service of the lab, from a machine of it.
pub(super) fn asked(
    service: NamespacedName,
    port: Option<String>,
    from: &str,
    via: Option<String>,
) -> Question {
    let is_client = from == sluice_cluster::names::CLIENT;
    Question {
        service,
        port,
        from: from.to_owned(),
        outside: if is_client {
            Cluster::first_client().to_vec()
        } else {
            Vec::new()
        },
        via,
    }
}

/// The objects of a lab at one time, and the settings of its agents.
#[derive(Clone, Debug)]
pub(super) struct View {
    objects: Objects,
    /// The data plane of nodes that name none.
    mode: String,
    host: Host,
}

impl View {
    pub(super) fn read(client: &Client, mode: String, host: Host) -> anyhow::Result<Self> {
        let objects = Objects::read(|kind| client.get(kind.path()))?;
        Ok(Self {
            objects,
            mode,
            host,
        })
    }

    /// The whole lab. `refuses` says whether nothing listens at the address of an endpoint.
    pub(super) fn topology(
        &self,
        refuses: impl Fn(SocketAddr) -> bool,
    ) -> anyhow::Result<Topology> {
        // The parts of the cluster itself are in no picture of what runs on it.
        let objects = self.objects.clone().without(SYSTEM);
        // Every agent serves the same Services.
        let planner = planned(&objects, Settings::for_node(""));
        let mode_of = |node: &Value| {
            let mode = as_node(node).map(|it| nodes::mode(&it, &self.mode).to_owned());
            mode.unwrap_or_default()
        };
        Ok(Topology::of(&objects, &planner, mode_of, refuses))
    }

    pub(super) fn pods(&self) -> Vec<&Value> {
        self.objects.all(Kind::Pod)
    }

    pub(super) fn way(&self, question: &Question) -> anyhow::Result<Way> {
        let planner = self.planner(&question.node(&self.objects)?)?;
        Ok(Way::of(&self.objects, &planner, question)?)
    }

    /// The plan that a node's agent makes.
    fn planner(&self, name: &str) -> anyhow::Result<Planner> {
        let node = as_node(self.objects.node(name).context("the node is gone")?)?;
        let flags = nodes::agent_flags(&node, &self.mode, Path::new("kubeconfig"));
        let settings = (self.host.settings)(&flags, name);
        let settings = settings.with_context(|| format!("flags of the agent of {name}"))?;
        Ok(planned(&self.objects, settings))
    }
}

/// The plan of a node. Objects that an agent refuses are left out, as the agent leaves them out.
fn planned(objects: &Objects, settings: Settings) -> Planner {
    let (mut planner, wants) = (Planner::new(settings), super::wants());
    for list in objects.lists() {
        let read = sluice_source::parse("list.json", list.to_string().as_bytes(), &wants);
        read.events.into_iter().for_each(|it| planner.absorb(it));
    }
    planner.absorb(Event::SYNCED);
    planner.replan();
    planner
}

fn as_node(object: &Value) -> anyhow::Result<Node> {
    Ok(Node::read(object)?)
}
