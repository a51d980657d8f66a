//! Whether one policy is in force on this node.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sluice_model::NamespacedName;
use sluice_nft::Kernel;
use sluice_policy_plan::{Content, Direction, Piece, Profile};

use crate::Policies;

/// One policy on this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyState {
    /// The agent knows the policy, and the kernel has every rule that follows from it.
    pub in_force: bool,
    /// `metadata.resourceVersion` of the policy as the agent knows it; `None` without a policy, and for one of a file
    /// that has no version.
    pub version: Option<String>,
    /// Addresses of pods of this node that the policy is about.
    pub addresses: usize,
    /// Why it is not in force; empty when it is.
    pub why: String,
}

impl<K: Kernel> Policies<K> {
    /// The state of a NetworkPolicy; without a namespace, of a ClusterNetworkPolicy.
    pub(crate) fn state(&self, name: &NamespacedName) -> PolicyState {
        let planner = self.planner();
        let known: Option<Option<Arc<str>>> = if name.namespace.is_empty() {
            let policy = planner.cluster_policy(&name.name);
            policy.map(|it| it.version.clone())
        } else {
            planner.policy(name).map(|it| it.version.clone())
        };
        let why = if known.is_none() {
            "the agent knows no such policy".to_owned()
        } else {
            self.unwritten().unwrap_or_default()
        };
        PolicyState {
            in_force: why.is_empty(),
            version: known.flatten().map(|it| it.to_string()),
            addresses: self.subjects(name),
            why,
        }
    }

    /// How many addresses of pods of this node the policy is about.
    fn subjects(&self, name: &NamespacedName) -> usize {
        let plan = self.planner().plan();
        let has_it = |it: &Profile| {
            if name.namespace.is_empty() {
                it.has_cluster_policy(&name.name)
            } else {
                it.has_policy(name)
            }
        };
        let is_subject = |content: &Content| {
            let Content::Address(_, address) = content else {
                return false;
            };
            let profiles = Direction::ALL
                .into_iter()
                .filter_map(|it| address.profile(it));
            let mut profiles = profiles.filter_map(|it| plan.get(&Piece::Profile(it)));
            profiles.any(|it| matches!(&**it, Content::Profile(_, it) if has_it(it)))
        };
        plan.values().filter(|it| is_subject(it)).count()
    }
}
