//! `kubernetes`.

use std::time::Duration;

use crate::reader::{Fault, Reader, Scope};
use crate::syntax::Directive;
use crate::values::{is_reverse, number, one_of, quoted, selector};
use crate::{ApiTls, Kubeconfig, Kubernetes, Pods};

const OPTIONS: [&str; 17] = [
    "endpoint",
    "tls",
    "kubeconfig",
    "apiserver_qps",
    "apiserver_burst",
    "apiserver_max_inflight",
    "namespaces",
    "labels",
    "namespace_labels",
    "pods",
    "endpoint_pod_names",
    "ttl",
    "noendpoints",
    "fallthrough",
    "ignore",
    "multicluster",
    "startup_timeout",
];
const PODS: [(&str, Pods); 3] = [
    ("disabled", Pods::Disabled),
    ("insecure", Pods::Insecure),
    ("verified", Pods::Verified),
];

/// `kubernetes [ZONES...]`
pub(super) fn read(reader: &mut Reader<'_>, plugin: &Directive, scope: &Scope) -> Kubernetes {
    let mut kubernetes = Kubernetes {
        zones: reader.zones(plugin, &plugin.args, scope),
        ttl: 5,
        endpoints: true,
        startup_timeout: Duration::from_secs(5),
        ..Kubernetes::default()
    };
    let place = &plugin.name.place;
    if !kubernetes.zones.is_empty() && kubernetes.zones.iter().all(is_reverse) {
        reader.problem(
            place,
            "kubernetes: a zone that is no reverse zone is missing",
        );
    }
    reader.options(plugin, &OPTIONS, |reader, option| {
        match client(reader, option, scope, &mut kubernetes) {
            Err(Fault::Unknown) => names(reader, option, &mut kubernetes),
            read => read,
        }
    });
    if !kubernetes.namespaces.is_empty() && kubernetes.namespace_labels.is_some() {
        reader.problem(
            place,
            "kubernetes: namespaces and namespace_labels exclude each other",
        );
    }
    if kubernetes.tls.is_some()
        && (kubernetes.endpoint.is_none() || kubernetes.kubeconfig.is_some())
    {
        let why = "kubernetes: tls: has no effect: it goes with endpoint and without kubeconfig";
        reader.note(place, why);
    }
    kubernetes
}

/// Options about the API server and how it is spoken to.
fn client(
    reader: &mut Reader<'_>,
    option: &Directive,
    scope: &Scope,
    kubernetes: &mut Kubernetes,
) -> Result<(), Fault> {
    match option.name.text.as_str() {
        "endpoint" => {
            let words = option.some()?;
            kubernetes.endpoint = Some(words[0].text.clone());
            if words.len() > 1 {
                let why = "kubernetes: endpoint: only the first URL is used";
                reader.note(&option.name.place, why);
            }
        }
        "tls" => match option.texts(3)?.as_slice() {
            [certificate, key, authority] => {
                kubernetes.tls = Some(ApiTls {
                    certificate: scope.path(certificate),
                    key: scope.path(key),
                    authority: scope.path(authority),
                });
            }
            _ => return Err("a certificate, a key and an authority are needed".into()),
        },
        "kubeconfig" => {
            option.some()?;
            let words = option.texts(2)?;
            kubernetes.kubeconfig = Some(Kubeconfig {
                path: scope.path(words[0]),
                context: words.get(1).map(|it| (*it).to_owned()),
            });
        }
        "apiserver_qps" => {
            kubernetes.apiserver_qps = Some(number(option.one()?, 0.0..=1e6)?);
        }
        "apiserver_burst" => {
            kubernetes.apiserver_burst = Some(number(option.one()?, 0..=i32::MAX as u32)?);
        }
        "apiserver_max_inflight" => {
            number(option.one()?, 0..=i32::MAX as u32)?;
            let why = "kubernetes: apiserver_max_inflight: has no effect: there is one watch for each kind of object";
            reader.note(&option.name.place, why);
        }
        "startup_timeout" => kubernetes.startup_timeout = option.duration()?,
        _ => return Err(Fault::Unknown),
    }
    Ok(())
}

/// Options about which names there are, and what they answer.
fn names(
    reader: &mut Reader<'_>,
    option: &Directive,
    kubernetes: &mut Kubernetes,
) -> Result<(), Fault> {
    let labels = || {
        option
            .some()
            .and_then(|_| selector(&option.words().join(" ")))
    };
    match option.name.text.as_str() {
        "namespaces" => {
            let words = option.some()?.iter().map(|it| it.text.clone());
            kubernetes.namespaces.extend(words);
        }
        "labels" => kubernetes.labels = Some(labels()?),
        "namespace_labels" => kubernetes.namespace_labels = Some(labels()?),
        "pods" => kubernetes.pods = one_of(option.one()?, &PODS)?,
        "endpoint_pod_names" => kubernetes.endpoint_pod_names = option.flag()?,
        "ttl" => {
            let words = option.some()?;
            kubernetes.ttl = number(&words[0].text, 0..=3600)?;
            ignored(reader, option);
        }
        "noendpoints" => kubernetes.endpoints = !option.flag()?,
        "fallthrough" => kubernetes.fallthrough = option.fallthrough()?,
        "ignore" => {
            let word = &option.some()?[0].text;
            if word != "empty_service" {
                return Err(format!("{} is not empty_service", quoted(word)).into());
            }
            kubernetes.ignore_empty_service = true;
            ignored(reader, option);
        }
        "multicluster" => {
            return Err("ServiceImports have no names here: leave it out, and its zones".into());
        }
        "zonal" => {
            return Err("names that choose a zone do not exist here: leave it out".into());
        }
        name @ ("resyncperiod" | "upstream") => {
            return Err(format!("CoreDNS removed {name}, leave it out").into());
        }
        _ => return Err(Fault::Unknown),
    }
    Ok(())
}

/// Arguments after the first, which CoreDNS reads over.
fn ignored(reader: &mut Reader<'_>, option: &Directive) {
    if let Some(more) = option.args.get(1) {
        let (name, more) = (&option.name.text, quoted(&more.text));
        let why = format!("kubernetes: {name}: the argument {more} has no effect");
        reader.note(&option.name.place, why);
    }
}
