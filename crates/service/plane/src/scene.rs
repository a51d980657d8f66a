//! Input of rendering beside the plan of a service port.

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
    /// Few endpoints: rules have comments, for readers.
    #[default]
    Small,
    /// Many endpoints: rules are smaller, and sets are prepared for more.
    Large,
}
