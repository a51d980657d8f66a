//! A Kubernetes API server in memory.
//!
//! ```text
//! kubectl, agents ──HTTP──▶ write ─┐                ┌──▶ watch ──▶ kubectl, agents
//!                                  ├─▶ Store ─▶ History ──▶ list, get
//! controllers ──create, update─────┘     │          └──▶ changes_since ──▶ controllers
//!                                 admission, journal
//! ```
//!
//! [`History`] gives out versions and keeps what was; [`Store`] decides what a write means, as
//! kube-apiserver 1.36 does: uids, generations, graceful deletion, owners, namespaces.
//!
//! # Invariants
//!
//! - One lock of the history, never held while something is sent, awaited or written to disk. An
//!   object is serialised once per version, a watch event once, whoever asks.
//! - Every change has a version of its own, one greater than the last, whatever the collection.
//! - A change is visible only after the journal took it.

mod access;
pub mod answer;
mod apply;
pub mod body;
mod custom;
mod discovery;
mod format;
mod history;
mod http;
mod identity;
pub mod list;
mod object;
mod openapi;
mod patch;
mod protobuf;
pub mod query;
pub mod read;
mod resource;
mod route;
mod schema;
mod selector;
mod server;
mod status;
mod store;
mod table;
mod tokens;
mod unverified;
mod user;
mod validation;
pub mod watch;
mod yaml;

pub use access::authenticate;
pub use format::{Format, Include};
pub use history::{Collection, Event, Forgotten, History, Incoming, Misplaced, State, now};
pub use http::{
    Api, Dial, LogOptions, Logs, Metrics, NotRunning, Programs, Requests, Sessions, Used,
};
pub use identity::{CertificateError, ClientCertificates, Identity, Pems, kubeconfig};
pub use object::{Key, Object};
pub use resource::{KINDS, NameRule, Registry, Resource, Subresource};
pub use route::Target;
pub use selector::{FieldSelector, Filter, selector_text};
pub use server::Server;
pub use status::{Cause, Status};
pub use store::{
    Admission, AdmitAll, Author, Change, DeleteOptions, Effect, Journal, Propagation, Settings,
    Store,
};
pub use tokens::Tokens;
pub use unverified::unverified_client;
pub use user::User;
pub use validation::complete;
