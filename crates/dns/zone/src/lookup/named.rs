//! What has a name.

use std::net::IpAddr;
use std::sync::Arc;

use sluice_model::{EndpointPort, Pod, Service};

use crate::objects::{Entry, Ready, Slice};
use crate::origin::{Holder, Missing};

use super::place::{Part, Ports};

/// What a name leads to. `'a` are objects, `'n` is the name.
pub(super) enum Found<'a, 'n> {
    Nothing(Missing<'n>),
    /// Only names below it have records.
    Above,
    Named(Named<'a, 'n>),
}

/// What has a name.
pub(super) enum Named<'a, 'n> {
    /// A Service with a ClusterIP, of which one port at least is asked for.
    ClusterIps(&'a Service, Ports<'n>),
    /// Ready endpoints, at least one.
    Endpoints(Endpoints<'a, 'n>),
    Alias(&'a Service),
    Pods(Pods<'a>),
}

/// Ready endpoints of a Service.
#[derive(Clone, Copy)]
pub(super) struct Endpoints<'a, 'n> {
    pub(super) service: &'a Service,
    pub(super) entry: &'a Entry,
    pub(super) part: Part<'n>,
    pub(super) pod_names: bool,
}

/// The pods that have an address.
pub(super) struct Pods<'a> {
    pub(super) address: IpAddr,
    /// The first of them; `None` when none was looked for.
    pub(super) pod: Option<&'a Pod>,
    pub(super) count: usize,
}

impl<'a> Named<'a, '_> {
    pub(super) fn holder(&self) -> Holder<'a> {
        match self {
            Self::ClusterIps(service, _) | Self::Alias(service) => Holder::Service(service),
            Self::Endpoints(it) => it.holder(),
            Self::Pods(it) => it
                .pod
                .map_or(Holder::AddressInName(it.address), Holder::Pod),
        }
    }
}

impl<'a, 'n> Endpoints<'a, 'n> {
    /// The slices that have the ports, with the endpoints asked for. Some may have none.
    pub(super) fn slices(
        self,
    ) -> impl Iterator<Item = (&'a Slice, impl Iterator<Item = Ready<'a>> + use<'a, 'n>)> {
        let (ports, pod_names) = (self.ports(), self.pod_names);
        let name = match self.part {
            Part::Endpoint(name) => Some(name),
            Part::Ports(_) => None,
        };
        let slices = self.entry.slices.iter().map(AsRef::as_ref);
        slices
            .filter(move |it| slice_has(it, ports))
            .map(move |slice: &'a Slice| {
                let named = name.map(|it| slice.named(it, pod_names));
                let all = name.is_none().then(|| slice.ready());
                (
                    slice,
                    named.into_iter().flatten().chain(all.into_iter().flatten()),
                )
            })
    }

    pub(super) fn addresses(self) -> impl Iterator<Item = IpAddr> + use<'a, 'n> {
        self.slices()
            .flat_map(|(_, endpoints)| endpoints)
            .map(|it| it.address)
    }

    /// How many there can be: no fewer than there are, unless some have several addresses.
    pub(super) fn at_most(&self) -> usize {
        let of = |it: &Arc<Slice>| it.object.endpoints.len();
        self.entry.slices.iter().map(of).sum()
    }

    pub(super) fn ports(&self) -> Ports<'n> {
        match self.part {
            Part::Endpoint(_) => Ports::default(),
            Part::Ports(ports) => ports,
        }
    }

    fn holder(&self) -> Holder<'a> {
        let first = || {
            let mut slices = self.slices();
            slices.find_map(|(slice, mut it)| Some((&*slice.object, it.next()?.endpoint)))
        };
        match self.part {
            Part::Endpoint(_) => first().map_or(Holder::Service(self.service), |(slice, it)| {
                Holder::Endpoint(slice, it)
            }),
            Part::Ports(_) => Holder::Service(self.service),
        }
    }
}

/// Whether a slice can have what is asked for. One without ports is there for whoever asks for no certain port.
fn slice_has(slice: &Slice, ports: Ports<'_>) -> bool {
    let mut own = slice.object.ports.iter();
    let has = |it: &EndpointPort| ports.has(&it.name, it.protocol.as_str());
    slice.has_ready() && (ports.is_all() || own.any(has))
}
