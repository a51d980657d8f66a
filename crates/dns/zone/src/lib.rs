//! What a cluster's DNS answers: a pure function of the cluster's objects and a question.

mod answer;
mod objects;
mod origin;
mod settings;

pub use answer::{Answer, Outcome, Question};
pub use objects::{NamespaceRule, Objects};
pub use origin::{Label, Origin};
pub use settings::{MAX_TTL, NoForwardZone, PodRecords, Settings, Zones};
