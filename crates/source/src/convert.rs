//! API object → model object, every problem of the object at once.
//!
//! The rules are the API server's where they protect us: what passes has DNS names, ports in
//! range and addresses that can be programmed. A [`Fault`] either refuses the object or only
//! drops the value it names; the text says which.

pub(crate) mod address;
mod fault;
mod intern;
pub(crate) mod name;

pub use fault::{At, Converted, Fault, Faults, Step};
pub use intern::Interner;
pub(crate) use name::displayable;
pub use name::{cluster_scoped, labels, namespaced};
