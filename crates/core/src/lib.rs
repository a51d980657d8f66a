//! Services and endpoints in, the fate of every packet out: model, state, plan, lookup.
pub mod model;
