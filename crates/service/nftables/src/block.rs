//! The rules of some endpoints of a service port with session affinity.

use std::net::SocketAddr;
use std::sync::Arc;

use sluice_model::Protocol;
use sluice_nft::rule::{Field, Side};

use crate::rule::{Action, Match, Rule, Sense, SetRef};

/// Endpoints by label.
pub(crate) type Members = Arc<[(u32, SocketAddr)]>;

/// The rules of some endpoints of a service port with session affinity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub(crate) part: Part,
    pub(crate) protocol: Protocol,
    /// The set of the port's clients.
    pub(crate) clients: Arc<str>,
    pub(crate) timeout_seconds: u32,
    pub(crate) members: Members,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// For clients that the set has.
    Known,
    /// For all other clients: one endpoint at random.
    Random,
}

impl Block {
    pub(crate) fn rules(&self) -> Vec<Rule> {
        let members = self.members.iter().enumerate();
        let rules = members.map(|(index, &(label, addr))| {
            let clients = SetRef::Clients(self.clients.clone());
            // The source address, and the label beside it.
            let label = Field::Random {
                modulus: 1,
                offset: label,
            };
            let client = vec![Field::Address(Side::Source), label];
            let seconds = self.timeout_seconds;
            let remember = Action::Remember(clients.clone(), client.clone().into(), seconds);
            let rule = match self.part {
                Part::Known => Rule::when(Match::In(Sense::Is, client.into(), clients), remember),
                Part::Random => share(1, self.members.len() - index, remember),
            };
            // nft wants to know the protocol where a port is translated.
            let protocol = Match::Protocol(self.protocol.number());
            rule.and(protocol).then(Action::DestinationTo(addr))
        });
        rules.collect()
    }
}

impl Part {
    pub(crate) const ALL: [Self; 2] = [Self::Known, Self::Random];
}

/// A rule for `size` in `of` packets.
pub(crate) fn share(size: usize, of: usize, action: Action) -> Rule {
    let number = |it| u32::try_from(it).expect("a pool has fewer than 2^32 endpoints");
    if size == of {
        Rule::always(action)
    } else {
        Rule::when(Match::Share(number(size), number(of)), action)
    }
}
