//! A library of watches: objects of any kind, from a folder of manifests or an API server, for any number of consumers
//! ([`Hub`]).
//!
//! From a folder and its subfolders: objects that Kubernetes would accept, from `*.yaml`, `*.yml` and
//! `*.json`; everything else becomes a [`Problem`] that names file, line, object and field, and leaves all
//! other objects alone.
//!
//! ```text
//! folder ─▶ yaml: bytes → tree with lines ─▶ Kind: serde struct → model ─▶ catalog ─▶ hub ─▶ consumers
//!    ▲      (manifest: one file → objects and problems)                    (files → objects)
//!  watch: inotify → complete files
//! ```
//!
//! [`objects`](objects()) reads all objects of a folder as they are written, for readers that need other kinds.
//!
//! [`load`] reads the folder once, [`Hub::watch`] follows it. A [`Kind`](kind::Kind) does not depend on files:
//! [`apiserver`] uses it too.
//!
//! # Invariants
//! - An object that leaves this crate has DNS names, ports in range and addresses that fit.
//! - An object that cannot be read is not taken for deleted: its last good version stays in force until it is
//!   replaced or deleted, and a problem says so. It is tried again until it can be read.
//! - Events are differences to the events before: an unchanged object is no event.
//! - The cost of a change is proportional to the changed files. All deletions of a change are in one batch of events.

pub mod apiserver;

mod api;
mod catalog;
mod convert;
mod error;
mod folder;
mod hub;
pub mod kind;
pub mod kinds;
mod known;
mod load;
mod manifest;
mod object;
mod objects;
mod received;
mod regular;
mod report;
mod watch;

pub use error::SourceError;
pub use hub::{FieldTest, Hub, Need, Selection, Subscription, Wants};
pub use load::{Loaded, load, parse};
pub use manifest::Problem;
pub use objects::{Written, objects};
pub use regular::read_regular;
pub use sluice_model::Notice;
pub use watch::{Reading, Watch, watch_changes, watch_file};
