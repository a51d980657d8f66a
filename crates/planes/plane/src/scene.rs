//! What the objects of every service port may depend on beside its plan.

use sluice_plan::NodePlan;

/// The node's part of the plan, and how large the plan is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    /// The node's part of the plan.
    pub node: NodePlan,
    /// How large the plan is.
    pub scale: Scale,
}

/// How large the plan has ever been in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Few endpoints: prefer a ruleset that is pleasant to read.
    #[default]
    Small,
    /// Many: prepare what would be expensive to add later.
    Large,
}
