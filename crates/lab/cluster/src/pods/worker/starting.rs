//! The start of a pod: its machine, its volumes, its processes.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::Context;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container as Spec;
use sluice_lab::{HeldPod, Place};

use super::{IDLE, LOOK, News, Worker};
use crate::console::{Console, Streams};
use crate::enter::{Inside, Pids};
use crate::entry::{Entry, Mount};
use crate::images::{self, PROGRAMS, StandIn};
use crate::kube_system;
use crate::lab_dir::{INSIDE, RESOLV_CONF, write};
use crate::names::{machine_of_pod, netns_name};
use crate::nodes::{self, MIRROR};
use crate::pods::command::Cannot;
use crate::pods::container::{Container, Role, Started, State};
use crate::pods::fields::Own;
use crate::pods::{command, hosts, resolver, security, variables};
use crate::process::Identity;
use crate::record::Process;

impl Worker {
    pub(super) fn make_machine(&mut self) -> anyhow::Result<()> {
        let spec = self.pod.spec.as_ref().context("no spec")?;
        let node = spec.node_name.as_deref().context("no node")?;
        let name = self.pod.metadata.name.as_deref().unwrap_or_default();
        let machine = machine_of_pod(name, &self.uid);
        let folder = self.machines.lab_dir().pod(&self.uid);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        if let Some(text) = resolver::text(&self.pod) {
            let file = folder.join(RESOLV_CONF);
            fs::write(&file, text).with_context(|| file.display().to_string())?;
        }
        let held = {
            let mut cluster = self.machines.lock();
            let made = match spec.host_network {
                Some(true) => cluster.add_host_pod(&machine, node)?,
                _ => {
                    let own =
                        self.pod.metadata.namespace.as_deref() == Some(kube_system::NAMESPACE);
                    // Pods of others are numbered from the first address on.
                    let place = if own { Place::Last } else { Place::Next };
                    cluster.add_pod_at(&machine, node, place)?
                }
            };
            HeldPod {
                name: machine.clone(),
                node: node.to_owned(),
                host: made.host(),
            }
        };
        self.addresses = self.addresses_of(&machine);
        self.held = Some(held);
        self.write_record();
        Ok(())
    }

    pub(super) fn addresses_of(&self, machine: &str) -> Option<[IpAddr; 2]> {
        let cluster = self.machines.lock();
        let pod = cluster.pods().iter().find(|it| it.name() == machine)?;
        Some(
            self.machines
                .in_order([pod.ipv4().into(), pod.ipv6().into()]),
        )
    }

    /// Makes the volumes when they are due. Returns when they are due again.
    pub(super) fn keep_volumes(&mut self, now: Instant) -> Instant {
        let is_due = |at: Option<Instant>| at.is_some_and(|it| it <= now);
        if self.volumes_due || is_due(self.retry_at) || is_due(self.volumes.renew_at()) {
            self.volumes_due = false;
            self.retry_at = None;
            let own = Own {
                pod: &self.pod,
                addresses: self.addresses,
                node_addresses: self.node_addresses(),
            };
            let failed = self.volumes.set_up(&own, &*self.objects);
            for (name, why) in &failed {
                let text = format!("MountVolume.SetUp failed for volume {name:?} : {why}");
                self.report.event(&self.pod, "FailedMount", &text, true);
            }
            if failed.is_empty() {
                self.retry.reset();
            } else {
                self.retry_at = Some(now + self.retry.take());
            }
        }
        let times = [self.retry_at, self.volumes.renew_at()];
        let next = times.into_iter().flatten().min();
        next.unwrap_or(now + IDLE)
    }

    /// An object changed: what failed for the lack of one is tried again.
    pub(super) fn refresh(&mut self, now: Instant) {
        self.volumes_due = true;
        for it in &mut self.containers {
            if let State::Waiting { reason, until, .. } = &mut it.state
                && *reason == "CreateContainerConfigError"
            {
                *until = now;
            }
        }
    }

    /// Whether the pod stands for its node's agent.
    pub(super) fn mirrors_agent(&self) -> bool {
        let annotations = self.pod.metadata.annotations.as_ref();
        annotations.is_some_and(|it| it.contains_key(MIRROR))
    }

    /// Takes the node's agent for the process of a container, with its log. Who starts it is the node.
    fn mirror(&mut self, position: usize, now: Instant) {
        let spec = self.pod.spec.as_ref();
        let node = spec.and_then(|it| it.node_name.clone()).unwrap_or_default();
        let lab_dir = self.machines.lab_dir();
        let agent = nodes::agent(lab_dir, &node).filter(Identity::is_running);
        let container = &mut self.containers[position];
        let Some(identity) = agent else {
            return container.wait_until(now + LOOK);
        };
        // It is there from the last run.
        let _ = symlink(nodes::log(lab_dir, &node), container.log());
        let process = Process {
            name: container.spec.name.clone(),
            identity: identity.clone(),
            restarts: container.restarts,
            started: Timestamp::now().as_second(),
        };
        container.adopt(&process, now);
        let text = format!("Started container {}", process.name);
        self.initialized = true;
        self.report.event(&self.pod, "Started", &text, false);
        self.watch_adopted(position, identity);
        self.write_inside();
        self.write_record();
    }

    pub(super) fn start_container(&mut self, position: usize, now: Instant) {
        if self.mirrors_agent() {
            return self.mirror(position, now);
        }
        let prepared = self.prepare(position);
        let container = &mut self.containers[position];
        let entry = match prepared {
            Ok(entry) => entry,
            Err(why) => {
                container.failed("CreateContainerConfigError", why.clone(), now);
                let text = format!("Error: {why}");
                self.report.event(&self.pod, "Failed", &text, true);
                return;
            }
        };
        container.inside = entry;
        self.initialized |= container.role == Role::App;
        self.write_inside();
        let started = self.start_process(position);
        let container = &mut self.containers[position];
        match started {
            Ok((Started(mut child), console)) => {
                let name = &container.spec.name;
                self.machines.consoles().set(&self.uid, name, console);
                let (news, run) = (self.news.clone(), container.run);
                thread::spawn(move || {
                    let status = child.wait().ok();
                    // The worker may have ended.
                    let _ = news.send(News::Ended {
                        container: position,
                        run,
                        status,
                    });
                });
                let text = format!("Started container {}", container.spec.name);
                self.report.event(&self.pod, "Started", &text, false);
                self.begin(position);
            }
            Err(Cannot { reason, message }) => {
                let text = format!("Error: {message}");
                container.failed(reason, message, now);
                self.report.event(&self.pod, "Failed", &text, true);
            }
        }
        self.write_record();
    }

    /// Starts the process of a container, with its console if it asks for one.
    fn start_process(&mut self, position: usize) -> Result<(Started, Option<Console>), Cannot> {
        let opened = Console::open(&self.containers[position].spec);
        let (console, streams) = opened.map_err(Cannot::create)?.unzip();
        let terminal = streams.as_ref().and_then(Streams::terminal);
        let command = self.command(position, terminal)?;
        let pids = self.pids(position).map_err(Cannot::create)?;
        let container = &mut self.containers[position];
        let started = container.start(command, streams, &pids);
        Ok((started.map_err(Cannot::create)?, console))
    }

    /// Where the processes of a container belong.
    fn pids(&mut self, position: usize) -> anyhow::Result<Pids> {
        if self.containers[position].inside.confined.is_none() {
            return Ok(Pids::Same);
        }
        let spec = self.pod.spec.as_ref();
        if spec.and_then(|it| it.share_process_namespace) != Some(true) {
            return Ok(Pids::New);
        }
        let first = self.first.take().filter(Identity::is_running);
        let first = first.map_or_else(|| self.start_first(position), Ok)?;
        self.first = Some(first.clone());
        Ok(Pids::Of(first))
    }

    /// Starts process 1 of the pid namespace that the containers share, with what one of them sees. The kernel ends all of them
    /// with it.
    fn start_first(&self, position: usize) -> anyhow::Result<Identity> {
        let inside = self.inside_of(position, None, None);
        let mut command = self.machine_command(position, &inside, Path::new("/bin/sh"));
        // The kernel reaps the children of a process that ignores their end.
        command.args(["-c", "trap '' CHLD; exec sleep infinity"]);
        let nothing = || Stdio::null();
        command.stdin(nothing()).stdout(nothing()).stderr(nothing());
        let child = Pids::New.spawn(|| command.process_group(0).spawn());
        let mut child = child.context("start the process that the containers share")?;
        let identity = Identity::of(child.id()).context("it ended at once")?;
        thread::spawn(move || child.wait());
        Ok(identity)
    }

    /// The mounts and variables of a container; the error is in kubelet's words.
    fn prepare(&self, position: usize) -> Result<Entry, String> {
        let spec = &self.containers[position].spec;
        let own = Own {
            pod: &self.pod,
            addresses: self.addresses,
            node_addresses: self.node_addresses(),
        };
        let variables = variables::of_container(spec, &own, &*self.objects)?;
        let mut mounts = self.volumes.mounts(spec, &variables)?;
        let stand_in = self.machines.stand_in(spec);
        mounts.extend(stand_in.into_iter().flat_map(StandIn::mounts));
        if let Some(run) = self.run_of_node(spec) {
            mounts.push(run);
        }
        let mut confined = security::of_container(spec, &own)?;
        if let Some(it) = &mut confined {
            it.termination_log = Some(self.containers[position].termination_log()?);
            if let Some(target) = command::pages(&self.pod, spec, stand_in) {
                mounts.extend(self.pages(&spec.name, target, it.read_only, &mounts)?);
            }
        }
        Ok(Entry {
            mounts,
            variables,
            confined,
        })
    }

    /// An empty folder where the image has the pages that it serves, unless a volume is there: whoever writes a page finds the
    /// place, and the machine's own pages are none of the container's.
    fn pages(
        &self,
        container: &str,
        target: &str,
        read_only: bool,
        mounts: &[Mount],
    ) -> Result<Option<Mount>, String> {
        let target = Path::new(target);
        let meets = |it: &Mount| it.target.starts_with(target) || target.starts_with(&it.target);
        if mounts.iter().any(meets) {
            return Ok(None);
        }
        let folder = self.machines.lab_dir().pod(&self.uid);
        let source = folder.join(format!("{container}.pages"));
        // What an earlier run of the container wrote is gone with it.
        match fs::remove_dir_all(&source) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => fs::create_dir(&source),
        }
        .map_err(|error| format!("{}: {error}", source.display()))?;
        Ok(Some(Mount {
            source,
            target: target.to_owned(),
            read_only,
        }))
    }

    /// An agent in a pod has the node's own `/run/sluice`, as the lab's agents have: `sluice status` in the node asks it.
    fn run_of_node(&self, container: &Spec) -> Option<Mount> {
        let spec = self.pod.spec.as_ref()?;
        let node = spec
            .node_name
            .as_ref()
            .filter(|_| spec.host_network == Some(true))?;
        command::own_image(container)?;
        Some(Mount {
            source: self.machines.lab_dir().node(node).join("run"),
            target: "/run/sluice".into(),
            read_only: false,
        })
    }

    /// Records what the containers see, for `sluice lab exec` and for a later server.
    fn write_inside(&self) {
        let all = self.containers.iter();
        let all: BTreeMap<_, _> = all.map(|it| (&it.spec.name, &it.inside)).collect();
        let path = self.machines.lab_dir().pod(&self.uid).join(INSIDE);
        let text = serde_json::to_vec(&all).expect("texts become JSON");
        if let Err(error) = write(&path, &text) {
            tracing::warn!(%error, "`sluice lab exec` will not see the volumes");
        }
    }

    pub(super) fn watch_adopted(&self, container: usize, process: Identity) {
        let (news, run) = (self.news.clone(), self.containers[container].run);
        thread::spawn(move || {
            while process.is_running() {
                #[expect(clippy::disallowed_methods, reason = "the process has another parent")]
                thread::sleep(LOOK);
            }
            let _ = news.send(News::Ended {
                container,
                run,
                status: None,
            });
        });
    }

    fn command(&self, position: usize, terminal: Option<&Path>) -> Result<Command, Cannot> {
        let container = &self.containers[position];
        let confined = Path::new(PROGRAMS).join("sluice");
        let sluice = match container.inside.confined {
            Some(_) => &confined,
            None => self.machines.program(),
        };
        command::of_container(
            &self.pod,
            &container.spec,
            container.role,
            &container.inside,
            self.machines.stand_in(&container.spec),
            |program| {
                self.machine_command(position, &self.inside_of(position, None, terminal), program)
            },
            sluice,
        )
    }

    /// A command in a container.
    pub(super) fn inside(&self, position: usize, words: &[String]) -> (Command, Pids) {
        let (program, arguments) = words
            .split_first()
            .map_or(("true", &[][..]), |(first, rest)| (first.as_str(), rest));
        let container = &self.containers[position];
        let process = container.process().map(|it| it.identity);
        let inside = self.inside_of(position, process, None);
        let mut command = self.machine_command(position, &inside, program.as_ref());
        command.args(arguments);
        (command, Pids::of(&inside))
    }

    /// What a program in a container sees.
    fn inside_of(
        &self,
        position: usize,
        process: Option<Identity>,
        terminal: Option<&Path>,
    ) -> Inside {
        let machine = match &self.held {
            Some(held) if held.host.is_none() => held.node.clone(),
            Some(held) => held.name.clone(),
            None => String::new(),
        };
        let Container {
            spec,
            inside: entry,
            ..
        } = &self.containers[position];
        let image = spec.image.as_deref().unwrap_or_default();
        Inside {
            netns: netns_name(&machine),
            hostname: hosts::hostname(&self.pod),
            run: None,
            resolv_conf: Some(self.machines.lab_dir().resolv_conf(&self.uid)),
            mounts: entry.mounts.clone(),
            confined: entry.confined.clone(),
            process,
            path: Some(images::path_of(entry, image)),
            terminal: terminal.map(Path::to_owned),
            ends_with_parent: false,
        }
    }

    /// A command in a container, with its environment.
    fn machine_command(&self, position: usize, inside: &Inside, program: &Path) -> Command {
        let container = &self.containers[position];
        let mut command = self.machines.command(inside, program);
        let has_terminal = container.spec.tty == Some(true);
        inside.set_environment(&mut command, &container.inside.variables, has_terminal);
        command
    }

    pub(super) fn node_addresses(&self) -> Option<[IpAddr; 2]> {
        let name = self.pod.spec.as_ref()?.node_name.as_ref()?;
        let cluster = self.machines.lock();
        let node = cluster.nodes().iter().find(|it| it.name() == name)?;
        Some(
            self.machines
                .in_order([node.ipv4().into(), node.ipv6().into()]),
        )
    }
}
