//! The part of a Kubernetes control plane that Services need: EndpointSlices, ClusterIPs, NodePorts and load balancer
//! addresses; and the [controllers of workloads](workloads), which make the pods behind them. Pure: no I/O, no clock, no
//! randomness.
//!
//! ```text
//! Services, Pods, Nodes, Endpoints ──absorb──▶ Controller ──changes──▶ EndpointSlices
//! Service as somebody wrote it ──▶ Allocator ──▶ Service with addresses and ports
//! manifests ──▶ Folder: both of these ──▶ what a proxy needs
//! Deployments and so on, Pods, Nodes ──▶ workloads::reconcile ──▶ ReplicaSets, Pods, statuses
//! ```
//!
//! The objects are those of the Kubernetes API, because that is what comes in and goes out. Rules are kube-controller-manager's
//! and kube-apiserver's of Kubernetes 1.36, each with its source.
//!
//! # Invariants
//!
//! - The endpoints of a Service are a function of the objects. Which slice an endpoint is in depends on the
//!   slices before, so that a change rewrites few of them.
//! - Where Kubernetes chooses by chance (names of slices, addresses, ports), we choose by a hash of the
//!   Service's name: the same manifests get the same addresses.
//! - After the changes are made, there are none.

mod allocation;
mod controller;
mod defaults;
mod field;
mod folder;
mod format;
mod index;
mod meta;
mod quantity;
mod selector;
mod slices;
mod typed;
mod validation;
pub mod workloads;

pub use allocation::{Allocator, Pools, Refusal, is_allocated};
pub use controller::{Change, Controller, Object};
pub use defaults::set_defaults;
pub use field::FieldError;
pub use folder::{Completed, Folder, Manifests};
pub use format::{ANNOTATIONS, Format};
pub use meta::pod_reference;
pub use quantity::Quantity;
pub use typed::Typed;
pub use validation::{validate_service, validate_slice};
