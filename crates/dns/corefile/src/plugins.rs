//! Plugins: arguments and options of each.

mod acl;
mod cache;
mod forward;
mod hosts;
mod kubernetes;
mod log;
mod observe;
mod rewrite;
mod small;
mod template;
mod text;

use hickory_proto::rr::Name;

use crate::order::{NO_EFFECT, NOT_HERE, ORDER};
use crate::reader::{Reader, Scope};
use crate::syntax::{Directive, RawBlock};
use crate::values::{quoted, suggestion};
use crate::{Autopath, Plugins, SearchPath};

/// How a plugin that occurs several times in a block is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeated {
    /// It is an error, as in CoreDNS.
    Refused,
    /// CoreDNS reads the first.
    FirstCounts,
    /// CoreDNS reads the last.
    LastCounts,
    /// All of them are used.
    All,
}

fn repeated(plugin: &str) -> Repeated {
    match plugin {
        "errors" | "ready" | "kubernetes" | "hosts" | "cache" | "loop" | "prometheus" | "nsid" => {
            Repeated::Refused
        }
        "reload" | "bufsize" | "any" | "minimal" | "whoami" | "chaos" => Repeated::FirstCounts,
        "root" | "health" | "loadbalance" | "autopath" => Repeated::LastCounts,
        _ => Repeated::All,
    }
}

/// Reads the plugins of a block whose keys have these zones.
pub(crate) fn read(reader: &mut Reader<'_>, block: &RawBlock, zones: Vec<Name>) -> Plugins {
    let root = block.directives.iter().rfind(|it| it.name.text == "root");
    let root = root.and_then(|it| it.args.first());
    let scope = Scope {
        zones,
        root: root.map(|it| it.text.clone().into()),
    };
    let mut plugins = Plugins::default();
    for (at, directive) in block.directives.iter().enumerate() {
        let (name, place) = (directive.name.text.as_str(), &directive.name.place);
        let before = block.directives[..at].iter().any(|it| it.name.text == name);
        match repeated(name) {
            Repeated::Refused if before => {
                reader.problem(
                    place,
                    format!("{name}: may stand only once in a server block"),
                );
                continue;
            }
            Repeated::FirstCounts if before => {
                reader.note(
                    place,
                    format!("{name}: stands twice in a server block, the first counts"),
                );
                continue;
            }
            Repeated::LastCounts if before => {
                reader.note(
                    place,
                    format!("{name}: stands twice in a server block, the last counts"),
                );
            }
            _ => {}
        }
        plugin(reader, directive, &scope, &mut plugins);
    }
    let autopath = block
        .directives
        .iter()
        .rfind(|it| it.name.text == "autopath");
    if let (Some(directive), Some(Autopath { search, .. }), None) =
        (autopath, &plugins.autopath, &plugins.kubernetes)
        && *search == SearchPath::Kubernetes
    {
        let why = "autopath: has no effect without the plugin kubernetes in the same server block";
        reader.note(&directive.name.place, why);
    }
    plugins
}

/// Reads one plugin.
fn plugin(reader: &mut Reader<'_>, directive: &Directive, scope: &Scope, plugins: &mut Plugins) {
    match directive.name.text.as_str() {
        "root" => small::root(reader, directive),
        "reload" => plugins.reload = small::reload(reader, directive),
        "nsid" => plugins.nsid = Some(small::nsid(reader, directive)),
        "bufsize" => plugins.bufsize = Some(small::bufsize(reader, directive)),
        "bind" => small::bind(reader, directive, &mut plugins.bind),
        "ready" => plugins.ready = Some(observe::ready(reader, directive)),
        "health" => plugins.health = Some(observe::health(reader, directive)),
        "prometheus" => plugins.prometheus = Some(observe::prometheus(reader, directive)),
        "errors" => plugins.errors = Some(observe::errors(reader, directive)),
        "log" => plugins.log.extend(log::read(reader, directive)),
        "acl" => plugins.acl.extend(acl::read(reader, directive, scope)),
        "any" => plugins.any = small::flag(reader, directive),
        "chaos" => plugins.chaos = Some(small::chaos(reader, directive)),
        "loadbalance" => plugins.loadbalance = Some(small::loadbalance(reader, directive)),
        "cache" => plugins.cache = Some(cache::read(reader, directive, scope)),
        "rewrite" => plugins.rewrite.extend(rewrite::read(reader, directive)),
        "autopath" => plugins.autopath = small::autopath(reader, directive, scope),
        "minimal" => plugins.minimal = small::flag(reader, directive),
        "template" => plugins
            .template
            .extend(template::read(reader, directive, scope)),
        "hosts" => plugins.hosts = Some(hosts::read(reader, directive, scope)),
        "kubernetes" => plugins.kubernetes = Some(kubernetes::read(reader, directive, scope)),
        "loop" => plugins.loop_detection = small::flag(reader, directive),
        "forward" => plugins
            .forward
            .extend(forward::read(reader, directive, scope)),
        "whoami" => plugins.whoami = small::flag(reader, directive),
        _ => other(reader, directive),
    }
}

/// A plugin that is not here.
fn other(reader: &mut Reader<'_>, directive: &Directive) {
    let (name, place) = (directive.name.text.as_str(), &directive.name.place);
    if let Some((_, why)) = NO_EFFECT.iter().find(|(it, _)| *it == name) {
        return reader.note(place, format!("{name}: has no effect: {why}"));
    }
    if NOT_HERE.contains(&name) {
        return reader.problem(
            place,
            format!("the plugin {name} of CoreDNS is not supported"),
        );
    }
    let similar = match name {
        "proxy" => ": CoreDNS 1.5 replaced it by \"forward\"".to_owned(),
        _ => {
            let no_effect = NO_EFFECT.iter().map(|(it, _)| *it);
            suggestion(
                name,
                ORDER
                    .into_iter()
                    .chain(no_effect)
                    .chain(NOT_HERE)
                    .chain(["import"]),
            )
        }
    };
    reader.problem(place, format!("unknown plugin {}{similar}", quoted(name)));
}
