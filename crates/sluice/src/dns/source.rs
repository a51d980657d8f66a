//! Where the objects come from: what the `kubernetes` plugins of a Corefile ask for.

mod following;

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::bail;
use hickory_proto::rr::Name;
use jiff::Timestamp;
use sluice_corefile::{Corefile, Kubernetes, Location, Pods as PodNames, SearchPath as Autopath};
use sluice_dns::{ClusterMetrics, SearchPaths};
use sluice_source::apiserver::{self, Access, Certificates};
use sluice_zone::{Event, NamespaceRule, Objects, SearchPath};
use tracing::info;

use super::resolver;
use crate::cli::{NodeArgs, ServeArgs};
use crate::planned;
use crate::wanted::{Names, Permission, Pods};
use sluice_config::Invalid;

pub(super) use following::{Following, Told};

/// The objects that a Corefile needs, and their source.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Demand {
    from: From,
    wanted: Names,
    /// The first zone of a `kubernetes` plugin below which Services have names.
    zone: Option<Name>,
    completes_names: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum From {
    /// No block has the plugin.
    Nowhere,
    Folder(PathBuf),
    ApiServer(Box<Access>),
}

impl Demand {
    /// The demand of a Corefile; flags override it.
    ///
    /// # Errors
    ///
    /// Blocks that ask for different API servers, or for differently labelled objects.
    pub(super) fn of(corefile: &Corefile, args: &ServeArgs) -> anyhow::Result<Self> {
        let plugins = corefile.blocks.iter();
        let plugins = plugins.filter_map(|it| Some((&it.place, it.plugins.kubernetes.as_ref()?)));
        let plugins: Vec<(&Location, &Kubernetes)> = plugins.collect();
        check_alike(&plugins)?;
        let first = plugins.first().map(|it| it.1);
        let autopaths = corefile
            .blocks
            .iter()
            .filter_map(|it| it.plugins.autopath.as_ref());
        let completes_names = autopaths
            .map(|it| &it.search)
            .any(|it| *it == Autopath::Kubernetes);
        let verified = plugins.iter().any(|it| it.1.pods == PodNames::Verified);
        let from = match (first, &args.manifests) {
            (None, _) => From::Nowhere,
            (Some(_), Some(folder)) => From::Folder(folder.clone()),
            (Some(plugin), None) => From::ApiServer(Box::new(access(plugin, args)?)),
        };
        let zones = first.into_iter().flat_map(|it| &it.zones);
        let arpa = Name::from_ascii("arpa.").expect("arpa. is a name");
        let wanted = Names {
            pods: if verified || completes_names {
                Pods::All
            } else {
                Pods::None
            },
            labels: first.and_then(|it| it.labels.clone()).unwrap_or_default(),
            namespace_labels: first
                .and_then(|it| it.namespace_labels.clone())
                .unwrap_or_default(),
            only: match from {
                // A folder is read whole.
                From::Folder(_) => Vec::new(),
                From::Nowhere | From::ApiServer(_) => namespaces(&plugins),
            },
            permission: Permission::Required,
        };
        if matches!(from, From::Folder(_))
            && (!wanted.labels.is_empty() || !wanted.namespace_labels.is_empty())
        {
            bail!(
                "labels and namespace_labels of the kubernetes plugin are the API server's: they cannot go with --manifests"
            );
        }
        Ok(Self {
            from,
            wanted,
            zone: zones.into_iter().find(|it| !arpa.zone_of(it)).cloned(),
            completes_names,
        })
    }

    /// Tells which namespaces exist: manifests often have no Namespace objects.
    pub(super) fn namespace_rule(&self) -> NamespaceRule {
        match self.from {
            From::Folder(_) => NamespaceRule::DeclaredOrImplied,
            From::Nowhere | From::ApiServer(_) => NamespaceRule::Declared,
        }
    }

    /// Whether a running server can go over to these objects: what completes names is made at the start.
    pub(super) fn completes_as(&self, other: &Self) -> bool {
        let paths = |it: &Self| it.completes_names.then(|| it.zone.clone());
        paths(self) == paths(other)
    }

    /// The search paths of pods, for `autopath @kubernetes`.
    pub(super) fn search_paths(
        &self,
        objects: &Arc<RwLock<Objects>>,
    ) -> Option<Arc<dyn SearchPaths>> {
        let zone = self.zone.clone().filter(|_| self.completes_names)?;
        Some(Arc::new(PathsOfPods {
            objects: objects.clone(),
            zone,
            of_node: resolver::search_path(),
        }))
    }
}

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from {
            From::Nowhere => f.write_str("none"),
            From::Folder(folder) => write!(f, "{}", folder.display()),
            From::ApiServer(access) => match (&access.kubeconfig, &access.master) {
                (_, Some(url)) => write!(f, "API server {url}"),
                (Some(path), None) => write!(f, "API server of {}", path.display()),
                (None, None) => f.write_str("API server of this pod"),
            },
        }
    }
}

/// All blocks share one source, so what decides over it must be the same in all.
fn check_alike(plugins: &[(&Location, &Kubernetes)]) -> anyhow::Result<()> {
    let source = |it: &Kubernetes| {
        (
            it.endpoint.clone(),
            it.tls.clone(),
            it.kubeconfig.clone(),
            it.labels.clone(),
            it.namespace_labels.clone(),
        )
    };
    let Some(((place, first), others)) = plugins.split_first() else {
        return Ok(());
    };
    let different = others.iter().filter(|it| source(it.1) != source(first));
    let problem = |it: &(&Location, &Kubernetes)| {
        format!(
            "{}: kubernetes: endpoint, tls, kubeconfig, labels and namespace_labels must be those of {place}: there is one \
             source of objects",
            it.0
        )
    };
    Ok(Invalid::check(different.map(problem).collect())?)
}

/// The namespaces of all blocks together; empty for all of the cluster.
fn namespaces(plugins: &[(&Location, &Kubernetes)]) -> Vec<Arc<str>> {
    if plugins.iter().any(|it| it.1.namespaces.is_empty()) {
        return Vec::new();
    }
    let names = plugins.iter().flat_map(|it| &it.1.namespaces);
    let names: BTreeSet<&str> = names.map(String::as_str).collect();
    names.into_iter().map(Arc::from).collect()
}

/// The way to the API server: the flag, the Corefile, or the pod's service account.
fn access(plugin: &Kubernetes, args: &ServeArgs) -> anyhow::Result<Access> {
    let of_corefile = plugin
        .kubeconfig
        .as_ref()
        .filter(|_| args.kubeconfig.is_none());
    let tls = plugin.tls.as_ref();
    let access = Access {
        kubeconfig: args
            .kubeconfig
            .clone()
            .or_else(|| Some(of_corefile?.path.clone())),
        context: of_corefile.and_then(|it| it.context.clone()),
        master: plugin
            .endpoint
            .clone()
            .filter(|_| args.kubeconfig.is_none()),
        certificates: tls.map(|it| Certificates {
            certificate: it.certificate.clone(),
            key: it.key.clone(),
            authority: it.authority.clone(),
        }),
        qps: plugin.apiserver_qps.unwrap_or_default(),
        burst: plugin
            .apiserver_burst
            .and_then(|it| i32::try_from(it).ok())
            .unwrap_or_default(),
        ..Access::default()
    };
    if access.kubeconfig.is_none() && access.master.is_none() && !apiserver::is_in_pod() {
        bail!(Invalid {
            problems: vec![
                "no source of Services: give --kubeconfig PATH or --manifests DIR (in a pod none is needed: this \
                 process runs in none)"
                    .to_owned()
            ],
            exit_code: 2,
        });
    }
    apiserver::check(&access)?;
    Ok(access)
}

/// Applies the events of a source to the objects.
pub(crate) fn absorb(objects: &RwLock<Objects>, events: &[Event], metrics: &ClusterMetrics) {
    let now = Timestamp::now().as_millisecond();
    if events.contains(&Event::SYNCED) {
        info!("every object is known");
    }
    // Nothing panics with the lock held.
    let mut objects = objects.write().unwrap_or_else(PoisonError::into_inner);
    for it in events {
        metrics.absorb(&mut objects, it, now);
    }
}

/// The objects of a folder or an API server, for one question.
pub(super) fn read_once(args: &NodeArgs) -> anyhow::Result<Objects> {
    let mut objects = Objects::new(match args.manifests {
        Some(_) => NamespaceRule::DeclaredOrImplied,
        None => NamespaceRule::Declared,
    });
    let wanted = Names {
        pods: Pods::All,
        ..Names::default()
    };
    planned::read_names(args, &wanted, &mut objects)?;
    Ok(objects)
}

/// The search paths of pods by their address.
pub(crate) struct PathsOfPods {
    pub(crate) objects: Arc<RwLock<Objects>>,
    pub(crate) zone: Name,
    /// What kubelet adds to the cluster's: the search path of the node.
    pub(crate) of_node: Vec<Name>,
}

impl SearchPaths for PathsOfPods {
    /// `None` for an address that several pods have, or none.
    fn search_path(&self, client: IpAddr) -> Option<Arc<[Name]>> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        let mut pods = objects.pods_at(client);
        let (pod, None) = (pods.next()?, pods.next()) else {
            return None;
        };
        let path = SearchPath::of_pod(pod, &self.zone, &self.of_node)?;
        Some(path.domains.into())
    }
}
