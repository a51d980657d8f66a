//! Packs endpoints into slices so that few slices change (`reconcileByPortMapping`).

use std::cmp::Reverse;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::MAX_ENDPOINTS;
use super::desired::{Endpoints, Identity};
use crate::meta;

/// The writes to the slices with one set of ports.
#[derive(Debug, Default)]
pub(crate) struct Packing {
    /// New slices, without a name.
    pub(crate) create: Vec<EndpointSlice>,
    pub(crate) update: Vec<EndpointSlice>,
    pub(crate) delete: Vec<EndpointSlice>,
}

impl Packing {
    pub(crate) fn add(&mut self, other: Self) {
        self.create.extend(other.create);
        self.update.extend(other.update);
        self.delete.extend(other.delete);
    }

    /// Turns slices to delete into slices to create: watchers see one change in place of two.
    pub(crate) fn recycle(&mut self, service: &Service) {
        let (mine, others) = std::mem::take(&mut self.delete)
            .into_iter()
            .partition(|it| meta::is_owned_by(&it.metadata, service));
        self.delete = others;
        let mine: Vec<EndpointSlice> = mine;
        for old in mine {
            let Some(mut slice) = self.create.pop() else {
                self.delete.push(old);
                continue;
            };
            slice.metadata = ObjectMeta {
                labels: slice.metadata.labels,
                ..old.metadata
            };
            self.update.push(slice);
        }
    }
}

fn of(slice: &EndpointSlice) -> &[Endpoint] {
    slice.endpoints.as_deref().unwrap_or_default()
}

/// Endpoints stay in their slices. New endpoints go to slices that change anyway, then to the fullest slice that has
/// room for the rest, and otherwise to new slices made from `empty`.
pub(crate) fn pack(
    existing: &[&EndpointSlice],
    mut endpoints: Endpoints,
    empty: &EndpointSlice,
) -> Packing {
    let mut packing = Packing::default();
    let mut unchanged = Vec::new();
    for slice in existing {
        let kept = of(slice)
            .iter()
            .filter_map(|it| endpoints.remove(&Identity::of(it)));
        let kept: Vec<Endpoint> = kept.collect();
        let is_same = kept.len() == of(slice).len()
            && kept
                .iter()
                .zip(of(slice))
                .all(|(new, old)| is_same(new, old));
        if kept.is_empty() && !is_same {
            packing.delete.push((*slice).clone());
        } else if !is_same || slice.metadata.labels != empty.metadata.labels {
            let mut slice = (*slice).clone();
            slice.endpoints = Some(kept);
            slice.metadata.labels.clone_from(&empty.metadata.labels);
            packing.update.push(slice);
        } else {
            unchanged.push(*slice);
        }
    }
    let mut rest: Vec<Endpoint> = endpoints.into_values().rev().collect();
    packing.update.sort_by_key(|it| Reverse(of(it).len()));
    packing.update.iter_mut().for_each(|it| fill(it, &mut rest));
    let room = |it: &&EndpointSlice| MAX_ENDPOINTS - of(it).len().min(MAX_ENDPOINTS);
    while !rest.is_empty() {
        // Of several slices that are equally full, the first by name.
        let fitting = unchanged
            .iter()
            .copied()
            .filter(|it| room(it) >= rest.len());
        let fitting = fitting.filter(|_| rest.len() < MAX_ENDPOINTS);
        match fitting.min_by_key(|it| (room(it), it.metadata.name.clone())) {
            Some(slice) => {
                let mut slice = slice.clone();
                fill(&mut slice, &mut rest);
                packing.update.push(slice);
            }
            None => {
                let mut slice = empty.clone();
                fill(&mut slice, &mut rest);
                packing.create.push(slice);
            }
        }
    }
    packing
}

/// Moves endpoints into a slice until it is full.
fn fill(slice: &mut EndpointSlice, rest: &mut Vec<Endpoint>) {
    let endpoints = slice.endpoints.get_or_insert_default();
    while endpoints.len() < MAX_ENDPOINTS {
        let Some(endpoint) = rest.pop() else { return };
        endpoints.push(endpoint);
    }
}

/// Whether an endpoint is unchanged; hints are compared separately (`EndpointsEqualBeyondHash`).
fn is_same(new: &Endpoint, old: &Endpoint) -> bool {
    let old = Endpoint {
        hints: new.hints.clone(),
        ..old.clone()
    };
    *new == old
}
