//! Tests of the workload controllers against a small API server and kubelets.

mod accounts;
mod daemon_sets;
mod deployments;
mod jobs;
mod lifecycle;
mod manifests;
mod properties;
mod replica_sets;
mod scheduling;
mod simulator;
mod stateful_sets;
mod store;
