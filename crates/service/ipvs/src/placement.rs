//! What rendering remembers about a service port: its mark, and the schedulers that the kernel
//! lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use sluice_plan::{Frontend, PortPlan, Route, Verdict};

use crate::object::{Key, Object, Triple};
use crate::set::{Entry, SetName};

/// State of a service port from one rendering to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The mark of its near clients; `None` when they are served like all others.
    pub(crate) mark: Option<u32>,
    /// Schedulers that its virtual servers would have if the kernel had them.
    pub(crate) lacking: BTreeSet<Arc<str>>,
}

/// Whether near clients of this port have a virtual server of their own: under policy Local, wherever
/// its endpoints are, since deleting a virtual server ends its connections. Without any endpoint the plan
/// does not show the policy, and a virtual server that they `had` stays.
pub(crate) fn has_near_clients(port: &PortPlan, had: bool) -> bool {
    port.frontends.iter().any(|it| match it.route {
        Route::ExternalLocal { .. } => true,
        Route::External(Verdict::Reject) => had,
        Route::External(_) | Route::Internal(_) => false,
    })
}

/// The mark that the kernel's sets have for a frontend of this port.
pub(crate) fn recover(port: &PortPlan, observed: &BTreeMap<Key, Object>) -> Placement {
    if !has_near_clients(port, true) {
        return Placement::default();
    }
    let is_ours = |set: SetName, triple: Triple| {
        let mut frontends = port.frontends.iter().map(|it| it.frontend);
        frontends.any(|it| {
            let same = it.port() == triple.port && it.protocol() == triple.protocol;
            same && match it {
                Frontend::Address { addr, .. } => set == SetName::NearClients && addr == triple.ip,
                Frontend::NodePort { .. } => set == SetName::NearNodePorts,
            }
        })
    };
    let family = port.key.family;
    // The sets with marks are the last ones, and this is less than every member of theirs.
    let least = Entry::Address(Ipv4Addr::UNSPECIFIED.into());
    let first = Key::Member(family, SetName::NearClients, least);
    let marked = observed.range(first..);
    let mut marked = marked.map_while(|(key, object)| match (key, object) {
        (Key::Member(of, set, entry), Object::Member(mark)) if *of == family && set.leads() => {
            Some((*set, Triple::of(entry), *mark))
        }
        _ => None,
    });
    let mark = marked.find_map(|(set, triple, mark)| match triple {
        Some(triple) if is_ours(set, triple) => mark,
        _ => None,
    });
    Placement {
        mark,
        ..Placement::default()
    }
}
