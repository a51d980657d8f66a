//! The claims of Services: who owns what, before any port is planned.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::Hash;

use super::{Changes, Differs, Planner};
use crate::claims::{Claim, Claimant, Claims};
use crate::limit::FRONTENDS;
use crate::port::{Wanted, cluster_ip, health_check_node_port};
use crate::{Frontend, PortKey};
use sluice_model::{IpFamily, NamespacedName, Protocol, Service};

/// The effects of changed claims.
#[derive(Debug, Default)]
struct Moves {
    /// The claims whose owner changed: their claimants gain it, lose it, or report another owner. Thousands may claim one
    /// address, and its owner may change as often, so they are looked up when all has changed.
    moved: HashSet<Claim>,
    /// Claims that service ports lost while their plan still contains them.
    lost: BTreeMap<PortKey, HashSet<Claim>>,
}

/// The longest list of claims in which one is searched for: a Service may have 50,000.
const FEW: usize = 8;

/// What only the first of two lists has.
fn only_in<'a, T: Eq + Hash>(all: &'a [T], others: &'a [T]) -> impl Iterator<Item = &'a T> {
    let many: HashSet<&T> = others.iter().filter(|_| others.len() > FEW).collect();
    let are_many = others.len() > FEW;
    all.iter().filter(move |it| {
        if are_many {
            !many.contains(it)
        } else {
            !others.contains(it)
        }
    })
}

impl Planner {
    /// Updates the claims of every dirty Service, and takes what was lost from the plans of the losers.
    /// Those are planned again later; until then no plan has what another port may get.
    pub(super) fn renew_claims(&mut self, changes: &mut Changes) {
        let dirty = std::mem::take(&mut self.dirty);
        let mut moves = Moves::default();
        for (name, _) in dirty.iter().filter(|it| *it.1 == Differs::Claims) {
            self.renew_claims_of(name, &mut moves);
        }
        for (key, claims) in moves.lost {
            self.release(key, &claims, changes);
        }
        let claims = &self.plan.claims;
        let claimants = moves.moved.iter().flat_map(|it| claims.claimants(*it));
        let claimants = claimants.map(|it| &it.key().name.service);
        let affected: BTreeSet<NamespacedName> = claimants.cloned().collect();
        for name in dirty.into_keys().chain(affected) {
            self.plan_later(name);
        }
    }

    fn renew_claims_of(&mut self, name: &NamespacedName, moves: &mut Moves) {
        let new = self.wanted_claims(name);
        let old = if new.is_empty() {
            self.claimed.remove(name)
        } else {
            self.claimed.insert(name.clone(), new.clone())
        };
        let old = old.unwrap_or_default();
        if old == new {
            return;
        }
        self.revision += 1;
        for (claim, claimant) in only_in(&old, &new) {
            self.change(*claim, moves, |claims| claims.remove(*claim, claimant));
        }
        for (claim, claimant) in only_in(&new, &old) {
            self.change(*claim, moves, |claims| {
                claims.add(*claim, claimant.clone());
            });
        }
    }

    /// Changes the claimants of a claim, and notes what follows if it has another owner then.
    fn change(&mut self, claim: Claim, moves: &mut Moves, change: impl FnOnce(&mut Claims)) {
        let claims = &mut self.plan.claims;
        let before = claims.holder(claim).cloned();
        change(claims);
        let after = claims.holder(claim);
        if before.as_ref() == after {
            return;
        }
        moves.moved.insert(claim);
        let before = before.map(|it| it.key().clone());
        let Some(after) = after else {
            self.leaving.extend(before.map(|it| (claim, it)));
            return;
        };
        let before = before.or_else(|| self.leaving.remove(&claim));
        if let Some(before) = before.filter(|it| it != after.key()) {
            moves.lost.entry(before).or_default().insert(claim);
        }
    }

    /// Takes claims from the plan of a port.
    fn release(&mut self, key: PortKey, claims: &HashSet<Claim>, changes: &mut Changes) {
        let Some(plan) = self.plan.ports.get(&key) else {
            return;
        };
        let mut plan = (**plan).clone();
        let kept = |it: &Frontend| !claims.contains(&Claim::Frontend(*it));
        plan.frontends.retain(|it| kept(&it.frontend));
        plan.owned_cluster_ip
            .take_if(|it| claims.contains(&Claim::Address(*it)));
        let is_left = !plan.frontends.is_empty() || plan.owned_cluster_ip.is_some();
        self.store(key, is_left.then_some(plan), changes);
    }

    fn wanted_claims(&self, name: &NamespacedName) -> Vec<(Claim, Claimant)> {
        let mut claims = Vec::new();
        let Some(service) = self.served(name) else {
            return claims;
        };
        for family in IpFamily::ALL {
            let mut is_first = true;
            for (key, wanted) in self.ports(service, family) {
                let claimant = Claimant::new(service.created, key);
                if std::mem::take(&mut is_first) {
                    let asked = self.asked(service, family).into_iter();
                    let asked = asked.take(FRONTENDS);
                    claims.extend(
                        asked.map(|(addr, role)| (Claim::Address(addr), claimant.asking_as(role))),
                    );
                }
                let claim =
                    |it: &Wanted| (Claim::Frontend(it.frontend), claimant.asking_as(it.role));
                claims.extend(wanted.iter().map(claim));
            }
            claims.extend(self.health_check_claim(service, family));
        }
        claims
    }

    /// The claim of a Service on its health check node port in one family, if it may have the port.
    pub(super) fn health_check_claim(
        &self,
        service: &Service,
        family: IpFamily,
    ) -> Option<(Claim, Claimant)> {
        cluster_ip(service, family)?;
        let port = health_check_node_port(service)?.get();
        let problem = self.admission.node_port_problem(port, Protocol::Tcp);
        let claim = Claim::Frontend(Frontend::NodePort {
            family,
            port,
            protocol: Protocol::Tcp,
        });
        let claimant = Claimant::new(service.created, PortKey::first_of(&service.name));
        problem
            .is_none()
            .then(|| (claim, claimant.for_health_check()))
    }
}
