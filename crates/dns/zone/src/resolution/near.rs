//! What may have been meant with a name that has no records.

use hickory_proto::rr::Name;
use sluice_model::NamespacedName;

use crate::{Missing, Objects, Origin, Settings};

/// What may have been meant, in sentences without full stop.
pub(super) fn near(
    objects: &Objects,
    settings: &Settings,
    name: &Name,
    origin: &Origin<'_>,
) -> Vec<String> {
    match origin {
        Origin::Missing(Missing::Service { .. } | Missing::Namespace(_)) => {
            let meant = service(name, settings);
            let others = meant.iter().flat_map(|it| objects.services_called(it));
            others
                .map(|it| format!("Service {it} exists, in another namespace"))
                .collect()
        }
        Origin::Missing(
            Missing::ReadyEndpoint(service) | Missing::EndpointNamed { service, .. },
        ) => unready(objects, &service.name).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// The Service that a name `[..].service.namespace.svc.zone` means.
fn service(name: &Name, settings: &Settings) -> Option<String> {
    let zone = settings.zones.around(name)?;
    let mut labels = name.iter().rev().skip(zone.iter().len());
    let service = labels.nth(2)?;
    Some(String::from_utf8_lossy(service).to_ascii_lowercase())
}

/// How many endpoints of a Service have no names because they are not ready.
fn unready(objects: &Objects, service: &NamespacedName) -> Option<String> {
    let entry = objects.entry(&service.namespace, &service.name)?;
    let count = |it: &crate::objects::Slice| it.object.endpoints.len() - it.ready().count();
    let unready: usize = entry.slices.iter().map(|it| count(it)).sum();
    (unready > 0).then(|| {
        format!(
            "Service {service}: {unready} not ready, which have names only with publishNotReadyAddresses: true"
        )
    })
}
