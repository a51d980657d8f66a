//! `sluice controller`: what a control plane adds to manifests.
//!
//! ```text
//! --manifests DIR ─▶ reading: objects ─▶ controller::Folder ─▶ output: one file per Service ─▶ --output DIR
//!                                              ▲──────────── the files of the last run ◀──────────┘
//! ```

mod output;
mod reading;

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use anyhow::{Context, bail};
use ipnet::IpNet;
use jiff::Timestamp;
use k8s_openapi::api::networking::v1::{ServiceCIDR, ServiceCIDRSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sluice_config::LogFormat;
use sluice_controller::{Folder, Pools};
use sluice_node::chain;
use sluice_source::{Reading, objects, watch_changes};
use tracing::{error, info, warn};

use crate::cli::ControllerArgs;
use crate::error::say;
use crate::logging;
use crate::output::exit_code;
use output::Output;

/// Completes the manifests once, or as often as they change.
pub(crate) fn run(args: &ControllerArgs) -> anyhow::Result<ExitCode> {
    let mut work = Work::open(args)?;
    if args.once {
        let (problems, _) = work.sync()?;
        problems.iter().for_each(|it| say(it));
        return Ok(exit_code(problems.is_empty()));
    }
    logging::start(0, LogFormat::Text);
    let changed = move || work.follow();
    let _watch = watch_changes(&args.manifests, changed)?;
    loop {
        // The watch's thread works. What it writes is whole at any moment, so a signal may end the process.
        thread::park();
    }
}

struct Work {
    manifests: PathBuf,
    output: Output,
    folder: Folder,
    /// For manifests without one.
    service_cidr: ServiceCIDR,
    /// The problems of the last round.
    problems: Vec<String>,
}

impl Work {
    fn open(args: &ControllerArgs) -> anyhow::Result<Self> {
        let (manifests, output) = (absolute(&args.manifests)?, absolute(&args.output)?);
        if manifests.starts_with(&output) || output.starts_with(&manifests) {
            bail!(
                "--manifests and --output must be folders beside each other: neither may be in the other"
            );
        }
        let (output, services, slices) = Output::open(output)?;
        let (folder, refusals) = Folder::new(pools(args), services, slices);
        let earlier = refusals
            .iter()
            .map(|(service, it)| format!("Service {service}: {it}"));
        earlier.for_each(|it| say(&it));
        Ok(Self {
            manifests,
            output,
            folder,
            service_cidr: service_cidr(&args.service_cluster_ip_range),
            problems: Vec::new(),
        })
    }

    /// Reads all manifests and writes what differs. The problems, and the number of files written.
    fn sync(&mut self) -> anyhow::Result<(Vec<String>, usize)> {
        let (written, problems) = objects(&self.manifests)?;
        let (mut manifests, wrong) = reading::manifests(&written);
        let mut said: Vec<String> = problems
            .iter()
            .chain(&wrong)
            .map(ToString::to_string)
            .collect();
        manifests.unread = !said.is_empty();
        if manifests.service_cidrs.is_empty() && !manifests.unread {
            manifests.service_cidrs.push(self.service_cidr.clone());
        }
        let cluster = output::cluster(&manifests)?;
        let refusals = self.folder.update(manifests, Timestamp::now());
        said.extend(
            refusals
                .iter()
                .map(|(service, it)| format!("Service {service}: {it}")),
        );
        let count = self.output.write(&self.folder.completed(), cluster)?;
        Ok((said, count))
    }

    fn follow(&mut self) -> Reading {
        match self.sync() {
            Ok((problems, files)) => {
                let new = problems.iter().filter(|it| !self.problems.contains(it));
                new.for_each(|it| warn!("{it}"));
                self.problems = problems;
                if files > 0 {
                    info!(files, "wrote what changed");
                }
                Reading::Done
            }
            Err(error) => {
                error!(error = %chain(error.as_ref()), "nothing written, trying again");
                Reading::Failed
            }
        }
    }
}

/// The ServiceCIDR that an API server makes of its flag.
fn service_cidr(prefixes: &[IpNet]) -> ServiceCIDR {
    ServiceCIDR {
        metadata: ObjectMeta {
            name: Some("kubernetes".to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceCIDRSpec {
            cidrs: Some(prefixes.iter().map(|it| it.trunc().to_string()).collect()),
        }),
        ..ServiceCIDR::default()
    }
}

fn absolute(path: &std::path::Path) -> anyhow::Result<PathBuf> {
    // Links lead somewhere; what is not there yet leads nowhere else.
    let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
    Ok(path.canonicalize().unwrap_or(path))
}

fn pools(args: &ControllerArgs) -> Pools {
    Pools {
        service_cidrs: args
            .service_cluster_ip_range
            .iter()
            .map(IpNet::trunc)
            .collect(),
        node_ports: args.service_node_port_range.clone(),
        load_balancers: args.load_balancer_cidrs.iter().map(IpNet::trunc).collect(),
    }
}
