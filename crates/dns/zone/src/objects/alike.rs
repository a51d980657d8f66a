//! Whether two versions of an object give the same answers.

use sluice_model::{EndpointSlice, Pod, Service};

pub(super) fn services(a: Option<&Service>, b: Option<&Service>) -> bool {
    both(a, b, |a, b| {
        let port = |i: usize| {
            let (a, b) = (&a.ports[i], &b.ports[i]);
            a.name == b.name && a.protocol == b.protocol && a.port == b.port
        };
        a.kind == b.kind
            && a.cluster_ips == b.cluster_ips
            && a.external_name == b.external_name
            && a.ports.len() == b.ports.len()
            && (0..a.ports.len()).all(port)
    })
}

pub(super) fn slices(a: Option<&EndpointSlice>, b: Option<&EndpointSlice>) -> bool {
    /// Addresses, hostname and pod of each ready endpoint.
    fn ready(slice: &EndpointSlice) -> impl Iterator<Item = impl PartialEq> {
        let ready = slice.endpoints.iter().filter(|it| it.conditions.ready);
        ready.map(|it| (it.address, &it.other_addresses, &it.hostname, &it.target))
    }
    both(a, b, |a, b| {
        a.service == b.service && a.ports == b.ports && ready(a).eq(ready(b))
    })
}

pub(super) fn pods(a: Option<&Pod>, b: Option<&Pod>) -> bool {
    both(a, b, |a, b| a.addresses == b.addresses)
}

fn both<T>(a: Option<&T>, b: Option<&T>, alike: impl FnOnce(&T, &T) -> bool) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => alike(a, b),
        (None, None) => true,
        _ => false,
    }
}
