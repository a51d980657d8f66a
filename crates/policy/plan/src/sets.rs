//! The sets that rules ask, each once, and the pods in them.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use sluice_model::Pod;

use crate::id::SetId;
use crate::peer::{Namespaces, PodSelection};
use crate::pieces::Pieces;
use crate::plan::{Claims, Content, Member, PeerSet, Piece};
use crate::pods::Pods;

/// A pod's entry in a set.
type Entry = (SetId, Member);

/// Every set that some rule asks.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    /// With the number of rules that ask it.
    known: HashMap<SetId, (PeerSet, usize)>,
    /// Those with pods, by the one namespace that these are in; `None`: in any.
    by_namespace: HashMap<Option<Arc<str>>, BTreeSet<SetId>>,
    /// The entries of each address.
    entries: HashMap<IpAddr, BTreeSet<Entry>>,
}

impl Sets {
    /// One more rule asks this set.
    pub(crate) fn acquire(&mut self, set: &PeerSet, pods: &Pods, pieces: &mut Pieces) {
        let id = set.id();
        if let Some((_, users)) = self.known.get_mut(&id) {
            *users += 1;
            return;
        }
        pieces.put(Content::Set(id, set.clone()));
        self.known.insert(id, (set.clone(), 1));
        let Some(selection) = selection(set) else {
            return;
        };
        let namespace = namespace(selection);
        let addresses: Vec<IpAddr> = match &namespace {
            Some(namespace) => pods.in_namespace(namespace).copied().collect(),
            None => pods.all().copied().collect(),
        };
        self.by_namespace.entry(namespace).or_default().insert(id);
        for address in addresses {
            for member in members(set, &pods.at(&address), pods, address) {
                self.entries
                    .entry(address)
                    .or_default()
                    .insert((id, member));
                pieces.put(Content::Member(id, member));
            }
        }
    }

    /// One rule less asks this set.
    pub(crate) fn release(&mut self, id: SetId, pieces: &mut Pieces) {
        let Some((set, users)) = self.known.get_mut(&id) else {
            return;
        };
        *users -= 1;
        if *users > 0 {
            return;
        }
        if let Some(selection) = selection(set) {
            let namespace = namespace(selection);
            if let Some(ids) = self.by_namespace.get_mut(&namespace) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.by_namespace.remove(&namespace);
                }
            }
        }
        self.known.remove(&id);
        for member in pieces.members(id) {
            pieces.remove(Piece::Member(id, member));
            self.forget(member.address(), &(id, member));
        }
        pieces.remove(Piece::Set(id));
    }

    /// The pod of an address may be another one, or have changed.
    pub(crate) fn refresh(&mut self, address: IpAddr, pods: &Pods, pieces: &mut Pieces) {
        let wanted = self.wanted(address, pods);
        let held = self.entries.get(&address).cloned().unwrap_or_default();
        for entry in held.difference(&wanted) {
            pieces.remove(Piece::Member(entry.0, entry.1));
            self.forget(address, entry);
        }
        for entry in wanted.difference(&held) {
            pieces.put(Content::Member(entry.0, entry.1));
            self.entries.entry(address).or_default().insert(*entry);
        }
    }

    fn wanted(&self, address: IpAddr, pods: &Pods) -> BTreeSet<Entry> {
        let holders = pods.at(&address);
        let namespaces = holders.iter().map(|it| Some(it.name.namespace.clone()));
        let scopes: BTreeSet<_> = namespaces.chain([None]).collect();
        let ids = scopes.iter().filter_map(|it| self.by_namespace.get(it));
        let entries = |id: &SetId| {
            let (set, _) = &self.known[id];
            let members = members(set, &holders, pods, address).into_iter();
            members.map(|it| (*id, it)).collect::<Vec<_>>()
        };
        ids.flatten().flat_map(entries).collect()
    }

    fn forget(&mut self, address: IpAddr, entry: &Entry) {
        if let Some(entries) = self.entries.get_mut(&address) {
            entries.remove(entry);
            if entries.is_empty() {
                self.entries.remove(&address);
            }
        }
    }
}

/// The pods of a set that has pods.
fn selection(set: &PeerSet) -> Option<&PodSelection> {
    match set {
        PeerSet::Pods(pods, _) | PeerSet::NamedPort { pods, .. } => Some(pods),
        PeerSet::Blocks(_) | PeerSet::Ports(_) => None,
    }
}

fn namespace(selection: &PodSelection) -> Option<Arc<str>> {
    match &selection.namespaces {
        Namespaces::Named(name) => Some(name.clone()),
        Namespaces::Selected(_) => None,
    }
}

/// The entries of an address in a set.
fn members(set: &PeerSet, holders: &[&Arc<Pod>], pods: &Pods, address: IpAddr) -> BTreeSet<Member> {
    let each: Vec<_> = holders
        .iter()
        .map(|pod| member(set, pod, pods, address))
        .collect();
    let (PeerSet::Pods(_, claims) | PeerSet::NamedPort { claims, .. }) = set else {
        return BTreeSet::new();
    };
    let agree = each.iter().all(|it| *it == each[0]);
    if *claims == Claims::Any || agree {
        each.into_iter().flatten().collect()
    } else {
        BTreeSet::new()
    }
}

/// The entry of a pod's address in a set.
fn member(set: &PeerSet, pod: &Pod, pods: &Pods, address: IpAddr) -> Option<Member> {
    let labels = pods.labels(&pod.name.namespace);
    if !selection(set)?.selects(pod, &labels) {
        return None;
    }
    match set {
        PeerSet::NamedPort { name, protocol, .. } => {
            let port = pod.ports.number(name, *protocol)?;
            Some(Member::Port(address, port.get()))
        }
        _ => Some(Member::Address(address)),
    }
}
