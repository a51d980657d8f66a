//! A Kubernetes cluster of network namespaces on one machine.
//!
//! ```text
//!             sluice lab apply, kubectl
//!                       │
//!   serve:   API ─▶ store ─▶ controllers: slices, workloads     ─▶ store
//!                       ├──▶ machines: nodes as namespaces, agents ─▶ status of Nodes
//!                       └──▶ pods: namespaces, processes, probes   ─▶ status of Pods
//! ```
//!
//! # Invariants
//!
//! - Everything of a lab is a descendant of one process, in a pid, mount and network namespace of its own:
//!   when that process ends, nothing of the lab is left but its folder ([`lab_dir`]).
//! - The store is the only state. Every part compares it with what is there, and goes on after a restart of
//!   the others.

mod admission;
pub mod alone;
pub mod capture;
pub mod client;
mod console;
mod control;
pub mod enter;
mod entry;
mod events;
mod exchange;
pub mod host_resolver;
pub mod identity;
pub mod images;
mod journal;
mod kube_system;
pub mod lab_dir;
pub mod launch;
mod log_file;
mod logs;
mod machines;
pub mod names;
pub mod nodes;
mod object;
mod outside;
mod own_service;
mod pods;
mod polled;
pub mod probe;
pub mod process;
mod programs;
mod record;
mod reports;
mod resume;
pub mod serve;
mod terminal;
mod timed;
mod usage;
mod zones;
