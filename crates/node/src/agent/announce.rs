//! Tells the users of Services what the node cannot do for them.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use sluice_model::Announcement;
use sluice_model::{NamespacedName, ObjectKey};
use sluice_plan::issue::Issue;
use sluice_plan::{PortKey, Role};
use sluice_reconcile::Refusal;

use crate::status::ProblemStatus;

/// What is announced: of which Service, and why.
type Key = (NamespacedName, &'static str);

/// What has been announced and has not gone since.
#[derive(Debug, Default)]
pub(super) struct Announced(BTreeMap<Key, String>);

impl Announced {
    /// Announces what is new or different. A Service with several problems of a kind is told the
    /// first of them and how many there are.
    pub(super) fn update(
        &mut self,
        issues: &[Issue],
        refusals: &BTreeMap<PortKey, Refusal>,
        problems: &[ProblemStatus],
        announce: &Sender<Announcement>,
    ) {
        let issues = issues.iter().filter_map(|issue| {
            let key = (issue.service()?.clone(), reason(issue)?);
            Some((key, issue.to_string()))
        });
        let refused = refusals.iter().map(|(port, Refusal { reason, .. })| {
            let PortKey { name, family } = port;
            let protocol = name.protocol;
            let note = format!("Service {name} ({family}, {protocol}): {reason}");
            ((name.service.clone(), "ServiceRefused"), note)
        });
        let unusable = problems.iter().filter_map(|it| {
            let key = (service_of(&it.origin)?, "ServiceInvalid");
            Some((key, it.to_string()))
        });
        let mut grouped: BTreeMap<Key, (String, usize)> = BTreeMap::new();
        for (key, note) in issues.chain(refused).chain(unusable) {
            let (_, more) = grouped.entry(key).or_insert((note, 0));
            *more += 1;
        }
        let notes = grouped.into_iter().map(|(key, (note, count))| {
            let note = match count {
                1 => note,
                _ => format!("{note} (and {} more)", count - 1),
            };
            (key, note)
        });
        let notes: BTreeMap<Key, String> = notes.collect();
        for ((service, reason), note) in &notes {
            if self.0.get(&(service.clone(), *reason)) == Some(note) {
                continue;
            }
            let announcement = Announcement {
                about: ObjectKey::Service(service.clone()),
                is_warning: true,
                reason,
                action: "Sync",
                note: note.clone(),
            };
            // Whoever passes announcements on has gone; log and status have it.
            let _ = announce.send(announcement);
        }
        self.0 = notes;
    }
}

/// The Service that a source could not use: its origin is the object, as [`ObjectKey`] displays it.
fn service_of(origin: &str) -> Option<NamespacedName> {
    let (namespace, name) = origin.strip_prefix("Service ")?.split_once('/')?;
    Some(NamespacedName::new(namespace, name))
}

/// A word for what the Service's users should be told; `None` when that is nothing of theirs, or
/// passes as soon as another controller has done its work.
fn reason(issue: &Issue) -> Option<&'static str> {
    match issue {
        Issue::FrontendTaken { .. } => Some("FrontendConflict"),
        // Load balancers that hand out the addresses of nodes do so on purpose.
        Issue::Shadows {
            role: Role::LoadBalancer,
            refused: false,
            ..
        } => None,
        Issue::ClusterIpShared { .. }
        | Issue::ExternalIpNotAllowed { .. }
        | Issue::Shadows { .. }
        | Issue::TooLarge { .. } => Some(issue.reason()),
        Issue::NoClusterIp { .. } | Issue::NoNode { .. } => None,
    }
}
