//! The pieces of a plan, and what changed of them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use crate::id::SetId;
use crate::plan::{Content, Member, Piece, Plan};

/// The plan, and which of its pieces changed.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    pub(crate) plan: Plan,
    pub(crate) changed: BTreeSet<Piece>,
}

impl Pieces {
    /// The plan has this piece, and no other of its identity.
    pub(crate) fn put(&mut self, content: Content) {
        let piece = content.piece();
        if self.plan.get(&piece).is_some_and(|it| **it == content) {
            return;
        }
        self.changed.insert(piece.clone());
        self.plan.insert(piece, Arc::new(content));
    }

    /// The plan lacks the piece.
    pub(crate) fn remove(&mut self, piece: Piece) {
        if self.plan.remove(&piece).is_some() {
            self.changed.insert(piece);
        }
    }

    /// The entries of a set.
    pub(crate) fn members(&self, id: SetId) -> Vec<Member> {
        let first = Member::Address(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let pieces = self.plan.range(Piece::Member(id, first)..);
        let members = pieces.map_while(|(piece, _)| match piece {
            Piece::Member(of, member) if *of == id => Some(*member),
            _ => None,
        });
        members.collect()
    }

    /// The addresses of this node's pods.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let first = Piece::Address(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let pieces = self.plan.range(first..);
        pieces.filter_map(|(piece, _)| match piece {
            Piece::Address(address) => Some(*address),
            _ => None,
        })
    }
}
