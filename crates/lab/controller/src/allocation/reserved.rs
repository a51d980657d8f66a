//! Addresses that IPAddress objects reserve for something other than a Service of ours (KEP-1880).

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::networking::v1::{IPAddress, ParentReference};
use sluice_model::NamespacedName;

/// The label with the writer of an IPAddress.
pub(super) const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";

/// The value of that label for Kubernetes' allocators and for ours.
pub(super) const ALLOCATOR: &str = "ipallocator.k8s.io";

/// Whether an allocator wrote an IPAddress for a Service: such an object reserves nothing by itself.
#[must_use]
pub fn is_allocated(address: &IPAddress) -> bool {
    let labels = address.metadata.labels.as_ref();
    let manager = labels.and_then(|it| it.get(MANAGED_BY));
    manager.is_some_and(|it| it == ALLOCATOR)
}

/// Reserved addresses, and what for.
#[derive(Clone, Debug, Default)]
pub(super) struct Reserved(BTreeMap<IpAddr, ParentReference>);

impl Reserved {
    /// The addresses of IPAddress objects that no allocator wrote. A name that is no address is ignored.
    pub(super) fn new<'a>(addresses: impl IntoIterator<Item = &'a IPAddress>) -> Self {
        let others = addresses.into_iter().filter(|it| !is_allocated(it));
        let kept = others.filter_map(|it| {
            let ip = it.metadata.name.as_deref()?.parse().ok()?;
            Some((ip, it.spec.parent_ref.clone()))
        });
        Self(kept.collect())
    }

    /// Why an address is reserved against a Service; `None` when it is not.
    pub(super) fn against(&self, service: &NamespacedName, ip: IpAddr) -> Option<String> {
        let parent = self.0.get(&ip)?;
        let is_own = parent.resource == "services"
            && parent.name == *service.name
            && parent.namespace.as_deref() == Some(&*service.namespace);
        (!is_own).then(|| format!("{ip} is kept for {} by an IPAddress", words(parent)))
    }

    pub(super) fn ips(&self) -> impl Iterator<Item = IpAddr> {
        self.0.keys().copied()
    }
}

/// `gateways infra/edge`.
fn words(parent: &ParentReference) -> String {
    let namespace = parent.namespace.as_deref().filter(|it| !it.is_empty());
    match namespace {
        Some(namespace) => format!("{} {namespace}/{}", parent.resource, parent.name),
        None => format!("{} {}", parent.resource, parent.name),
    }
}
